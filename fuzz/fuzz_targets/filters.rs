//! The parsers of the filter language and of queries for values panic at no text and no document.
#![no_main]

use gnudi_api::{filter::{from_json, from_text}, predicate::Predicate};
use gnudi_app::json;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = from_text(text, "foobar");
    }
    if let Ok(document) = json::parse(input) {
        let _ = from_json(&document, "foobar");
        if let Ok(predicate) = Predicate::read(&document)
            && predicate.check().is_ok()
        {
            let _ = [f64::NAN, -1.5, 0.0].map(|value| predicate.holds(value));
        }
    }
});
