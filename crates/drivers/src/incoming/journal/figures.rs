//! Counters of a journal since it was opened.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Values of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalFigures {
    /// Of its files, without space allocated ahead.
    pub bytes: u64,
    pub files: u64,
    /// Batches made durable.
    pub appends: u64,
    /// Batches not made durable.
    pub failures: u64,
    pub syncs: u64,
    pub sync_time: Duration,
}

/// The counters being updated.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub bytes: AtomicU64,
    pub files: AtomicU64,
    pub appends: AtomicU64,
    pub failures: AtomicU64,
    pub syncs: AtomicU64,
    pub sync_nanoseconds: AtomicU64,
}

impl Counters {
    pub fn figures(&self) -> JournalFigures {
        let [bytes, files, appends, failures, syncs, nanoseconds] =
            [&self.bytes, &self.files, &self.appends, &self.failures, &self.syncs, &self.sync_nanoseconds]
                .map(|counter| counter.load(Ordering::Relaxed));
        let sync_time = Duration::from_nanos(nanoseconds);
        JournalFigures { bytes, files, appends, failures, syncs, sync_time }
    }
}
