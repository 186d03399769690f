//! The allocator, and what it returns to the system.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// Bodies and responses are large and short-lived; the system's allocator would map and unmap them each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How often a thread returns memory at most.
const BETWEEN_RELEASES: Duration = Duration::from_millis(250);

/// Disables transparent huge pages, which the allocator requests: a page of 2 MiB stays resident for the few kilobytes
/// in use. Without them a server takes half the memory at the same speed (ARCHITECTURE.md).
pub fn use_small_pages() {
    // Fails on kernels without huge pages, where there is nothing to disable.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Returns memory that this thread owns and nobody uses to the system; the allocator would cache it.
#[expect(unsafe_code, reason = "the allocator's crate has no safe name for it")]
pub fn release() {
    unsafe extern "C" {
        fn mi_collect(force: bool);
    }
    // SAFETY: a function of mimalloc with this signature; any thread may call it at any time.
    unsafe { mi_collect(true) };
}

/// Calls [`release`] if this thread has not done so recently. For threads that begin to wait: what other threads have freed
/// of a thread's memory stays with it until it allocates again (ARCHITECTURE.md).
pub fn release_at_rest() {
    thread_local! {
        static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    let now = Instant::now();
    if LAST.get().is_none_or(|last| now.duration_since(last) >= BETWEEN_RELEASES) {
        LAST.set(Some(now));
        release();
    }
}
