//! Decoding a block of raw points never panics, even if damaged bytes have a valid checksum; times ascend, each with a value.
#![no_main]

use gnudi_series::raw;
use libfuzzer_sys::fuzz_target;

#[path = "../with_checksum.rs"]
mod with_checksum;

fn decode(bytes: &[u8]) {
    let extent = raw::extent(bytes);
    let (mut times, mut values) = (Vec::new(), Vec::new());
    if raw::decode(bytes, &mut times, &mut values).is_ok() {
        assert_eq!(times.len(), values.len());
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
        let extent = extent.expect("it was decoded");
        assert_eq!((extent.points, extent.first, extent.last), (times.len(), times[0], times[times.len() - 1]));
    }
}

fuzz_target!(|bytes: &[u8]| {
    decode(bytes);
    decode(&with_checksum::of(bytes));
});
