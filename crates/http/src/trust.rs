//! Trusted certificates of HTTPS clients.

use std::{
    fmt,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use hyper_rustls::ConfigBuilderExt as _;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};

/// Unusable certificates; the text names the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TrustError(pub String);

/// The trusted authorities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The system's.
    #[default]
    System,
    /// Only the certificates in this PEM file.
    File(PathBuf),
    /// Any server: no verification. For tests, and for a program that connects to itself.
    Anyone,
}

impl Trust {
    /// From the options `--cacert` and `--insecure`.
    pub fn asked(cacert: Option<PathBuf>, is_insecure: bool) -> Self {
        match cacert {
            _ if is_insecure => Trust::Anyone,
            Some(file) => Trust::File(file),
            None => Trust::System,
        }
    }

    /// TLS 1.2 and 1.3 with ring; `identity` is for servers that ask for a client certificate. Errors name the file.
    pub fn config_as(&self, identity: Option<&ClientIdentity>) -> Result<ClientConfig, TrustError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("ring knows TLS 1.2 and 1.3");
        let builder = match self {
            Trust::System => builder
                .with_native_roots()
                .map_err(|error| TrustError(format!("this machine's trusted certificates: {error}")))?,
            Trust::File(path) => builder.with_root_certificates(roots(path)?),
            Trust::Anyone => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(TrustAnyServer(provider)))
            }
        };
        let Some(identity) = identity else { return Ok(builder.with_no_client_auth()) };
        let key_file = identity.key.as_ref().unwrap_or(&identity.certificate);
        let key = PrivateKeyDer::from_pem_reader(open(key_file)?)
            .map_err(|error| unusable(key_file, format!("no private key in it: {error}")))?;
        builder
            .with_client_auth_cert(certificates(&identity.certificate)?, key)
            .map_err(|error| unusable(&identity.certificate, error))
    }
}

/// A client certificate and its private key, in PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The certificate, followed by its chain.
    pub certificate: PathBuf,
    /// `None`: the key is in the certificate's file.
    pub key: Option<PathBuf>,
}

fn unusable(path: &Path, error: impl fmt::Display) -> TrustError {
    TrustError(format!("{}: {error}", path.display()))
}

/// `pem_file_iter` would not report the file's own error.
fn open(path: &Path) -> Result<File, TrustError> {
    File::open(path).map_err(|error| unusable(path, error))
}

/// At least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let certificates: Vec<_> = CertificateDer::pem_reader_iter(open(path)?)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(path, error))?;
    if certificates.is_empty() {
        return Err(unusable(path, "no certificate in it"));
    }
    Ok(certificates)
}

fn roots(path: &Path) -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| unusable(path, error))?;
    }
    Ok(roots)
}

/// Accepts any certificate; the handshake's signatures are still verified.
#[derive(Debug)]
struct TrustAnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
