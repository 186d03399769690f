//! Counters of the pipelines.

use prometheus_client::{metrics::counter::Counter, registry::Registry};

/// Clones share their counters.
#[derive(Clone, Debug, Default)]
pub struct PipelineFigures {
    /// With a valid volume, whether or not a pipeline accepts them.
    pub samples: Counter,
    /// Dropped because the volume is not a number.
    pub samples_without_volume: Counter,
    /// Accepted by no pipeline.
    pub samples_unrouted: Counter,
    pub events: Counter,
    pub events_unrouted: Counter,
}

impl PipelineFigures {
    /// Names begin with `pipeline_`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("pipeline");
        for (name, help, counter) in [
            ("samples", "Samples received by pipelines", &self.samples),
            (
                "samples_without_volume",
                "Samples dropped since their volume is no number",
                &self.samples_without_volume,
            ),
            ("samples_unrouted", "Samples without a matching pipeline", &self.samples_unrouted),
            ("events", "Events received by pipelines", &self.events),
            ("events_unrouted", "Events without a matching pipeline", &self.events_unrouted),
        ] {
            registry.register(name, help, counter.clone());
        }
    }
}
