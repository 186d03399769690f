//! Decoding a block never panics, whatever method is asked for, also where the checksum vouches for nonsense; times and values
//! come in pairs.
#![no_main]

use gnudi_model::AggregationMethod;
use gnudi_series::block;
use libfuzzer_sys::fuzz_target;

#[path = "../with_checksum.rs"]
mod with_checksum;

fn decode(bytes: &[u8], method: AggregationMethod) {
    let _ = block::extent(bytes);
    let (mut times, mut values) = (Vec::new(), Vec::new());
    if block::decode(bytes, method, &mut times, &mut values).is_ok() {
        assert_eq!(times.len(), values.len());
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((code, bytes)) = input.split_first() else { return };
    let Some(method) = AggregationMethod::from_code(*code) else { return };
    decode(bytes, method);
    decode(&with_checksum::of(bytes), method);
});
