//! Whatever bytes a remote read has: it is read or refused.
#![no_main]

use gnudi_prometheus::remote_read::read;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|message: &[u8]| {
    let _ = read(message);
});
