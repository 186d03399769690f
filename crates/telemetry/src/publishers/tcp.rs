//! `tcp://host:port`: sends each sample, signed, as `MessagePack` after its length as a little-endian 64-bit integer.
//!
//! The peer does not acknowledge, so a receipt means that the socket has accepted the bytes. After an error the whole
//! message is sent again over a new connection, without limit: the peer may get a sample twice.

use std::{sync::Arc, time::Duration};

use tokio::{io::AsyncWriteExt as _, net::TcpStream, sync::Mutex};

use super::{
    OpenError, Opened, Publisher, PublisherUrl, Receipt,
    figures::PublisherCounts,
    http::begin,
    peer_health::{Backoff, PeerHealth},
    udp::{PORT, pack},
};
use crate::{
    sample::Sample,
    wire::{MeterMessage, Signer},
};

/// Timeout of connecting and of writing.
const TIMEOUT: Duration = Duration::from_secs(30);

pub struct TcpPublisher {
    shared: Arc<TcpTarget>,
    signer: Signer,
    /// This machine's name, part of each message.
    host: String,
}

struct TcpTarget {
    host: String,
    port: u16,
    open: Mutex<Option<TcpStream>>,
    health: PeerHealth,
    counts: PublisherCounts,
}

impl TcpPublisher {
    pub fn open(url: &PublisherUrl, signer: Signer, host: String, counts: PublisherCounts) -> Opened {
        let (peer, port) = (url.host().to_owned(), url.port()?.unwrap_or(PORT));
        if peer.is_empty() {
            return Err(OpenError("names no host".to_owned()));
        }
        let shared =
            TcpTarget { host: peer, port, open: Mutex::default(), health: PeerHealth::new(url), counts };
        Ok(Arc::new(TcpPublisher { shared: Arc::new(shared), signer, host }))
    }
}

impl Publisher for TcpPublisher {
    fn samples(&self, samples: &[Sample<'_>]) -> Receipt {
        let mut bytes = Vec::new();
        for sample in samples {
            let message = pack(&MeterMessage::new(sample, &self.signer, Some(&self.host)));
            bytes.extend_from_slice(&(message.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&message);
        }
        let (shared, count) = (self.shared.clone(), samples.len() as u64);
        begin(async move {
            shared.send(&bytes).await;
            shared.counts.published.inc_by(count);
            Ok(())
        })
    }
}

impl TcpTarget {
    async fn send(&self, bytes: &[u8]) {
        let mut open = self.open.lock().await;
        let mut pauses = Backoff::default();
        loop {
            let failed = match tokio::time::timeout(TIMEOUT, self.try_send(&mut open, bytes)).await {
                Ok(Ok(())) => return self.health.recovered(),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "the peer does not read".to_owned(),
            };
            *open = None;
            self.health.failed(&failed);
            pauses.wait().await;
            self.counts.retries.inc();
        }
    }

    async fn try_send(&self, open: &mut Option<TcpStream>, bytes: &[u8]) -> std::io::Result<()> {
        if open.as_ref().is_some_and(is_closed) {
            *open = None;
        }
        if open.is_none() {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            stream.set_nodelay(true)?;
            *open = Some(stream);
        }
        open.as_mut().expect("just set").write_all(bytes).await
    }
}

/// Whether the peer has closed the connection. A write would still succeed once.
fn is_closed(stream: &TcpStream) -> bool {
    match stream.try_read(&mut [0; 64]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}
