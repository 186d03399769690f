//! Any bytes as lines of InfluxDB's protocol: parsed or refused; parsed points have names.
#![no_main]

use gnudi_api::influxdb::{Line, query::database_to_create};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let mut rest = body;
    while let Ok((line, after)) = Line::first(rest, usize::MAX)
        && !rest.is_empty()
    {
        rest = after;
        if let Some(line) = line {
            assert!(!line.measurement.is_empty() && !line.fields.is_empty());
            assert!(line.tags.is_sorted_by(|a, b| a.0 < b.0));
            assert!(line.tags.iter().all(|(key, value)| !key.is_empty() && !value.is_empty()));
        }
    }
    if let Ok(text) = std::str::from_utf8(body) {
        let _ = database_to_create(text);
    }
});
