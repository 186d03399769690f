//! HTTP and HTTPS to a store: a bounded connection pool, attempts with timeouts, and delays between them.
//!
//! Each store interprets the responses, and decides about retries.

use std::{path::PathBuf, time::Duration};

pub(crate) use gnudi_http::Answer;
use gnudi_http::{Bytes, HttpClient, Request, StatusCode, Trust, TrustError};
use tokio::{sync::Semaphore, time::Instant};

use super::ObjectError;

/// Timeout of connecting.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(3);
/// Idle connections are closed after this time; servers do so too, often after a minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// Objects are far smaller; a longer response is an error.
const ANSWER_BYTES_MAX: usize = 1 << 30;
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Settings of the HTTP client of a store.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Timeout of a call, including retries.
    pub deadline: Duration,
    /// Timeout of one attempt.
    pub attempt_timeout: Duration,
    /// Concurrent requests; others wait.
    pub connections_max: usize,
    /// Trusted certificates (PEM), instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Whether to accept any certificate.
    pub insecure: bool,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(10),
            attempt_timeout: Duration::from_secs(5),
            connections_max: 50,
            ca_file: None,
            insecure: false,
        }
    }
}

pub(crate) struct Http {
    client: HttpClient,
    permits: Semaphore,
    options: HttpOptions,
}

/// The requested part of an object, even if the server sent the whole object.
pub(crate) fn part_of(answer: &Answer, start: u64, length: u64) -> Bytes {
    if answer.status == StatusCode::PARTIAL_CONTENT {
        return answer.body.clone();
    }
    let start = start.min(answer.body.len() as u64);
    let end = start.saturating_add(length).min(answer.body.len() as u64);
    answer.body.slice(start as usize..end as usize)
}

impl Http {
    /// `secure`: whether HTTPS is used, so that certificates are needed. The error is a text.
    pub(crate) fn new(options: &HttpOptions, secure: bool) -> Result<Self, String> {
        let trust = match &options.ca_file {
            // Do not load certificates that are not needed.
            _ if options.insecure || !secure => Trust::Anyone,
            Some(file) => Trust::File(file.clone()),
            None => Trust::System,
        };
        let client = HttpClient::new(&gnudi_http::HttpOptions {
            trust,
            identity: None,
            timeout: options.attempt_timeout,
            connect_timeout: CONNECT_TIMEOUT_MAX,
            idle_connections_max: options.connections_max,
            idle_timeout: IDLE_TIMEOUT,
            answer_bytes_max: ANSWER_BYTES_MAX,
        })
        .map_err(|TrustError(text)| text)?;
        Ok(Self { client, permits: Semaphore::new(options.connections_max.max(1)), options: options.clone() })
    }

    /// Begins a call.
    pub(crate) fn tries(&self) -> Tries {
        Tries {
            end: Instant::now() + self.options.deadline,
            deadline: self.options.deadline,
            pause: PAUSE_MIN,
        }
    }

    /// Sends a request once. After an error the request may have taken effect.
    pub(crate) async fn send(&self, tries: &Tries, request: Request<Bytes>) -> Result<Answer, String> {
        let timeout = self.options.attempt_timeout.min(tries.left());
        let exchange = async {
            let _permit = self.permits.acquire().await.expect("never closed");
            self.client.send(request).await.map_err(|error| error.to_string())
        };
        let late = |_| Err(format!("no answer within {timeout:.1?}"));
        tokio::time::timeout(timeout, exchange).await.unwrap_or_else(late)
    }
}

/// The attempts of one call, with its deadline.
pub(crate) struct Tries {
    end: Instant,
    deadline: Duration,
    pause: Duration,
}

impl Tries {
    fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Waits before the next attempt; fails with `reason` if no time is left.
    pub(crate) async fn again(&mut self, place: &str, reason: &str) -> Result<(), ObjectError> {
        // A random delay in the upper half, so that clients which failed together do not retry together.
        let pause = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        if self.left() <= pause {
            let deadline = self.deadline;
            return Err(ObjectError::Unavailable(format!(
                "{place}: given up after {deadline:.0?}: {reason}"
            )));
        }
        tracing::debug!(place, reason, "trying again");
        tokio::time::sleep(pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    /// The URL of a server that gives this answer to all requests.
    pub(crate) async fn server(status: &'static str, body: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let length = body.len();
                    let head =
                        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
                    // The requests are short: each comes in one piece.
                    let _ = stream.read(&mut [0; 4096]).await;
                    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
                    let _ = stream.shutdown().await;
                    // Until the client closes: to be first would reset the connection.
                    let _ = stream.read(&mut [0; 4096]).await;
                });
            }
        });
        url
    }
}
