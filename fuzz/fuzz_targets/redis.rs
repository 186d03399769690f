//! See gnudi_drivers::fuzzing.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| gnudi_drivers::fuzzing::redis(bytes));
