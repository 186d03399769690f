//! The stream of a connection: a socket, or TLS on it.

use std::{
    fmt,
    io::{self, IoSlice},
    net::SocketAddr,
    sync::Arc,
};

use anyhow::{Context as _, Result};
use gnudi_client::Trust;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::requests::Parts;

/// TLS settings of a server, with the expected name.
#[derive(Clone)]
pub struct Secured {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Secured {
    /// `host` as in the URL, without its port.
    pub fn new(host: &str, trust: &Trust) -> Result<Self> {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host.clone())
            .with_context(|| format!("{host}: not a name that a certificate could have"))?;
        Ok(Secured { connector: Arc::new(trust.config()?).into(), name })
    }
}

impl fmt::Debug for Secured {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Secured").field(&self.name).finish()
    }
}

pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(super) async fn open(address: SocketAddr, secured: Option<&Secured>) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let Some(Secured { connector, name }) = secured else { return Ok(Stream::Plain(stream)) };
        Ok(Stream::Tls(Box::new(connector.connect(name.clone(), stream).await?)))
    }

    pub(super) async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(buffer).await,
            Stream::Tls(stream) => stream.read(buffer).await,
        }
    }

    /// Writes the parts with as few system calls as possible.
    pub(super) async fn send(&mut self, parts: &Parts<'_>) -> io::Result<()> {
        let mut slices = parts.map(IoSlice::new);
        let mut slices = &mut slices[..];
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            let written = match self {
                Stream::Plain(stream) => stream.write_vectored(slices).await?,
                Stream::Tls(stream) => stream.write_vectored(slices).await?,
            };
            match written {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => IoSlice::advance_slices(&mut slices, count),
            }
        }
        match self {
            // A socket is unbuffered.
            Stream::Plain(_) => Ok(()),
            Stream::Tls(stream) => stream.flush().await,
        }
    }
}
