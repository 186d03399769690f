//! Where the scanner takes a batch of measures, reading it slowly gives the same metrics and the same bits.
#![no_main]

use gnudi_api::measures::{ReadBy, read_batch, scan::MetricMeasures, slow};
use gnudi_model::{Measure, Timestamp};
use libfuzzer_sys::fuzz_target;

const MEASURES_MAX: usize = 10_000;

fn now() -> Timestamp {
    Timestamp::from_secs(1_700_000_000)
}

fn bits(metrics: &[MetricMeasures], measures: &[Measure]) -> Vec<(u128, Vec<(i64, u64)>)> {
    let of = |part: &MetricMeasures| {
        measures[part.range.clone()].iter().map(|m| (m.timestamp.0, m.value.to_bits())).collect()
    };
    metrics.iter().map(|part| (part.metric.0.as_u128(), of(part))).collect()
}

fuzz_target!(|body: &[u8]| {
    let (mut metrics, mut measures) = (Vec::new(), Vec::new());
    if !matches!(read_batch(body, now, MEASURES_MAX, &mut metrics, &mut measures), Ok(ReadBy::Scanner)) {
        return;
    }
    let (mut slow_metrics, mut slow_measures) = (Vec::new(), Vec::new());
    let read = slow::batch(body, now(), MEASURES_MAX, &mut slow_metrics, &mut slow_measures);
    assert!(read.is_ok(), "the slow parser refuses what the scanner takes");
    assert_eq!(bits(&metrics, &measures), bits(&slow_metrics, &slow_measures));
});
