//! Any bytes as a notification of OpenStack's message bus: it and its samples are parsed or refused.
#![no_main]

use gnudi_telemetry::notification::{polled, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|message: &[u8]| {
    let Ok(text) = std::str::from_utf8(message) else { return };
    let _ = read(text);
    if let Ok(found) = polled(text) {
        // Each sample is an object of its own, of two bytes at least.
        assert!(found.samples.len() <= text.len() / 2);
    }
});
