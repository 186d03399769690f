//! Any bytes as a remote write of either version: a request is decoded or rejected, and the resource and metric names of its
//! series contain neither a slash nor a NUL.
#![no_main]

use gnudi_prometheus::remote_write::{
    Limits, inflate, inflated_bytes,
    labels::check,
    names::{Labels, place},
    v1, v2,
};
use libfuzzer_sys::fuzz_target;

const INFLATED_BYTES_MAX: usize = 1 << 20;
const LIMITS: Limits = Limits { samples_max: 10_000, labels_bytes_max: INFLATED_BYTES_MAX };
const LABELS_MAX: usize = 1_000;

fuzz_target!(|body: &[u8]| {
    let inflated = inflated_bytes(body, INFLATED_BYTES_MAX).ok().and_then(|_| inflate(body).ok());
    for message in [Some(body), inflated.as_deref()].into_iter().flatten() {
        for request in [v1::read(message, LIMITS), v2::read(message, LIMITS)].into_iter().flatten() {
            for series in &request.series {
                request.key(series, &mut Vec::new());
                let _ = (request.samples(series), request.metadata(series));
                let Ok(labels) = request.labels(series, LABELS_MAX) else { continue };
                let place = place(&labels, Labels::Exact);
                assert!(place.is_some() || check(&labels).is_err());
                let Some(place) = place else { continue };
                for name in [place.resource(), place.metric_name] {
                    assert!(!name.is_empty() && !name.contains(['/', '\0']));
                }
            }
        }
    }
});
