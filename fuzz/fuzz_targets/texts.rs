//! The parsers of JSON, spans and times panic at no text; printed JSON is parsed to the same document.
#![no_main]

use gnudi_app::{json, python};
use gnudi_model::Timestamp;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(value) = json::parse(input) {
        let _ = (python::timespan(&value), python::int(&value), value.repr());
        let printed = value.to_json();
        let again = json::parse(printed.as_bytes()).expect("it was printed as JSON");
        // The printed texts are compared, since NaN is not equal to itself.
        assert_eq!(again.to_json(), printed);
    }
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = python::timestamp(text, Timestamp(1_795_264_496_789_012_345));
    }
});
