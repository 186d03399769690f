//! `udp://host:port`: sends each sample as a signed datagram in `MessagePack`. There are no acknowledgements: lost
//! datagrams stay lost.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{net::UdpSocket, sync::Mutex};

use super::{
    OpenError, Opened, Publisher, PublisherUrl, Receipt, figures::PublisherCounts, http::begin,
    peer_health::PeerHealth,
};
use crate::{
    sample::Sample,
    wire::{MeterMessage, Signer},
};

/// Default port.
pub const PORT: u16 = 4952;

/// Lifetime of a resolved address.
const ADDRESS_TIME: Duration = Duration::from_mins(1);

pub struct UdpPublisher {
    shared: Arc<UdpTarget>,
    signer: Signer,
}

struct UdpTarget {
    host: String,
    port: u16,
    line: Mutex<Option<ConnectedSocket>>,
    health: PeerHealth,
    counts: PublisherCounts,
}

/// A socket connected to the resolved address.
struct ConnectedSocket {
    socket: UdpSocket,
    since: Instant,
}

impl UdpPublisher {
    pub fn open(url: &PublisherUrl, signer: Signer, counts: PublisherCounts) -> Opened {
        let (host, port) = (url.host().to_owned(), url.port()?.unwrap_or(PORT));
        if host.is_empty() {
            return Err(OpenError("names no host".to_owned()));
        }
        let shared = UdpTarget { host, port, line: Mutex::default(), health: PeerHealth::new(url), counts };
        Ok(Arc::new(UdpPublisher { shared: Arc::new(shared), signer }))
    }
}

impl Publisher for UdpPublisher {
    fn samples(&self, samples: &[Sample<'_>]) -> Receipt {
        let datagram = |sample| pack(&MeterMessage::new(sample, &self.signer, None));
        let datagrams: Vec<Vec<u8>> = samples.iter().map(datagram).collect();
        let shared = self.shared.clone();
        begin(async move {
            shared.send(&datagrams).await;
            Ok(())
        })
    }
}

/// A message as `MessagePack`.
pub fn pack(message: &MeterMessage<'_>) -> Vec<u8> {
    rmp_serde::to_vec_named(message).expect("memory takes all")
}

impl UdpTarget {
    async fn send(&self, datagrams: &[Vec<u8>]) {
        let mut line = self.line.lock().await;
        for datagram in datagrams {
            match self.send_one(&mut line, datagram).await {
                Ok(()) => {
                    self.health.recovered();
                    self.counts.published.inc();
                }
                Err(error) => {
                    self.health.failed(&error);
                    self.counts.lost.inc();
                }
            }
        }
    }

    async fn send_one(&self, line: &mut Option<ConnectedSocket>, datagram: &[u8]) -> std::io::Result<()> {
        if line.as_ref().is_none_or(|line| line.since.elapsed() > ADDRESS_TIME) {
            *line = Some(ConnectedSocket { socket: self.connect().await?, since: Instant::now() });
        }
        let socket = &line.as_ref().expect("just set").socket;
        match socket.send(datagram).await {
            // The error is about an earlier datagram; this one was not sent yet.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                socket.send(datagram).await.map(drop)
            }
            sent => sent.map(drop),
        }
    }

    /// Prefers an IPv6 address.
    async fn connect(&self) -> std::io::Result<UdpSocket> {
        let mut addresses: Vec<SocketAddr> =
            tokio::net::lookup_host((self.host.as_str(), self.port)).await?.collect();
        addresses.sort_by_key(SocketAddr::is_ipv4);
        let address = addresses.first().ok_or_else(|| std::io::Error::other("the host has no address"))?;
        let any: IpAddr =
            if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).await?;
        socket.connect(address).await?;
        Ok(socket)
    }
}
