//! Decoding a head never panics, even if damaged bytes have a valid checksum; a decoded head is equal after encoding and decoding it again.
#![no_main]

use gnudi_series::head::Head;
use libfuzzer_sys::fuzz_target;

#[path = "../with_checksum.rs"]
mod with_checksum;

fn decode(bytes: &[u8]) {
    let Ok(head) = Head::decode(bytes) else { return };
    let mut encoded = Vec::new();
    head.encode(&mut encoded);
    let again = Head::decode(&encoded).expect("what was encoded decodes");
    let mut twice = Vec::new();
    again.encode(&mut twice);
    assert_eq!(encoded, twice);
}

fuzz_target!(|bytes: &[u8]| {
    decode(bytes);
    decode(&with_checksum::of(bytes));
});
