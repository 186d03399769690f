//! Decoding points never panics; decoded points are equal after encoding and decoding them again.
#![no_main]

use gnudi_series::points;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut measures = Vec::new();
    if points::decode(bytes, &mut measures).is_err() {
        return;
    }
    let mut encoded = Vec::new();
    points::encode(&measures, &mut encoded);
    let mut again = Vec::new();
    points::decode(&encoded, &mut again).expect("what was encoded decodes");
    let bits = |measures: &[gnudi_model::Measure]| -> Vec<(i64, u64)> {
        measures.iter().map(|measure| (measure.timestamp.0, measure.value.to_bits())).collect()
    };
    assert_eq!(bits(&measures), bits(&again));
});
