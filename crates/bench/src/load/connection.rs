//! One connection of a load: sends a request, reads its response, counts, repeats.

use std::{
    cell::Cell,
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use super::{
    Keep, LoadProgress, Outcome,
    requests::Parts,
    response::{Answer, Parser},
    stream::{Secured, Stream},
};

/// Read buffer: large, so that responses of megabytes need few system calls.
const READ_BYTES: usize = 256 << 10;

/// Pause before a refused request is retried, and before a lost connection is reopened.
const PAUSE: Duration = Duration::from_millis(5);

/// Attempts of a request before it counts as failed.
const ATTEMPTS_MAX: u32 = 3;

/// A connection with its parser.
pub(super) struct Connection {
    address: SocketAddr,
    secured: Option<Secured>,
    /// `None` after an error, or if the peer closes after each response.
    stream: Option<Stream>,
    /// Responses received over the stream.
    answers: u64,
    /// The peer closes after each response without announcing it (uwsgi does): use a new connection for each request.
    closes_silently: bool,
    parser: Parser,
    buffer: Vec<u8>,
}

impl Connection {
    /// Opens a connection; on failure the first request tries again.
    pub(super) async fn open(address: SocketAddr, secured: Option<&Secured>) -> Self {
        let stream = Stream::open(address, secured).await.ok();
        Connection {
            address,
            secured: secured.cloned(),
            stream,
            answers: 0,
            closes_silently: false,
            parser: Parser::default(),
            buffer: vec![0; READ_BYTES],
        }
    }

    /// Sends a request and reads its response on the open connection, or on a new one.
    async fn exchange(&mut self, parts: &Parts<'_>, mut body: Option<&mut Vec<u8>>) -> io::Result<Answer> {
        self.parser.reset();
        let mut stream = if let Some(stream) = self.stream.take() {
            stream
        } else {
            self.answers = 0;
            Stream::open(self.address, self.secured.as_ref()).await?
        };
        stream.send(parts).await?;
        loop {
            let count = stream.read(&mut self.buffer).await?;
            let answer = match count {
                0 => Some(self.parser.close()),
                _ => self.parser.feed(&self.buffer[..count], body.as_deref_mut()).transpose(),
            };
            if let Some(answer) = answer.transpose().map_err(|bad| io::Error::other(bad.0))? {
                self.answers += 1;
                if answer.keep_alive && !self.closes_silently {
                    self.stream = Some(stream);
                }
                return Ok(answer);
            }
        }
    }
}

/// Sends requests until the load ends; `lane` is the connection's first request, with [`Order::Lanes`].
///
/// Counts into `outcome`, which outlives a connection that is given up.
pub(super) async fn drive(
    mut connection: Connection,
    mut lane: u64,
    shared: &LoadProgress<'_>,
    answered: &Cell<u64>,
    outcome: &mut Outcome,
) {
    let mut start = Instant::now();
    let mut scratch = Vec::new();
    while let Some(index) = shared.claim(start, &mut lane) {
        let parts = shared.load.requests.parts(index);
        let mut attempts = 0;
        loop {
            let of_bodies = matches!(shared.load.keep, Keep::Bodies | Keep::Ids);
            let wanted = of_bodies || outcome.sample.is_none();
            scratch.clear();
            outcome.reconnects += u64::from(connection.stream.is_none());
            let result = connection.exchange(&parts, wanted.then_some(&mut scratch)).await;
            let end = Instant::now();
            attempts += 1;
            answered.set(answered.get() + 1);
            match result {
                Ok(answer) if (200..300).contains(&answer.status) => {
                    if let Err(failure) = outcome.take(&answer, index, &mut scratch, shared.load) {
                        shared.failed(outcome, || failure.to_owned(), index);
                    } else {
                        shared.record(outcome, start, end);
                    }
                    start = end;
                    break;
                }
                // Back-pressure: the server asks to retry later.
                Ok(answer) if matches!(answer.status, 429 | 503) => {
                    outcome.refused += 1;
                    tokio::time::sleep(PAUSE).await;
                    start = Instant::now();
                    if shared.is_over(start) {
                        break;
                    }
                }
                // The peer closed the connection after its last response: the request was not read.
                Err(_) if attempts < ATTEMPTS_MAX && connection.parser.is_untouched() => {
                    connection.closes_silently |= connection.answers == 1;
                    if connection.answers == 0 {
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                failed => {
                    let words = || match failed {
                        Ok(answer) => refusal(answer.status, connection.parser.refusal()),
                        Err(error) => error.to_string(),
                    };
                    shared.failed(outcome, words, index);
                    start = end;
                    break;
                }
            }
        }
    }
}

/// A status and the server's message.
fn refusal(status: u16, body: &[u8]) -> String {
    let words = gnudi_client::message_of(body);
    // HTML error pages have many lines, and may begin with the status.
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let status = status.to_string();
    if words.starts_with(&status) { words } else { format!("{status} {words}").trim_end().to_owned() }
}
