//! One connection of a load, a socket or TLS on it: sends a request, reads its response, counts, repeats.

use std::{
    cell::Cell,
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use bytes::Buf as _;
use gnudi_client::Trust;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, empty},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use super::{
    Keep, LoadProgress, Outcome,
    requests::Parts,
    response::{self, Answer},
};

/// Read buffer: large, so that responses of megabytes need few system calls.
const READ_BYTES: usize = 256 << 10;

/// Pause before a refused request is retried, and before a lost connection is reopened.
const PAUSE: Duration = Duration::from_millis(5);

/// Attempts of a request before it counts as failed.
const ATTEMPTS_MAX: u32 = 3;

/// TLS settings of a server, with the expected name.
#[derive(Clone)]
pub struct Secured {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Secured {
    /// `host` as in the URL, with its port.
    pub fn new(host: &str, trust: &Trust) -> Result<Self> {
        let (host, _) = host.rsplit_once(':').context("a host without a port")?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host.clone())
            .with_context(|| format!("{host}: not a name that a certificate could have"))?;
        Ok(Secured { connector: Arc::new(trust.config_as(None)?).into(), name })
    }
}

/// A socket, or TLS on it.
trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

async fn open_stream(address: SocketAddr, secured: Option<&Secured>) -> io::Result<Box<dyn Stream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let Some(Secured { connector, name }) = secured else { return Ok(Box::new(stream)) };
    Ok(Box::new(connector.connect(name.clone(), stream).await?))
}

pub(super) struct Connection {
    address: SocketAddr,
    secured: Option<Secured>,
    /// Its stream is replaced where it is not open.
    reader: BufReader<Box<dyn Stream>>,
    /// `false` after an error, or if the peer closes after each response.
    is_open: bool,
    /// Responses received over the stream.
    answers: u64,
    /// No byte of the current response was received.
    is_unanswered: bool,
    /// The peer closes after each response without announcing it (uwsgi does): use a new connection for each request.
    closes_silently: bool,
    /// Reused memory.
    line: Vec<u8>,
}

impl Connection {
    /// Opens a connection; on failure the first request tries again.
    pub(super) async fn open(address: SocketAddr, secured: Option<&Secured>) -> Self {
        let mut connection = Connection {
            address,
            secured: secured.cloned(),
            reader: BufReader::with_capacity(READ_BYTES, Box::new(empty())),
            is_open: false,
            answers: 0,
            is_unanswered: true,
            closes_silently: false,
            line: Vec::new(),
        };
        connection.is_open = connection.reopen().await.is_ok();
        connection
    }

    async fn reopen(&mut self) -> io::Result<()> {
        self.answers = 0;
        *self.reader.get_mut() = open_stream(self.address, self.secured.as_ref()).await?;
        // Of the former stream.
        let unread = self.reader.buffer().len();
        self.reader.consume(unread);
        Ok(())
    }

    /// Sends a request and reads its response on the open connection, or on a new one.
    async fn exchange(
        &mut self,
        parts: &Parts<'_>,
        is_wanted: bool,
        body: &mut Vec<u8>,
    ) -> io::Result<Answer> {
        self.is_unanswered = true;
        if !std::mem::take(&mut self.is_open) {
            self.reopen().await?;
        }
        let [first, second, third] = *parts;
        self.reader.write_all_buf(&mut first.chain(second).chain(third)).await?;
        self.reader.flush().await?;
        self.is_unanswered = self.reader.fill_buf().await?.is_empty();
        let answer = response::read(&mut self.reader, &mut self.line, is_wanted, body).await?;
        self.answers += 1;
        self.is_open = answer.keep_alive && !self.closes_silently;
        Ok(answer)
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
            let is_wanted = of_bodies || outcome.sample.is_none();
            scratch.clear();
            let result = connection.exchange(&parts, is_wanted, &mut scratch).await;
            let end = Instant::now();
            attempts += 1;
            answered.set(answered.get() + 1);
            match result {
                Ok(answer) if (200..300).contains(&answer.status) => {
                    if let Err(failure) = outcome.take(index, &mut scratch, shared.load) {
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
                Err(_) if attempts < ATTEMPTS_MAX && connection.is_unanswered => {
                    connection.closes_silently |= connection.answers == 1;
                    if connection.answers == 0 {
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                failed => {
                    let words = || match failed {
                        Ok(answer) => refusal(answer.status, &scratch),
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

fn refusal(status: u16, body: &[u8]) -> String {
    let words = gnudi_client::message_of(body);
    // HTML error pages have many lines, and may begin with the status.
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let status = status.to_string();
    if words.starts_with(&status) { words } else { format!("{status} {words}").trim_end().to_owned() }
}
