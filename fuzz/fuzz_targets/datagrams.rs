//! Any bytes as a datagram of statsd's: accepted values are within the limits and have valid metric names.
#![no_main]

use gnudi_model::Timestamp;
use gnudi_telemetry::statsd::{Aggregator, AggregatorLimits};
use libfuzzer_sys::fuzz_target;

const LIMITS: AggregatorLimits = AggregatorLimits { metrics_max: 16, values_max: 64 };

fuzz_target!(|datagram: &[u8]| {
    let mut aggregator = Aggregator::new(LIMITS);
    // Twice, with a flush in between, which keeps the levels of gauges.
    for second in 1..=2 {
        let _ = aggregator.add_datagram(datagram, Timestamp(second * 1_000_000_000));
        let (metrics, taken) = aggregator.flush();
        assert!(metrics.len() <= LIMITS.metrics_max);
        assert!(taken.values + taken.malformed + taken.excess <= 2 * datagram.len() as u64 + 2);
        for (name, measures) in &metrics {
            assert!(!name.is_empty() && name.chars().count() <= 255 && !name.contains(['/', '\0']));
            assert!(measures.len() <= LIMITS.values_max.max(1));
        }
    }
});
