//! Any bytes as an Arrow IPC stream: parsed or refused within the limits; every measure belongs to exactly one metric.
#![no_main]

use std::ops::Range;

use gnudi_arrow::read::{ReadLimits, metric_measures, named_measures};
use gnudi_model::Measure;
use libfuzzer_sys::fuzz_target;
use uuid::Uuid;

const LIMITS: ReadLimits = ReadLimits { measures_max: 100_000, metrics_max: 1_000, inflated_bytes_max: 8 << 20 };

fn check(ranges: impl Iterator<Item = Range<usize>>, measures: &[Measure]) {
    let mut ranges: Vec<Range<usize>> = ranges.collect();
    assert!(ranges.len() <= LIMITS.metrics_max && measures.len() <= LIMITS.measures_max);
    ranges.sort_by_key(|range| range.start);
    let mut from = 0;
    for range in ranges {
        assert!(range.start == from && range.end > from);
        from = range.end;
    }
    assert_eq!(from, measures.len());
    assert!(measures.iter().all(|measure| measure.timestamp.0 >= 0));
}

fuzz_target!(|stream: &[u8]| {
    let mut measures = Vec::new();
    if let Ok(parts) = metric_measures(stream, &LIMITS, &mut measures) {
        check(parts.into_iter().map(|part| part.range), &measures);
    }
    let id_of = |text: &str| match text.len() {
        0 => Err("it is empty".to_owned()),
        length => Ok(Uuid::from_u128(length as u128)),
    };
    if let Ok(named) = named_measures(stream, &LIMITS, id_of, &mut measures) {
        assert!(named.metrics.iter().all(|metric| metric.resource < named.resources.len()));
        check(named.metrics.into_iter().map(|metric| metric.range), &measures);
    }
});
