//! See gnudi_drivers::fuzzing.
#![no_main]

use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // In memory, if possible.
    let shared = PathBuf::from("/dev/shm");
    let parent = if shared.is_dir() { shared } else { std::env::temp_dir() };
    let dir = parent.join(format!("gnudi-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    gnudi_drivers::fuzzing::recovery(bytes, &dir);
});
