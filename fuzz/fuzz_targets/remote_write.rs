//! Whatever bytes a remote write has: it is read or refused, and a series has a place without a slash or has none.
#![no_main]

use gnudi_api::prometheus::{
    inflate, inflated_bytes,
    names::{Labels, place},
    write_request,
};
use libfuzzer_sys::fuzz_target;

const INFLATED_BYTES_MAX: usize = 1 << 20;
const SAMPLES_MAX: usize = 10_000;

fuzz_target!(|body: &[u8]| {
    let inflated = inflated_bytes(body, INFLATED_BYTES_MAX).and_then(|_| inflate(body)).ok();
    for message in [Some(body), inflated.as_deref()].into_iter().flatten() {
        for series in write_request::read(message, SAMPLES_MAX).unwrap_or_default() {
            let Some(place) = place(&series.labels, Labels::All) else { continue };
            for name in [place.resource(), place.metric_name] {
                assert!(!name.is_empty() && name.chars().count() <= 255 && !name.contains(['/', '\0']));
            }
        }
    }
});
