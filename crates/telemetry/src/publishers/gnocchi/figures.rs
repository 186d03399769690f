//! The publisher's counters for `/metrics`.

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
pub struct GnocchiFigures {
    /// Measures stored.
    pub samples: Counter,
    /// Measures per request.
    pub batch_samples: Histogram,
    /// Messages whose receipt is pending.
    pub messages_waiting: Gauge,
    /// Retried requests: the store did not respond, or was not available.
    pub retries: Counter,
    /// Invalid samples, and samples that the store rejected.
    pub rejected: Counter,
    /// Resource changes that the store rejected.
    pub refused: Counter,
    /// Samples of meters without a definition.
    pub unknown: Counter,
    /// Samples of the filtered project.
    pub filtered: Counter,
    pub resources_created: Counter,
    pub resources_patched: Counter,
    pub events: Counter,
}

impl Default for GnocchiFigures {
    fn default() -> Self {
        GnocchiFigures {
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

impl GnocchiFigures {
    /// Registers them; `registry` adds the prefix.
    pub fn register(&self, registry: &mut Registry) {
        for (name, help, counter) in [
            ("gnocchi_samples", "Samples accepted by the store", &self.samples),
            ("gnocchi_retries", "Retried requests to the store", &self.retries),
            ("gnocchi_rejected", "Samples refused by the store", &self.rejected),
            ("gnocchi_refused", "Changes of resources refused by the store", &self.refused),
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
