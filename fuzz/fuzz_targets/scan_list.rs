//! Where the scanner takes a list of measures, the slow parser reads the same bits.
#![no_main]

use gnudi_api::measures::{
    scan::{self, Scan},
    slow,
};
use gnudi_model::Timestamp;
use libfuzzer_sys::fuzz_target;

const MEASURES_MAX: usize = 10_000;

fuzz_target!(|body: &[u8]| {
    let mut fast = Vec::new();
    if scan::list(body, MEASURES_MAX, &mut fast) != Scan::Regular {
        return;
    }
    let mut slow = Vec::new();
    let read = slow::list(body, Timestamp::from_secs(1_700_000_000), MEASURES_MAX, &mut slow);
    assert!(read.is_ok(), "the slow parser refuses what the scanner takes");
    let bits = |measures: &[gnudi_model::Measure]| -> Vec<(i64, u64)> {
        measures.iter().map(|measure| (measure.timestamp.0, measure.value.to_bits())).collect()
    };
    assert_eq!(bits(&fast), bits(&slow));
});
