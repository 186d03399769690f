//! The stream of a connection: a socket, or TLS on it.

use std::{fmt, io, net::SocketAddr, sync::Arc};

use anyhow::{Context as _, Result};
use gnudi_client::Trust;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

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

impl fmt::Debug for Secured {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Secured").field(&self.name).finish()
    }
}

/// A socket, or TLS on it.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

pub(super) async fn open(address: SocketAddr, secured: Option<&Secured>) -> io::Result<Box<dyn Stream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let Some(Secured { connector, name }) = secured else { return Ok(Box::new(stream)) };
    Ok(Box::new(connector.connect(name.clone(), stream).await?))
}
