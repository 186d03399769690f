//! `udp://host:port`: sends each sample as a signed datagram in `MessagePack`. There are no acknowledgements: lost
//! datagrams stay lost.

use std::{
    io,
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

/// Pause after a look-up that failed: one takes many seconds if the name service is silent, and messages wait for it.
const LOOK_UP_PAUSE: Duration = Duration::from_secs(10);

pub struct UdpPublisher {
    shared: Arc<UdpTarget>,
    signer: Signer,
}

struct UdpTarget {
    host: String,
    port: u16,
    last: Mutex<Option<LookUp>>,
    health: PeerHealth,
    counts: PublisherCounts,
}

/// The last look-up of the address.
struct LookUp {
    /// Connected to the address; the error if none is known.
    socket: Result<UdpSocket, String>,
    since: Instant,
}

impl LookUp {
    fn is_over(&self) -> bool {
        let lifetime = if self.socket.is_ok() { ADDRESS_TIME } else { LOOK_UP_PAUSE };
        self.since.elapsed() > lifetime
    }
}

impl UdpPublisher {
    pub fn open(url: &PublisherUrl, signer: Signer, counts: PublisherCounts) -> Opened {
        let (host, port) = (url.host().to_owned(), url.port()?.unwrap_or(PORT));
        if host.is_empty() {
            return Err(OpenError("names no host".to_owned()));
        }
        let shared = UdpTarget { host, port, last: Mutex::default(), health: PeerHealth::new(url), counts };
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
        let mut last = self.last.lock().await;
        for datagram in datagrams {
            match self.send_one(&mut last, datagram).await {
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

    async fn send_one(&self, last: &mut Option<LookUp>, datagram: &[u8]) -> io::Result<()> {
        if last.as_ref().is_none_or(LookUp::is_over) {
            let connected = self.connect().await;
            let socket = match (connected, last.take().and_then(|last| last.socket.ok())) {
                // Without an answer of the name service the last address counts for another while.
                (Err(error), Some(last)) => {
                    tracing::debug!(%error, host = self.host, "its address cannot be looked up");
                    Ok(last)
                }
                (connected, _) => connected.map_err(|error| error.to_string()),
            };
            *last = Some(LookUp { socket, since: Instant::now() });
        }
        let socket = match &last.as_ref().expect("just set").socket {
            Ok(socket) => socket,
            Err(error) => return Err(io::Error::other(error.clone())),
        };
        match socket.send(datagram).await {
            // The error is about an earlier datagram; this one was not sent yet.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                socket.send(datagram).await.map(drop)
            }
            sent => sent.map(drop),
        }
    }

    /// Prefers an IPv6 address.
    async fn connect(&self) -> io::Result<UdpSocket> {
        let mut addresses: Vec<SocketAddr> =
            tokio::net::lookup_host((self.host.as_str(), self.port)).await?.collect();
        addresses.sort_by_key(SocketAddr::is_ipv4);
        connect_to_first(&addresses).await
    }
}

/// Connects to the first of the addresses that this machine has a route to: it may have none to IPv6 addresses.
async fn connect_to_first(addresses: &[SocketAddr]) -> io::Result<UdpSocket> {
    let mut failure = None;
    for address in addresses {
        match connect_to(*address).await {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.unwrap_or_else(|| io::Error::other("the host has no address")))
}

async fn connect_to(address: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(address).await?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_without_a_route_is_passed_over() {
        let peer = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let peer = peer.local_addr().unwrap();
        // Without an interface nobody can reach it.
        let unreachable = "[fe80::1]:4952".parse().unwrap();
        let socket = connect_to_first(&[unreachable, peer]).await.unwrap();
        assert_eq!(socket.peer_addr().unwrap(), peer);
        assert!(connect_to_first(&[unreachable]).await.is_err() && connect_to_first(&[]).await.is_err());
    }

    fn target(host: &str, port: u16) -> UdpTarget {
        UdpTarget {
            host: host.to_owned(),
            port,
            last: Mutex::default(),
            health: PeerHealth::new("udp"),
            counts: PublisherCounts::default(),
        }
    }

    fn before(lifetime: Duration) -> Instant {
        Instant::now()
            .checked_sub(lifetime + Duration::from_secs(1))
            .expect("the machine has run for so long")
    }

    async fn received(peer: &UdpSocket) -> Vec<u8> {
        let mut buffer = [0; 10];
        let length = peer.recv(&mut buffer).await.unwrap();
        buffer[..length].to_vec()
    }

    #[tokio::test]
    async fn an_address_counts_until_another_one_is_known() {
        let peer = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        // No host has this name.
        let target = target("\0", PORT);
        target.send(&[b"lost".to_vec()]).await;
        let socket = Ok(connect_to(peer.local_addr().unwrap()).await.unwrap());
        *target.last.lock().await = Some(LookUp { socket, since: before(ADDRESS_TIME) });
        target.send(&[b"sent".to_vec()]).await;
        assert_eq!(received(&peer).await, b"sent");
        assert_eq!((target.counts.published.get(), target.counts.lost.get()), (1, 1));
    }

    #[tokio::test]
    async fn a_look_up_that_fails_is_not_repeated_for_each_datagram() {
        let peer = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut target = target("\0", peer.local_addr().unwrap().port());
        target.send(&[b"lost".to_vec()]).await;
        // Its address is known from now on, and looked up after the pause.
        "127.0.0.1".clone_into(&mut target.host);
        target.send(&[b"lost".to_vec(), b"lost".to_vec()]).await;
        assert_eq!((target.counts.published.get(), target.counts.lost.get()), (0, 3));
        target.last.get_mut().as_mut().unwrap().since = before(LOOK_UP_PAUSE);
        target.send(&[b"sent".to_vec()]).await;
        assert_eq!(received(&peer).await, b"sent");
    }
}
