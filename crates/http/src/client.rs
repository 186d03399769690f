//! A connection pool; sends a request and reads the response.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{HeaderMap, Request, Response, StatusCode, body::Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client as Pool, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use tokio::time::{Instant, timeout};

use crate::{
    quick_ack::QuickAckConnector,
    trust::{ClientIdentity, Trust, TrustError},
};

/// Options of a client.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Trusted authorities for https://.
    pub trust: Trust,
    /// Client certificate for https:// servers that ask for one.
    pub identity: Option<ClientIdentity>,
    /// Timeout from the start of a request to the last byte of its response.
    pub timeout: Duration,
    /// Timeout of connecting; never more than `timeout`.
    pub connect_timeout: Duration,
    /// Idle connections kept per host.
    pub idle_connections_max: usize,
    /// How long they are kept: servers close them, too, often after a minute.
    pub idle_timeout: Duration,
    /// A longer response is an error, except for [`HttpClient::send_for_status`].
    pub answer_bytes_max: usize,
}

impl Default for HttpOptions {
    fn default() -> Self {
        HttpOptions {
            trust: Trust::default(),
            identity: None,
            timeout: Duration::from_mins(1),
            connect_timeout: Duration::from_mins(1),
            idle_connections_max: 32,
            idle_timeout: Duration::from_secs(90),
            answer_bytes_max: 256 << 20,
        }
    }
}

/// No response: not connected, cut off, timed out or too long. The server may have executed the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HttpError(pub String);

/// A response with its whole body.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// A header's text; `None` if missing or not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The pause that `Retry-After` asks for in seconds; `None` if missing, or a date.
    pub fn retry_after(&self) -> Option<Duration> {
        self.header("retry-after")?.trim().parse().ok().map(Duration::from_secs)
    }

    /// The status and the beginning of the body on one line, for messages.
    pub fn text(&self) -> String {
        const TEXT_BYTES_MAX: usize = 200;
        let body = String::from_utf8_lossy(&self.body[..self.body.len().min(TEXT_BYTES_MAX)]);
        let words: Vec<&str> = body.split_whitespace().collect();
        format!("{} {}", self.status, words.join(" ")).trim_end().to_owned()
    }
}

/// A pool of connections to any number of hosts. Clones share it.
#[derive(Clone, Debug)]
pub struct HttpClient {
    pool: Pool<HttpsConnector<QuickAckConnector>, Full<Bytes>>,
    timeout: Duration,
    answer_bytes_max: usize,
    /// Whether certificates can be verified as configured; otherwise https:// is refused.
    judges_certificates: bool,
}

impl HttpClient {
    /// Loads certificates, and connects with the first request. If no request uses https://, set the trust to
    /// [`Trust::Anyone`], so that no certificates are needed.
    pub fn new(options: &HttpOptions) -> Result<Self, TrustError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(options.connect_timeout.min(options.timeout)));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(options.trust.config_as(options.identity.as_ref())?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(QuickAckConnector(tcp));
        let pool = Pool::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(options.idle_timeout)
            .pool_max_idle_per_host(options.idle_connections_max)
            .build(connector);
        let (timeout, answer_bytes_max) = (options.timeout, options.answer_bytes_max);
        Ok(HttpClient { pool, timeout, answer_bytes_max, judges_certificates: true })
    }

    /// Like [`HttpClient::new`]. A machine without certificates can still use plain HTTP: requests at https:// fail.
    pub fn new_or_plain(options: &HttpOptions) -> Result<Self, TrustError> {
        match HttpClient::new(options) {
            Err(_) if options.trust == Trust::System => {
                let plain = HttpClient::new(&HttpOptions { trust: Trust::Anyone, ..options.clone() })?;
                Ok(HttpClient { judges_certificates: false, ..plain })
            }
            made => made,
        }
    }

    /// Sends a request once, with the default timeout. Its URI must be absolute.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Answer, HttpError> {
        self.send_within(request, self.timeout).await
    }

    /// Sends a request once, within `timeout`.
    pub async fn send_within(&self, request: Request<Bytes>, timeout: Duration) -> Result<Answer, HttpError> {
        tokio::time::timeout(timeout, self.exchange(request)).await.unwrap_or_else(|_| Err(late(timeout)))
    }

    /// Like [`HttpClient::send`], for callers that need the body for messages only: it ends at the limit of its size, or
    /// with what has arrived before an error or the timeout.
    pub async fn send_for_status(&self, request: Request<Bytes>) -> Result<Answer, HttpError> {
        let began = Instant::now();
        let response = timeout(self.timeout, self.begin(request)).await.map_err(|_| late(self.timeout))??;
        let (head, mut body) = response.into_parts();
        let mut received = BytesMut::new();
        let receive = async {
            while received.len() < self.answer_bytes_max
                && let Some(Ok(frame)) = body.frame().await
            {
                received.extend_from_slice(&frame.into_data().unwrap_or_default());
            }
        };
        // The status says what happened to the request, however the body ends.
        let _ = timeout(self.timeout.saturating_sub(began.elapsed()), receive).await;
        received.truncate(self.answer_bytes_max);
        Ok(Answer { status: head.status, headers: head.headers, body: received.freeze() })
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Answer, HttpError> {
        let (head, body) = self.begin(request).await?.into_parts();
        let body =
            Limited::new(body, self.answer_bytes_max).collect().await.map_err(|error| failed(&*error))?;
        Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes() })
    }

    /// Sends a request and receives the head of its response.
    async fn begin(&self, request: Request<Bytes>) -> Result<Response<Incoming>, HttpError> {
        if !self.judges_certificates && request.uri().scheme_str() == Some("https") {
            return Err(HttpError("this machine trusts no certificates: cafile can name some".to_owned()));
        }
        self.pool.request(request.map(Full::new)).await.map_err(|error| failed(&error))
    }
}

fn late(timeout: Duration) -> HttpError {
    HttpError(format!("no answer within {} ms", timeout.as_millis()))
}

fn failed(error: &(dyn std::error::Error + 'static)) -> HttpError {
    HttpError(with_causes(error))
}

/// An error with its chain of causes: what was tried, and why it failed. Many errors include their source's text in
/// their own; each cause is told once.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        if !text.ends_with(&told) {
            text += ": ";
            text += &told;
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("opening")]
    struct Opening {
        source: Named,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Named {
        text: &'static str,
        source: io::Error,
    }

    #[test]
    fn each_cause_is_told_once() {
        let denied = || io::Error::from_raw_os_error(13);
        assert_eq!(with_causes(&denied()), "Permission denied (os error 13)");
        for text in ["/data", "/data: Permission denied (os error 13)"] {
            let opening = Opening { source: Named { text, source: denied() } };
            assert_eq!(with_causes(&opening), "opening: /data: Permission denied (os error 13)");
        }
    }
}
