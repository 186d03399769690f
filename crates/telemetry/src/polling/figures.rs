//! What the polling agent has counted, for `/metrics`.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

use super::agent::Counts;

/// A registry owns its collectors, and the agent keeps its counts.
#[derive(Debug)]
pub struct PollingFigures(pub Counts);

impl Collector for PollingFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = *self.0.lock();
        for (name, help, count) in [
            ("gnudi_polling_rounds", "Rounds of polling that have ended", counts.rounds),
            ("gnudi_polling_samples", "Samples handed on", counts.samples),
            ("gnudi_polling_failures", "Pollsters that could not go on in a round", counts.failures),
            (
                "gnudi_polling_discovery_failures",
                "Discoveries that could not tell what there is to poll",
                counts.discovery_failures,
            ),
        ] {
            let counter = ConstCounter::new(count);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        let gauge = ConstGauge::new(counts.last_round_ms as f64 / 1000.0);
        let (name, help) = ("gnudi_polling_last_round_seconds", "How long the last round took");
        gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
    }
}
