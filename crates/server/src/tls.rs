//! HTTPS: the server's certificate and its key, read from PEM files, and read again when they are renewed.
//!
//! A connection keeps what it began with. What is offered is HTTP/1.1 over TLS 1.2 and 1.3; clients have no certificates.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::RwLock;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio_rustls::TlsAcceptor;

use crate::followed::Followed;

/// Why there is no HTTPS; names the file.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{}: {source}", path.display())]
    Pem { path: PathBuf, source: rustls::pki_types::pem::Error },
    #[error("{}: no certificate in it", .0.display())]
    NoCertificate(PathBuf),
    #[error("{} and {}: {source}", certificate.display(), key.display())]
    Unusable { certificate: PathBuf, key: PathBuf, source: rustls::Error },
}

/// The certificate that new connections get.
#[derive(Debug)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    config: RwLock<Arc<ServerConfig>>,
    followed: Followed,
}

impl Tls {
    /// Reads a chain of certificates, the server's first, and its key, both in PEM.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let followed = Followed::new(&[certificate, key]);
        let config = RwLock::new(read(certificate, key)?);
        Ok(Tls { certificate: certificate.to_owned(), key: key.to_owned(), config, followed })
    }

    /// What makes a connection with the present certificate out of a plain one.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.config.read().clone().into()
    }

    /// Reads the files again; where they are of no use, what was read before stays.
    fn reload(&self) {
        match read(&self.certificate, &self.key) {
            Ok(config) => {
                *self.config.write() = config;
                tracing::info!(certificate = %self.certificate.display(), "the certificate was read again");
            }
            Err(error) => tracing::error!(%error, "the certificate stays as it was"),
        }
    }

    /// Reads the files again on SIGHUP and when they change; never returns.
    pub(crate) async fn follow(&self) -> io::Result<()> {
        self.followed.follow(|| self.reload()).await
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let pem = |path: &Path| {
        let path = path.to_owned();
        |source| TlsError::Pem { path, source }
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(pem(certificate))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(certificate.to_owned()));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(pem(key))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring knows TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|source| TlsError::Unusable {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            source,
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config.into())
}
