//! Whatever list of measures the scanner takes, the slow parser takes with the same bits.
#![no_main]

use gnudi_api::measures::{scan::{self, Scan}, slow};
use gnudi_model::{Measure, Timestamp};
use libfuzzer_sys::fuzz_target;

fn bits(measures: &[Measure]) -> Vec<(i64, u64)> {
    measures.iter().map(|measure| (measure.timestamp.0, measure.value.to_bits())).collect()
}

fuzz_target!(|body: &[u8]| {
    let (mut fast, mut slow) = (Vec::new(), Vec::new());
    let read = slow::list(body, Timestamp(0), usize::MAX, &mut slow);
    if scan::list(body, usize::MAX, &mut fast) == Scan::Regular {
        read.expect("the scanner has read it");
        assert_eq!(bits(&fast), bits(&slow));
    }
});
