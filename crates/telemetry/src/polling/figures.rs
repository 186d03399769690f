//! The polling agent's counters for `/metrics`.

use std::fmt;

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use super::agent::Counts;
use crate::figures::{counter, gauge};

/// Needed since a registry owns its collectors, and the agent keeps its counters.
#[derive(Debug)]
pub struct PollingFigures(pub Counts);

impl Collector for PollingFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = *self.0.lock();
        for (name, help, count) in [
            ("rounds", "Rounds of polling that have ended", counts.rounds),
            ("samples", "Samples published", counts.samples),
            ("failures", "Pollsters that failed in a round", counts.failures),
            ("discovery_failures", "Discoveries that failed", counts.discovery_failures),
        ] {
            counter(&mut encoder, &format!("gnudi_polling_{name}"), help, count)?;
        }
        let seconds = counts.last_round_ms as f64 / 1000.0;
        gauge(&mut encoder, "gnudi_polling_last_round_seconds", "How long the last round took", seconds)
    }
}
