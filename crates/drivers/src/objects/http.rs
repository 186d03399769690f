//! HTTP and HTTPS to a store: a bounded pool of connections, attempts with a time limit, and pauses between them.
//!
//! What an answer means, and whether to try again, is for each store to say.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};
use tokio::{sync::Semaphore, time::Instant};

use super::ObjectError;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(3);
/// Connections that nobody uses are closed after this time; servers do so too, often after a minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Of an error's body, in a message.
const TEXT_BYTES_MAX: usize = 200;

/// How a store is spoken to.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// How long a call may take, with everything that is tried again.
    pub deadline: Duration,
    /// How long one attempt may take.
    pub attempt_timeout: Duration,
    /// Requests on their way at once; others wait.
    pub connections_max: usize,
    /// Certificates (PEM) to trust, in place of the system's.
    pub ca_file: Option<PathBuf>,
    /// Whether to take any certificate.
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
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    permits: Semaphore,
    options: HttpOptions,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The part of an object that was asked for, also from a server that sends the whole object.
    pub(crate) fn part(&self, start: u64, length: u64) -> Bytes {
        if self.status == StatusCode::PARTIAL_CONTENT {
            return self.body.clone();
        }
        let start = start.min(self.body.len() as u64);
        let end = start.saturating_add(length).min(self.body.len() as u64);
        self.body.slice(start as usize..end as usize)
    }

    /// The status and the beginning of the body, on one line.
    pub(crate) fn text(&self) -> String {
        let body = String::from_utf8_lossy(&self.body[..self.body.len().min(TEXT_BYTES_MAX)]);
        let line: Vec<&str> = body.split_whitespace().collect();
        format!("{} {}", self.status, line.join(" ")).trim_end().to_owned()
    }
}

impl Http {
    /// `secure`: whether HTTPS will be spoken, so that certificates are needed. The error is a text.
    pub(crate) fn new(options: &HttpOptions, secure: bool) -> Result<Self, String> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(options.attempt_timeout.min(CONNECT_TIMEOUT_MAX)));
        let tls = tls_config(options, secure)?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(options.connections_max)
            .build(connector);
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

    /// Sends a request once. An error is the text of what went wrong on the way; the request may have been carried out.
    pub(crate) async fn send(&self, tries: &Tries, request: Request<Full<Bytes>>) -> Result<Answer, String> {
        let exchange = async {
            let _permit = self.permits.acquire().await.expect("never closed");
            let answer = self.client.request(request).await.map_err(|error| chain(&error))?;
            let (head, body) = answer.into_parts();
            let body = body.collect().await.map_err(|error| chain(&error))?.to_bytes();
            Ok(Answer { status: head.status, headers: head.headers, body })
        };
        let timeout = self.options.attempt_timeout.min(tries.left());
        let late = |_| Err(format!("no answer within {timeout:.1?}"));
        tokio::time::timeout(timeout, exchange).await.unwrap_or_else(late)
    }
}

/// One call and its time.
pub(crate) struct Tries {
    end: Instant,
    deadline: Duration,
    pause: Duration,
}

impl Tries {
    fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Waits a moment before the next attempt; an error, with the reason for it, where there is no time for one.
    pub(crate) async fn again(&mut self, place: &str, reason: &str) -> Result<(), ObjectError> {
        // Somewhere in the upper half, so that those who failed together do not come back together.
        let jitter = uuid::Uuid::new_v4().as_u128() as u8;
        let pause = self.pause.mul_f64(0.5 + f64::from(jitter) / 512.0);
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

/// An error with its causes: hyper's own text alone says little.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn tls_config(options: &HttpOptions, secure: bool) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    if options.insecure {
        let anyone = Arc::new(AnyServer(provider));
        return Ok(builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth());
    }
    let Some(file) = &options.ca_file else {
        if !secure {
            return Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
        }
        let builder = builder.with_native_roots().map_err(|error| error.to_string())?;
        return Ok(builder.with_no_client_auth());
    };
    let named = |reason: String| format!("the certificates in {}: {reason}", file.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| named(error.to_string()))? {
        let certificate = certificate.map_err(|error| named(error.to_string()))?;
        roots.add(certificate).map_err(|error| named(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(named("there are none".to_owned()));
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Takes any certificate: for those who have asked for it.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
