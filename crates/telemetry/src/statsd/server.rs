//! The socket and the flush interval.

use std::{collections::BTreeMap, io, net, os::fd::AsFd as _, time::Duration};

use gnudi_client::Client;
use tokio::{net::UdpSocket, time::MissedTickBehavior};

use super::aggregator::{Aggregator, AggregatorLimits};
use crate::{
    delivery::{Deliverer, DeliveryOptions, MeasureBacklog, MetricMeasures},
    time::now,
};

/// Maximum size of a UDP datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Datagrams still received after stop.
const DRAINED_DATAGRAMS_MAX: usize = 10_000;

#[derive(Clone, Debug)]
pub struct StatsdOptions {
    /// The resource of the metrics; created if missing.
    pub resource: String,
    /// Of new metrics; `None` leaves the choice to the archive policy rules.
    pub archive_policy_name: Option<String>,
    pub flush_delay: Duration,
    pub limits: AggregatorLimits,
}

pub struct StatsdServer {
    socket: UdpSocket,
    aggregator: Aggregator,
    deliverer: Deliverer,
    options: StatsdOptions,
}

impl StatsdServer {
    /// Must be called within a Tokio runtime.
    pub fn new(socket: UdpSocket, client: Client, options: StatsdOptions) -> Self {
        let delivery =
            DeliveryOptions { resource_type: None, archive_policy_name: options.archive_policy_name.clone() };
        StatsdServer {
            socket,
            aggregator: Aggregator::new(options.limits),
            deliverer: Deliverer::start(MeasureBacklog::new(client, delivery)),
            options,
        }
    }

    /// Receives datagrams until `stop`, then flushes once more.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut flushes = tokio::time::interval(self.options.flush_delay);
        flushes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick fires at once.
        flushes.tick().await;
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                received = self.socket.recv_from(&mut buffer) => match received {
                    Ok((length, sender)) => {
                        if let Some(malformed) = self.aggregator.add_datagram(&buffer[..length], now()) {
                            tracing::debug!(%sender, %malformed, "a datagram with a malformed line");
                        }
                    }
                    // On some systems a sender's closed port is reported here; the socket remains usable.
                    Err(error) => tracing::debug!(%error, "no datagram"),
                },
                _ = flushes.tick() => self.flush(),
                () = &mut stop => break,
            }
        }
        if let Err(error) = self.drain(&mut buffer) {
            tracing::warn!(%error, "datagrams that had arrived were not read");
        }
        self.flush();
        self.deliverer.finish().await;
    }

    /// Receives the datagrams that have already arrived. Asks the non-blocking system socket directly: Tokio's reports
    /// none until its reactor has polled.
    fn drain(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let socket = net::UdpSocket::from(self.socket.as_fd().try_clone_to_owned()?);
        for _ in 0..DRAINED_DATAGRAMS_MAX {
            match socket.recv_from(buffer) {
                Ok((length, _)) => drop(self.aggregator.add_datagram(&buffer[..length], now())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn flush(&mut self) {
        let (metrics, taken) = self.aggregator.flush();
        if taken.malformed > 0 || taken.excess > 0 {
            let (malformed, excess) = (taken.malformed, taken.excess);
            tracing::warn!(malformed, excess, "values were dropped: malformed, or more than a flush holds");
        }
        if !metrics.is_empty() {
            tracing::debug!(metrics = metrics.len(), values = taken.values, "flushing");
        }
        let item = |(metric, measures)| MetricMeasures {
            resource: self.options.resource.clone(),
            attributes: BTreeMap::new(),
            metric,
            measures,
        };
        self.deliverer.send(metrics.into_iter().map(item).collect());
    }
}

#[cfg(test)]
mod tests {
    use gnudi_client::ClientOptions;

    use super::*;

    #[tokio::test]
    async fn what_has_arrived_is_taken_at_the_end() {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let client = Client::new("http://127.0.0.1:1", &ClientOptions::default()).unwrap();
        let options = StatsdOptions {
            resource: "r".to_owned(),
            archive_policy_name: None,
            flush_delay: Duration::from_secs(10),
            limits: AggregatorLimits::default(),
        };
        let mut server = StatsdServer::new(socket, client, options);
        let sender = net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for line in ["a:1|g", "b:2|g"] {
            sender.send_to(line.as_bytes(), address).unwrap();
        }
        // Nothing is awaited in between, so Tokio's reactor has not seen them.
        server.drain(&mut [0; 100]).unwrap();
        let (metrics, taken) = server.aggregator.flush();
        assert_eq!((metrics.len(), taken.values), (2, 2));
        server.drain(&mut [0; 100]).expect("that there is nothing is no error");
    }
}
