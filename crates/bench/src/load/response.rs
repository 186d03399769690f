//! Reads HTTP/1.1 responses: status, `Content-Length`, `Transfer-Encoding: chunked`, `Connection: close`.
//!
//! Only what a load generator needs: one response at a time (no pipelining), trailers ignored, no 1xx.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, BufReader, copy_buf, sink};

/// A longer line means that the peer does not speak HTTP.
const LINE_BYTES_MAX: usize = 64 << 10;

/// A response's header.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub status: u16,
    /// The connection can be reused.
    pub keep_alive: bool,
    length: Option<u64>,
    is_chunked: bool,
}

/// Reads a response; `line` is memory for its lines. Its body is appended to `body` if it is wanted, or an error's.
pub async fn read(
    reader: &mut BufReader<impl AsyncRead + Unpin>,
    line: &mut Vec<u8>,
    is_wanted: bool,
    body: &mut Vec<u8>,
) -> io::Result<Answer> {
    let mut answer = read_head(reader, line).await?;
    let mut ignored = sink();
    let is_kept = is_wanted || answer.status >= 400;
    let out: &mut (dyn AsyncWrite + Unpin) = if is_kept { body } else { &mut ignored };
    match (answer.status, answer.length) {
        (204 | 304, _) => {}
        _ if answer.is_chunked => copy_chunks(reader, line, out).await?,
        (_, Some(length)) => copy_exactly(reader, length, out).await?,
        (_, None) => {
            answer.keep_alive = false;
            copy_buf(reader, out).await?;
        }
    }
    if !reader.buffer().is_empty() {
        return Err(io::Error::other("bytes behind the end of the answer"));
    }
    Ok(answer)
}

async fn read_head(reader: &mut BufReader<impl AsyncRead + Unpin>, line: &mut Vec<u8>) -> io::Result<Answer> {
    let mut head = match read_line(reader, line).await? {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor, b' ', a, b, c, ..]
            if [a, b, c].iter().all(|digit| digit.is_ascii_digit()) =>
        {
            let status = [a, b, c].iter().fold(0, |value, digit| value * 10 + u16::from(**digit - b'0'));
            Answer { status, keep_alive: *minor != b'0', length: None, is_chunked: false }
        }
        _ => return Err(io::Error::other("not an HTTP/1 status line")),
    };
    loop {
        let line = read_line(reader, line).await?;
        if line.is_empty() {
            return Ok(head);
        }
        if let Some(value) = header(line, b"content-length") {
            let length = decimal(value);
            head.length =
                Some(length.ok_or_else(|| io::Error::other("a Content-Length that is not a number"))?);
        } else if let Some(value) = header(line, b"transfer-encoding") {
            head.is_chunked = value.eq_ignore_ascii_case(b"chunked");
        } else if let Some(value) = header(line, b"connection") {
            if value.eq_ignore_ascii_case(b"close") {
                head.keep_alive = false;
            } else if value.eq_ignore_ascii_case(b"keep-alive") {
                head.keep_alive = true;
            }
        }
    }
}

/// The next line, without its end.
async fn read_line<'a>(
    reader: &mut BufReader<impl AsyncRead + Unpin>,
    line: &'a mut Vec<u8>,
) -> io::Result<&'a [u8]> {
    line.clear();
    reader.take(LINE_BYTES_MAX as u64).read_until(b'\n', line).await?;
    match line.strip_suffix(b"\n") {
        Some(line) => Ok(line.trim_ascii_end()),
        None if line.len() == LINE_BYTES_MAX => Err(io::Error::other("a line without an end")),
        None => Err(closed()),
    }
}

/// Copies the chunks of a body, and reads the trailers.
async fn copy_chunks(
    reader: &mut BufReader<impl AsyncRead + Unpin>,
    line: &mut Vec<u8>,
    out: &mut (dyn AsyncWrite + Unpin),
) -> io::Result<()> {
    loop {
        let size = chunk_bytes(read_line(reader, line).await?);
        let size = size.ok_or_else(|| io::Error::other("a chunk without a size"))?;
        if size == 0 {
            break;
        }
        copy_exactly(reader, size, out).await?;
        if !read_line(reader, line).await?.is_empty() {
            return Err(io::Error::other("a chunk longer than its size"));
        }
    }
    while !read_line(reader, line).await?.is_empty() {}
    Ok(())
}

async fn copy_exactly(
    reader: &mut BufReader<impl AsyncRead + Unpin>,
    bytes: u64,
    out: &mut (dyn AsyncWrite + Unpin),
) -> io::Result<()> {
    let copied = copy_buf(&mut reader.take(bytes), out).await?;
    if copied == bytes { Ok(()) } else { Err(closed()) }
}

fn closed() -> io::Error {
    io::Error::other("closed before the end of the answer")
}

/// The size in a chunk's first line: hexadecimal digits, which an extension may follow.
fn chunk_bytes(line: &[u8]) -> Option<u64> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    u64::from_str_radix(std::str::from_utf8(&line[..digits]).ok()?, 16).ok()
}

/// The value of a header line with this lower-case name.
pub(crate) fn header<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (found, value) = line.split_at_checked(name.len())?;
    (found.eq_ignore_ascii_case(name) && value.first() == Some(&b':')).then(|| value[1..].trim_ascii())
}

pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a response in pieces of `step` bytes.
    async fn read_text(text: &[u8], step: usize, is_wanted: bool) -> io::Result<(Answer, Vec<u8>)> {
        let (mut line, mut body) = (Vec::new(), Vec::new());
        let mut reader = BufReader::with_capacity(step, text);
        let answer = read(&mut reader, &mut line, is_wanted, &mut body).await?;
        Ok((answer, body))
    }

    #[tokio::test]
    async fn answers_are_the_same_however_they_are_cut() {
        const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let cases: &[(&str, u16, bool, &str)] = &[
            ("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", 202, true, ""),
            ("HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n", 204, true, ""),
            ("HTTP/1.1 200 OK\r\ncontent-length:5\r\nConnection: Close\r\n\r\nhello", 200, false, "hello"),
            ("HTTP/1.1 500 Oops\r\n\r\nuntil the end", 500, false, "until the end"),
            ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, false, "x"),
            ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", 200, true, "x"),
        ];
        let greeting = format!("{CHUNKED}5\r\nhello\r\nB;x=1\r\n, world.\r\n.\r\n0\r\n\r\n");
        let with_trailer = format!("{CHUNKED}1\r\na\r\n0\r\nX: y\r\n\r\n");
        let chunked = [(&*greeting, 200, true, "hello, world.\r\n."), (&*with_trailer, 200, true, "a")];
        for (text, status, keep_alive, body) in cases.iter().chain(&chunked) {
            for step in [1, 2, 3, 7, text.len()] {
                let (answer, found) = read_text(text.as_bytes(), step, true).await.unwrap();
                assert_eq!((answer.status, answer.keep_alive), (*status, *keep_alive), "{text}");
                assert_eq!(found, body.as_bytes(), "{text}, {step} bytes at a time");
            }
        }
    }

    #[tokio::test]
    async fn damaged_answers_are_errors() {
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
            assert!(read_text(text.as_bytes(), text.len().max(1), true).await.is_err(), "{text}");
        }
        let endless = vec![b'x'; LINE_BYTES_MAX + 1];
        let error = read_text(&endless, endless.len(), true).await.unwrap_err();
        assert_eq!(error.to_string(), "a line without an end");
    }

    #[tokio::test]
    async fn the_text_of_a_refusal_is_kept() {
        for (status, kept) in [("404 Gone", "why"), ("200 OK", "")] {
            let text = format!("HTTP/1.1 {status}\r\nContent-Length: 3\r\n\r\nwhy");
            let (_, body) = read_text(text.as_bytes(), text.len(), false).await.unwrap();
            assert_eq!(body, kept.as_bytes(), "{status}");
        }
    }
}
