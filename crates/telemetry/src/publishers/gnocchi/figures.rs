//! What the publisher counts, for `/metrics`.

use prometheus_client::{
    metrics::{
        counter::Counter,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

/// Clones share the counts.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Measures that the store has taken.
    pub samples: Counter,
    /// Measures of a request.
    pub batch_samples: Histogram,
    /// Messages that wait for their receipt.
    pub messages_waiting: Gauge,
    /// Times that the store was asked again, since it did not answer or was not well.
    pub retries: Counter,
    /// Samples that the store will never take, or that are none.
    pub rejected: Counter,
    /// Changes of resources that the store does not take.
    pub refused: Counter,
    /// Samples of meters that no definition knows.
    pub unknown: Counter,
    /// Samples that are the store's own activity.
    pub filtered: Counter,
    pub resources_created: Counter,
    pub resources_patched: Counter,
    pub events: Counter,
}

impl Default for Figures {
    fn default() -> Self {
        Figures {
            samples: Counter::default(),
            batch_samples: Histogram::new(exponential_buckets(1.0, 4.0, 8)),
            messages_waiting: Gauge::default(),
            retries: Counter::default(),
            rejected: Counter::default(),
            refused: Counter::default(),
            unknown: Counter::default(),
            filtered: Counter::default(),
            resources_created: Counter::default(),
            resources_patched: Counter::default(),
            events: Counter::default(),
        }
    }
}

impl Figures {
    /// Names them; `registry` gives the prefix.
    pub fn register(&self, registry: &mut Registry) {
        for (name, help, counter) in [
            ("gnocchi_samples", "Samples that the store has taken", &self.samples),
            ("gnocchi_retries", "Requests to the store that were made again", &self.retries),
            ("gnocchi_rejected", "Samples that the store does not take", &self.rejected),
            ("gnocchi_refused", "Changes of resources that the store does not take", &self.refused),
            ("gnocchi_unknown", "Samples of meters that no definition knows", &self.unknown),
            ("gnocchi_filtered", "Samples of the filtered project", &self.filtered),
            ("gnocchi_resources_created", "Resources created", &self.resources_created),
            ("gnocchi_resources_patched", "Resources changed", &self.resources_patched),
            ("gnocchi_events", "Events that began, changed or ended a resource", &self.events),
        ] {
            registry.register(name, help, counter.clone());
        }
        registry.register(
            "gnocchi_batch_samples",
            "Samples of a request to the store",
            self.batch_samples.clone(),
        );
        let waiting = self.messages_waiting.clone();
        registry.register("gnocchi_messages_waiting", "Messages that wait for the store", waiting);
    }
}
