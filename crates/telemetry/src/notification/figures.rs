//! The agent's counters for `/metrics`.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use gnudi_model::{Timestamp, python::timestamp_of_text};
use parking_lot::Mutex;
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder, metrics::counter::Counter};

use super::AsideFigures;
use crate::{
    figures::{counter, gauge},
    messaging::ConsumerFigures,
    time::now,
};

/// Counters of one agent.
#[derive(Debug, Default)]
pub struct Figures {
    pub messages: Counter,
    pub bytes: Counter,
    pub samples: Counter,
    pub events: Counter,
    pub acknowledged: Counter,
    pub duplicates: Counter,
    pub redelivered: Counter,
    /// Without a readable envelope.
    pub undecodable: Counter,
    /// With fields missing or of the wrong type.
    pub malformed: Counter,
    /// Invalid samples within otherwise valid messages.
    pub bad_samples: Counter,
    pub retries: Counter,
    pub set_aside: Counter,
    pub aside: AsideFigures,
    /// Send times of the messages in flight, by message number.
    in_flight: Mutex<BTreeMap<u64, Option<Timestamp>>>,
    numbers: AtomicU64,
    consumers: Mutex<Vec<Arc<ConsumerFigures>>>,
}

impl Figures {
    /// Adds a consumer; there may be several.
    pub fn watch(&self, consumer: Arc<ConsumerFigures>) {
        self.consumers.lock().push(consumer);
    }

    /// Registers a message and returns its number.
    pub(super) fn began(&self, bytes: usize, is_redelivered: bool) -> u64 {
        self.messages.inc();
        self.bytes.inc_by(bytes as u64);
        self.redelivered.inc_by(u64::from(is_redelivered));
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.in_flight.lock().insert(number, None);
        number
    }

    /// Sets the send time, as claimed by the sender.
    pub(super) fn sent(&self, number: u64, timestamp: &str) {
        // Relative times are meaningless here: the current time will do.
        let Ok(sent) = timestamp_of_text(timestamp, now()) else { return };
        if let Some(place) = self.in_flight.lock().get_mut(&number) {
            *place = Some(sent);
        }
    }

    pub(super) fn ended(&self, number: u64) {
        self.in_flight.lock().remove(&number);
    }

    /// Age in seconds of the oldest message in flight; 0 if there is none.
    pub fn oldest_seconds(&self) -> f64 {
        let oldest = self.in_flight.lock().values().flatten().min().copied();
        oldest.map_or(0.0, |oldest| ((now().0 - oldest.0) as f64 / 1e9).max(0.0))
    }

    fn counts(&self) -> [(&'static str, &'static str, &Counter); 12] {
        [
            ("messages", "Notifications received from the broker", &self.messages),
            ("message_bytes", "Bytes of notifications", &self.bytes),
            ("samples", "Samples passed to pipelines", &self.samples),
            ("events", "Events passed to pipelines", &self.events),
            ("acknowledged", "Notifications acknowledged to the broker", &self.acknowledged),
            ("duplicates", "Repeated notifications, skipped", &self.duplicates),
            ("redelivered", "Notifications that the broker delivers again", &self.redelivered),
            ("undecodable", "Notifications that could not be decoded", &self.undecodable),
            ("malformed", "Notifications with missing or wrong fields", &self.malformed),
            ("bad_samples", "Samples with missing or wrong fields among good ones", &self.bad_samples),
            ("retries", "Notifications that were tried again", &self.retries),
            ("set_aside", "Notifications put into the queue for what cannot be published", &self.set_aside),
        ]
    }
}

/// Needed since a registry owns its collectors, and the agent keeps its counters.
#[derive(Debug)]
pub struct NotificationFiguresCollector(pub Arc<Figures>);

impl Collector for NotificationFiguresCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let name = |name: &str| format!("gnudi_notification_{name}");
        for (own, help, count) in self.0.counts() {
            counter(&mut encoder, &name(own), help, count.get())?;
        }
        let consumers = self.0.consumers.lock();
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let sum = |figure: fn(&ConsumerFigures) -> &AtomicU64| -> u64 {
            consumers.iter().map(|one| load(figure(one))).sum()
        };
        for (own, help, count) in [
            ("connections", "Connections made to brokers", sum(|one| &one.connections)),
            (
                "acknowledgements",
                "Acknowledgements sent, each for one notification or many",
                sum(|one| &one.acknowledgements),
            ),
            ("pauses", "Pauses of consuming, since too many bytes were in flight", sum(|one| &one.pauses)),
            (
                "aside_dropped",
                "Notifications dropped since too many, or too large ones, were set aside",
                load(&self.0.aside.dropped),
            ),
        ] {
            counter(&mut encoder, &name(own), help, count)?;
        }
        let in_flight = self.0.in_flight.lock().len() as f64;
        let in_flight_bytes = sum(|one| &one.in_flight_bytes) as f64;
        let connected =
            consumers.iter().filter(|one| one.is_connected.load(Ordering::Relaxed)).count() as f64;
        let aside = load(&self.0.aside.waiting) as f64;
        for (own, help, value) in [
            ("oldest_seconds", "Age of the oldest notification in flight", self.0.oldest_seconds()),
            ("in_flight", "Notifications received and not yet acknowledged", in_flight),
            ("in_flight_bytes", "Their bytes", in_flight_bytes),
            ("brokers", "Brokers to consume from", consumers.len() as f64),
            ("connected", "Brokers that are connected", connected),
            ("aside", "Notifications that wait in the queue for what cannot be published", aside),
        ] {
            gauge(&mut encoder, &name(own), help, value)?;
        }
        Ok(())
    }
}
