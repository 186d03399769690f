//! Counters of publishers, by kind.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    publisher: String,
}

/// Clones share their counters.
#[derive(Clone, Debug, Default)]
pub struct PublisherFigures {
    published: Family<Labels, Counter>,
    lost: Family<Labels, Counter>,
    retries: Family<Labels, Counter>,
}

impl PublisherFigures {
    /// Names begin with `publisher_`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("publisher");
        let lost = "Samples and events dropped, according to the publisher's kind and options";
        for (name, help, family) in [
            ("published", "Samples and events accepted by a publisher's peer", &self.published),
            ("lost", lost, &self.lost),
            ("retries", "Tries after one that failed", &self.retries),
        ] {
            registry.register(name, help, family.clone());
        }
    }

    /// The counters of one kind of publisher.
    pub fn of(&self, publisher: &str) -> PublisherCounts {
        let labels = Labels { publisher: publisher.to_owned() };
        PublisherCounts {
            published: self.published.get_or_create(&labels).clone(),
            lost: self.lost.get_or_create(&labels).clone(),
            retries: self.retries.get_or_create(&labels).clone(),
        }
    }
}

/// Counters of one kind of publisher.
#[derive(Clone, Debug, Default)]
pub struct PublisherCounts {
    /// Samples and events.
    pub published: Counter,
    pub lost: Counter,
    pub retries: Counter,
}
