//! Whatever measures by resource and name the scanner takes, the slow parser takes with the same names and the same bits.
#![no_main]

use gnudi_api::measures::{named::{self, Named}, scan::Scan};
use gnudi_model::{Measure, Timestamp};
use libfuzzer_sys::fuzz_target;

fn bits(measures: &[Measure]) -> Vec<(i64, u64)> {
    measures.iter().map(|measure| (measure.timestamp.0, measure.value.to_bits())).collect()
}

fuzz_target!(|body: &[u8]| {
    let (mut fast_named, mut fast, mut slow) = (Named::default(), Vec::new(), Vec::new());
    let read = named::slow(body, "foobar", Timestamp(0), usize::MAX, &mut slow);
    if named::scan(body, "foobar", usize::MAX, &mut fast_named, &mut fast) == Scan::Regular {
        assert_eq!(read.expect("the scanner has read it"), fast_named);
        assert_eq!(bits(&fast), bits(&slow));
    }
});
