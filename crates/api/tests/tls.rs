//! HTTPS: trusted and untrusted certificates, unfinished handshakes, renewed certificates.

mod support;

use std::{
    future::{Pending, pending},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use gnudi_app::ApiOptions;
use gnudi_server::{HttpLimits, Listener, Tls, serve};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

const SOON: Duration = Duration::from_mins(1);

/// A server's certificate, signed by its own root; created with `openssl`.
struct Certificates {
    dir: TempDir,
}

impl Certificates {
    fn new() -> Self {
        let certificates = Certificates { dir: TempDir::new().unwrap() };
        openssl(&format!(
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=root -keyout {root}.key -out {root}.pem",
            root = certificates.path("root").display()
        ));
        certificates.renew();
        certificates
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Replaces certificate and key by new ones for 127.0.0.1.
    fn renew(&self) {
        let (root, new) = (self.path("root"), self.path("new"));
        let (root, new) = (root.display(), new.display());
        std::fs::write(self.path("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
        openssl(&format!("req -newkey rsa:2048 -nodes -subj /CN=server -keyout {new}.key -out {new}.csr"));
        openssl(&format!(
            "x509 -req -in {new}.csr -CA {root}.pem -CAkey {root}.key -CAcreateserial -days 2 -extfile {} -out {new}.pem",
            self.path("names").display()
        ));
        for kind in ["key", "pem"] {
            std::fs::rename(self.path(&format!("new.{kind}")), self.path(&format!("server.{kind}"))).unwrap();
        }
    }

    fn load(&self) -> Tls {
        Tls::load(&self.path("server.pem"), &self.path("server.key")).unwrap()
    }
}

fn openssl(arguments: &str) {
    let done =
        Command::new("openssl").args(arguments.split(' ')).output().expect("install the package openssl");
    assert!(done.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Starts an HTTPS server; returns its address.
async fn start(tls: Tls, http_limits: HttpLimits) -> std::net::SocketAddr {
    let options = ApiOptions { http_limits, ..ApiOptions::default() };
    let app = Arc::new(support::app(support::engine(), options, || support::NOW));
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(serve(Listener { socket, tls: Some(Arc::new(tls)) }, app, pending::<Pending<()>>()));
    address
}

fn connector(root: &Path, protocols: &[&[u8]]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(root).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Arc::new(config).into()
}

async fn shake(
    address: std::net::SocketAddr,
    connector: &TlsConnector,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    connector.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await
}

/// Sends one request; returns the status line.
async fn status(stream: &mut TlsStream<TcpStream>) -> String {
    stream.write_all(b"GET /healthcheck HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    stream.flush().await.unwrap();
    let mut answer = vec![0; 4096];
    let count = stream.read(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer[..count]).lines().next().unwrap_or_default().to_owned()
}

fn certificate(stream: &TlsStream<TcpStream>) -> Vec<u8> {
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test]
async fn serves_whoever_trusts_the_certificate() {
    let certificates = Certificates::new();
    let address = start(certificates.load(), HttpLimits::default()).await;
    let root = certificates.path("root.pem");
    let mut stream = shake(address, &connector(&root, &[b"h2", b"http/1.1"])).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    for _ in 0..2 {
        assert_eq!(status(&mut stream).await, "HTTP/1.1 200 OK");
    }
    let stranger = Certificates::new();
    shake(address, &connector(&stranger.path("root.pem"), &[])).await.expect_err("another root");
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(b"GET /healthcheck HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(SOON, plain.read_to_end(&mut answer)).await.expect("the server closes");
    assert!(!answer.starts_with(b"HTTP"), "nothing is served without TLS");
}

/// Larger than the buffers of sockets and TLS, in both directions.
#[tokio::test]
async fn a_large_body_comes_whole() {
    let certificates = Certificates::new();
    let address = start(certificates.load(), HttpLimits::default()).await;
    let mut stream = shake(address, &connector(&certificates.path("root.pem"), &[])).await.unwrap();
    let name = "n".repeat(8 << 20);
    let head = format!(
        "POST /v1/metric HTTP/1.1\r\nHost: h\r\nAuthorization: Basic YWRtaW46\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        name.len()
    );
    let both = async {
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(name.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        answer
    };
    let answer = timeout(SOON, both).await.expect("an answer");
    assert!(answer.starts_with(b"HTTP/1.1 400 "), "{}", String::from_utf8_lossy(&answer[..100]));
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_cut_and_holds_a_place_until_then() {
    let certificates = Certificates::new();
    let limits =
        HttpLimits { header_timeout: Duration::from_secs(1), connections_max: 1, ..HttpLimits::default() };
    let address = start(certificates.load(), limits).await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    silent.write_all(&[0x16, 3, 1]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let connector = connector(&certificates.path("root.pem"), &[]);
    shake(address, &connector).await.expect_err("one connection is all there may be");
    let mut rest = Vec::new();
    let _ = timeout(SOON, silent.read_to_end(&mut rest)).await.expect("the silent one is cut");
    let again = async {
        while shake(address, &connector).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, again).await.expect("its place is free");
}

#[tokio::test]
async fn a_renewed_certificate_is_taken_and_a_bad_one_is_not() {
    let certificates = Certificates::new();
    let address = start(certificates.load(), HttpLimits::default()).await;
    let connector = connector(&certificates.path("root.pem"), &[]);
    let mut first = shake(address, &connector).await.unwrap();
    std::fs::write(certificates.path("server.pem"), "nonsense").unwrap();
    tokio::time::sleep(Duration::from_secs(7)).await;
    let second = shake(address, &connector).await.unwrap();
    assert_eq!(certificate(&first), certificate(&second));
    certificates.renew();
    let renewed = async {
        while certificate(&shake(address, &connector).await.unwrap()) == certificate(&first) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(SOON, renewed).await.expect("the new certificate");
    assert_eq!(status(&mut first).await, "HTTP/1.1 200 OK", "connections go on");
}

#[test]
fn unusable_files_are_named() {
    let certificates = Certificates::new();
    let other = Certificates::new();
    let (pem, key) = (certificates.path("server.pem"), certificates.path("server.key"));
    for (certificate, key) in [
        (&certificates.path("none.pem"), &key),
        (&pem, &certificates.path("none.key")),
        (&key, &key),
        (&pem, &other.path("server.key")),
    ] {
        let error = Tls::load(certificate, key).unwrap_err().to_string();
        let named = [certificate, key].iter().any(|path| error.contains(path.to_str().unwrap()));
        assert!(named && !error.contains("PRIVATE"), "{error}");
    }
}
