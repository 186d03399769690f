//! The socket, and the clock of the flushes.

use std::{collections::BTreeMap, time::Duration};

use gnudi_client::Client;
use tokio::{net::UdpSocket, time::MissedTickBehavior};

use super::aggregator::{Aggregator, AggregatorLimits};
use crate::delivery::{Deliverer, Delivery, DeliveryOptions, Item, now};

/// No datagram is longer.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Datagrams that are still taken once the server is told to stop.
const DRAINED_DATAGRAMS_MAX: usize = 10_000;

#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The resource that the metrics belong to; created where there is none.
    pub resource: String,
    /// Of new metrics; `None` leaves it to the store's rules.
    pub archive_policy_name: Option<String>,
    pub flush_delay: Duration,
    pub limits: AggregatorLimits,
}

pub struct Server {
    socket: UdpSocket,
    aggregator: Aggregator,
    deliverer: Deliverer,
    options: ServerOptions,
}

impl Server {
    /// Must be called within a Tokio runtime.
    pub fn new(socket: UdpSocket, client: Client, options: ServerOptions) -> Self {
        let delivery =
            DeliveryOptions { resource_type: None, archive_policy_name: options.archive_policy_name.clone() };
        Server {
            socket,
            aggregator: Aggregator::new(options.limits),
            deliverer: Deliverer::start(Delivery::new(client, delivery)),
            options,
        }
    }

    /// Takes datagrams until `stop`, then flushes once more.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut flushes = tokio::time::interval(self.options.flush_delay);
        flushes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is at once.
        flushes.tick().await;
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                received = self.socket.recv_from(&mut buffer) => match received {
                    Ok((length, sender)) => {
                        if let Some(malformed) = self.aggregator.take(&buffer[..length], now()) {
                            tracing::debug!(%sender, %malformed, "a datagram with a malformed line");
                        }
                    }
                    // A sender's port that is closed shows up here on some systems; the socket stays good.
                    Err(error) => tracing::debug!(%error, "no datagram"),
                },
                _ = flushes.tick() => self.flush(),
                () = &mut stop => break,
            }
        }
        // What has arrived by now counts.
        for _ in 0..DRAINED_DATAGRAMS_MAX {
            let Ok((length, _)) = self.socket.try_recv_from(&mut buffer) else { break };
            self.aggregator.take(&buffer[..length], now());
        }
        self.flush();
        self.deliverer.finish().await;
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
        let item = |(metric, measures)| Item {
            resource: self.options.resource.clone(),
            attributes: BTreeMap::new(),
            metric,
            measures,
        };
        self.deliverer.send(metrics.into_iter().map(item).collect());
    }
}
