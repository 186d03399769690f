//! Any bytes as an export of OpenTelemetry's metrics: parsed or refused within the limits; labels are valid.
#![no_main]

use gnudi_prometheus::{
    otlp::{Encoding, read, translate},
    remote_write::{Limits, labels::check},
};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { samples_max: 10_000, labels_bytes_max: 1 << 20 };

fuzz_target!(|body: &[u8]| {
    for encoding in [Encoding::Protobuf, Encoding::Json] {
        let Ok(request) = read(body, encoding, LIMITS) else { continue };
        let mut samples = 0;
        let _ = translate(&request, LIMITS, &mut |translated| {
            samples += 1;
            assert!(translated.labels.len() > 1_000 || check(translated.labels).is_ok());
        });
        assert!(samples <= LIMITS.samples_max);
    }
});
