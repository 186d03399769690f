//! Whatever message collectd sends: it is read or refused, and what is read has a place without a slash.
#![no_main]

use gnudi_model::Timestamp;
use gnudi_telemetry::amqp1;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|message: &[u8]| {
    for reading in amqp1::read(message, Timestamp(1)).unwrap_or_default() {
        assert!(!reading.metric.contains('/'));
        assert!(reading.measure.timestamp.0 >= 0);
    }
});
