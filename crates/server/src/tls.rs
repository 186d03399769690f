//! HTTPS: certificate and key in PEM files, reloaded when they change.
//!
//! A connection keeps its certificate. HTTP/1.1 over TLS 1.2 and 1.3, without client certificates.

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

/// Why the certificate or key cannot be loaded; names the file.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{}: {source}", path.display())]
    Pem { path: PathBuf, source: rustls::pki_types::pem::Error },
    #[error("{}: no certificate in it", .0.display())]
    NoCertificate(PathBuf),
    #[error("{} and {}: {source}", certificate.display(), key.display())]
    Unusable { certificate: PathBuf, key: PathBuf, source: rustls::Error },
}

/// The certificate for new connections.
#[derive(Debug)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    config: RwLock<Arc<ServerConfig>>,
    followed: Followed,
}

impl Tls {
    /// Loads a certificate chain, the server's own first, and its key, both in PEM.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let followed = Followed::new(&[certificate, key]);
        let config = RwLock::new(read(certificate, key)?);
        Ok(Tls { certificate: certificate.to_owned(), key: key.to_owned(), config, followed })
    }

    /// The acceptor for a new connection, with the current certificate.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.config.read().clone().into()
    }

    /// Reloads the files; on an error the current certificate stays in use.
    fn reload(&self) -> Result<(), TlsError> {
        *self.config.write() = read(&self.certificate, &self.key)?;
        tracing::info!(certificate = %self.certificate.display(), "the certificate was reloaded");
        Ok(())
    }

    /// Reloads the files on SIGHUP and when they change; never returns.
    pub async fn follow(&self) -> io::Result<()> {
        self.followed.follow("the certificate", || self.reload()).await
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
