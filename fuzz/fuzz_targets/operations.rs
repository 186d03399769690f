//! Operations as text or JSON are parsed or refused; a parsed operation, printed as a list, is parsed again.
#![no_main]

use gnudi_api::operations;
use gnudi_app::json::{self, Value};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for document in [Some(Value::from(text)), json::parse(input).ok()].into_iter().flatten() {
        if let Ok(operation) = operations::read(&document) {
            operation.check_size().expect("its size has been checked");
            let shown = operations::shown(&operation);
            let again = operations::read(&shown).expect("it was read before");
            // Spans are shown in seconds, whose last digits nanoseconds do not always survive.
            assert_eq!(operation.metric_names(), again.metric_names());
        }
    }
});
