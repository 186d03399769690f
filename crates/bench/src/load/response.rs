//! An incremental parser of HTTP/1.1 responses: status, `Content-Length`, `Transfer-Encoding: chunked`, `Connection:
//! close`.
//!
//! Only what a load generator needs: one response at a time (no pipelining), trailers ignored, no 1xx.

/// Maximum bytes of an error response kept for the message.
const REFUSAL_BYTES_MAX: usize = 16 << 10;

/// A longer header means that the peer does not speak HTTP.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// A response's header, and the length of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// The connection can be reused.
    pub keep_alive: bool,
    pub body_bytes: u64,
}

/// An unsupported or invalid response; the connection is unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadAnswer(pub &'static str);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Reading the header.
    Head,
    /// This many bytes of the body remain.
    Length(u64),
    /// Reading a chunk's size line.
    ChunkSize,
    /// This many bytes of the chunk, including its line end, remain.
    Chunk(u64),
    /// After the last chunk: lines up to an empty one.
    Trailer,
    /// The body ends when the peer closes.
    UntilClose,
    Done,
}

/// A parser for consecutive responses.
#[derive(Debug)]
pub struct Parser {
    state: State,
    head: Vec<u8>,
    answer: Answer,
    refusal: Vec<u8>,
}

const NO_ANSWER: Answer = Answer { status: 0, keep_alive: true, body_bytes: 0 };

impl Default for Parser {
    fn default() -> Self {
        Parser { state: State::Head, head: Vec::new(), answer: NO_ANSWER, refusal: Vec::new() }
    }
}

impl Parser {
    /// Resets it for the next response.
    pub fn reset(&mut self) {
        self.state = State::Head;
        self.head.clear();
        self.answer = NO_ANSWER;
        self.refusal.clear();
    }

    /// The start of the body of an error response.
    pub fn refusal(&self) -> &[u8] {
        &self.refusal
    }

    /// Parses the next bytes. `Some` once the response is complete; body bytes are appended to `body` if wanted.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        mut body: Option<&mut Vec<u8>>,
    ) -> Result<Option<Answer>, BadAnswer> {
        while !bytes.is_empty() {
            let taken = match self.state {
                State::Head => self.feed_head(bytes)?,
                State::Length(left) => {
                    let taken = self.take_body(bytes, left, &mut body);
                    self.state = match left - taken as u64 {
                        0 => State::Done,
                        left => State::Length(left),
                    };
                    taken
                }
                State::UntilClose => self.take_body(bytes, u64::MAX, &mut body),
                State::Chunk(left) => self.feed_chunk(bytes, left, &mut body)?,
                State::ChunkSize | State::Trailer => self.feed_line(bytes)?,
                State::Done => return Err(BadAnswer("bytes behind the end of the answer")),
            };
            bytes = &bytes[taken..];
        }
        Ok((self.state == State::Done).then_some(self.answer))
    }

    /// The peer closed: the end of a response of unknown length, else an error.
    pub fn close(&mut self) -> Result<Answer, BadAnswer> {
        match self.state {
            State::UntilClose => {
                self.state = State::Done;
                Ok(self.answer)
            }
            _ => Err(BadAnswer("closed before the end of the answer")),
        }
    }

    /// Whether no byte of a response was received yet.
    pub fn is_untouched(&self) -> bool {
        self.state == State::Head && self.head.is_empty()
    }

    fn take_body(&mut self, bytes: &[u8], left: u64, body: &mut Option<&mut Vec<u8>>) -> usize {
        let taken = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        self.answer.body_bytes += taken as u64;
        if self.answer.status >= 400 {
            let room = REFUSAL_BYTES_MAX - self.refusal.len();
            self.refusal.extend_from_slice(&bytes[..taken.min(room)]);
        }
        if let Some(body) = body {
            body.extend_from_slice(&bytes[..taken]);
        }
        taken
    }

    fn feed_head(&mut self, bytes: &[u8]) -> Result<usize, BadAnswer> {
        // The usual case: the whole header in one piece, parsed in place.
        if self.head.is_empty()
            && let Some(end) = head_end(bytes, 0)
        {
            self.read_head(&bytes[..end])?;
            return Ok(end);
        }
        let before = self.head.len();
        self.head.extend_from_slice(bytes);
        match head_end(&self.head, before.saturating_sub(3)) {
            Some(end) => {
                let head = std::mem::take(&mut self.head);
                self.read_head(&head[..end])?;
                Ok(end - before)
            }
            None if self.head.len() > HEAD_BYTES_MAX => Err(BadAnswer("a head without an end")),
            None => Ok(bytes.len()),
        }
    }

    fn read_head(&mut self, head: &[u8]) -> Result<(), BadAnswer> {
        let status = match head {
            [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor, b' ', a, b, c, ..]
                if [a, b, c].iter().all(|digit| digit.is_ascii_digit()) =>
            {
                self.answer.keep_alive = *minor != b'0';
                [a, b, c].iter().fold(0, |value, digit| value * 10 + u16::from(**digit - b'0'))
            }
            _ => return Err(BadAnswer("not an HTTP/1 status line")),
        };
        self.answer.status = status;
        let (mut length, mut chunked) = (None, false);
        for line in head.split(|&byte| byte == b'\n').skip(1) {
            // Only three headers matter; their first letters exclude most others.
            if !matches!(line.first(), Some(b'c' | b'C' | b't' | b'T')) {
                continue;
            }
            if let Some(value) = header(line, b"content-length") {
                length = Some(decimal(value)?);
            } else if let Some(value) = header(line, b"transfer-encoding") {
                chunked = value.eq_ignore_ascii_case(b"chunked");
            } else if let Some(value) = header(line, b"connection") {
                if value.eq_ignore_ascii_case(b"close") {
                    self.answer.keep_alive = false;
                } else if value.eq_ignore_ascii_case(b"keep-alive") {
                    self.answer.keep_alive = true;
                }
            }
        }
        self.state = match (status, length, chunked) {
            (204 | 304, ..) | (_, Some(0), false) => State::Done,
            (.., true) => State::ChunkSize,
            (_, Some(length), false) => State::Length(length),
            (_, None, false) => {
                self.answer.keep_alive = false;
                State::UntilClose
            }
        };
        Ok(())
    }

    /// Reads up to the end of a line between chunks.
    fn feed_line(&mut self, bytes: &[u8]) -> Result<usize, BadAnswer> {
        let taken = bytes.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |at| at + 1);
        self.head.extend_from_slice(&bytes[..taken]);
        if let Some(line) = self.head.strip_suffix(b"\n") {
            let line = line.trim_ascii_end();
            self.state = match self.state {
                State::Trailer if line.is_empty() => State::Done,
                State::Trailer => State::Trailer,
                _ => match chunk_bytes(line).ok_or(BadAnswer("a chunk without a size"))? {
                    0 => State::Trailer,
                    // The chunk's line end counts as part of it.
                    bytes => State::Chunk(bytes + 2),
                },
            };
            self.head.clear();
        } else if self.head.len() > HEAD_BYTES_MAX {
            return Err(BadAnswer("a line without an end"));
        }
        Ok(taken)
    }

    /// `left` counts the remaining data and the two bytes of its line end.
    fn feed_chunk(
        &mut self,
        bytes: &[u8],
        left: u64,
        body: &mut Option<&mut Vec<u8>>,
    ) -> Result<usize, BadAnswer> {
        let taken = match left {
            2 if bytes[0] != b'\r' => return Err(BadAnswer("a chunk longer than its size")),
            1 if bytes[0] != b'\n' => return Err(BadAnswer("a chunk longer than its size")),
            1 | 2 => 1,
            _ => self.take_body(bytes, left - 2, body),
        };
        self.state = match left - taken as u64 {
            0 => State::ChunkSize,
            left => State::Chunk(left),
        };
        Ok(taken)
    }
}

/// The end of the header, searching from `from` on.
fn head_end(bytes: &[u8], from: usize) -> Option<usize> {
    bytes[from..].windows(4).position(|window| window == b"\r\n\r\n").map(|at| from + at + 4)
}

/// The size in a chunk's first line: hexadecimal digits, which an extension may follow.
fn chunk_bytes(line: &[u8]) -> Option<u64> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let size = u64::from_str_radix(std::str::from_utf8(&line[..digits]).ok()?, 16).ok()?;
    (size < u64::MAX - 2).then_some(size)
}

/// The value of a header line with this lower-case name.
pub(crate) fn header<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (found, value) = line.split_at_checked(name.len())?;
    (found.eq_ignore_ascii_case(name) && value.first() == Some(&b':')).then(|| value[1..].trim_ascii())
}

/// A decimal number.
pub(crate) fn decimal(text: &[u8]) -> Result<u64, BadAnswer> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(BadAnswer("a Content-Length that is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds a response in pieces of `step` bytes.
    fn parse(text: &[u8], step: usize) -> Result<(Answer, Vec<u8>), BadAnswer> {
        let mut parser = Parser::default();
        let mut body = Vec::new();
        let mut answer = None;
        for piece in text.chunks(step) {
            assert_eq!(answer, None, "whole before its last byte");
            answer = parser.feed(piece, Some(&mut body))?;
        }
        match answer {
            Some(answer) => Ok((answer, body)),
            None => parser.close().map(|answer| (answer, body)),
        }
    }

    #[test]
    fn answers_are_the_same_however_they_are_cut() {
        let cases: &[(&str, u16, bool, &str)] = &[
            ("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", 202, true, ""),
            ("HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n", 204, true, ""),
            ("HTTP/1.1 200 OK\r\ncontent-length:5\r\nConnection: Close\r\n\r\nhello", 200, false, "hello"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nB;x=1\r\n, world.\r\n.\r\n0\r\n\r\n",
                200,
                true,
                "hello, world.\r\n.",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n",
                200,
                true,
                "a",
            ),
            ("HTTP/1.1 500 Oops\r\n\r\nuntil the end", 500, false, "until the end"),
            ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, false, "x"),
            ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", 200, true, "x"),
        ];
        for (text, status, keep_alive, body) in cases {
            for step in [1, 2, 3, 7, text.len()] {
                let (answer, found) = parse(text.as_bytes(), step).unwrap();
                let body_bytes = body.len() as u64;
                assert_eq!(answer, Answer { status: *status, keep_alive: *keep_alive, body_bytes }, "{text}");
                assert_eq!(found, body.as_bytes(), "{text}, {step} bytes at a time");
            }
        }
    }

    #[test]
    fn damaged_answers_are_errors() {
        for text in [
            "",
            "HTTP/1.1 20x OK\r\n\r\n",
            "SSH-2.0-OpenSSH\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na",
            "HTTP/1.1 202 OK\r\nContent-Length: 0\r\n\r\nx",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        ] {
            assert!(parse(text.as_bytes(), text.len().max(1)).is_err(), "{text}");
        }
        let mut parser = Parser::default();
        let endless = vec![b'x'; HEAD_BYTES_MAX + 1];
        assert_eq!(parser.feed(&endless, None), Err(BadAnswer("a head without an end")));
    }

    #[test]
    fn the_text_of_a_refusal_is_kept() {
        let mut parser = Parser::default();
        let body = "no such metric".repeat(2000);
        let text = format!("HTTP/1.1 404 Gone\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        for piece in text.as_bytes().chunks(1000) {
            parser.feed(piece, None).unwrap();
        }
        assert_eq!(parser.refusal(), &body.as_bytes()[..REFUSAL_BYTES_MAX]);
        parser.reset();
        parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", None).unwrap();
        assert_eq!(parser.refusal(), b"");
    }

    #[test]
    fn one_parser_reads_many_answers() {
        let mut parser = Parser::default();
        for _ in 0..3 {
            assert!(parser.is_untouched());
            let answer = parser.feed(b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok", None).unwrap();
            assert_eq!(answer.map(|answer| answer.status), Some(202));
            parser.reset();
        }
    }
}
