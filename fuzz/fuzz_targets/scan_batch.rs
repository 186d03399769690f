//! If the scanner accepts a batch of measures, the slow parser accepts it with the same metrics and the same bits.
#![no_main]

use gnudi_api::measures::{scan::{self, MetricMeasures, Scan}, slow};
use gnudi_model::{Measure, Timestamp};
use libfuzzer_sys::fuzz_target;

/// The measures of each metric; of several lists for one, the last.
fn by_metric(parts: &[MetricMeasures], measures: &[Measure]) -> Vec<(String, Vec<(i64, u64)>)> {
    let mut lists: std::collections::BTreeMap<String, Vec<(i64, u64)>> = std::collections::BTreeMap::new();
    for part in parts {
        let bits = measures[part.range.clone()].iter();
        let bits = bits.map(|measure| (measure.timestamp.0, measure.value.to_bits())).collect();
        lists.insert(part.metric.to_string(), bits);
    }
    lists.into_iter().collect()
}

fuzz_target!(|body: &[u8]| {
    let (mut fast_parts, mut fast, mut slow_parts, mut slow) = Default::default();
    let read = slow::batch(body, Timestamp(0), usize::MAX, &mut slow_parts, &mut slow);
    if scan::batch(body, usize::MAX, &mut fast_parts, &mut fast) == Scan::Regular {
        read.expect("the scanner has read it");
        assert_eq!(by_metric(&fast_parts, &fast), by_metric(&slow_parts, &slow));
    }
});
