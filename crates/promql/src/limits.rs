//! Limits of a query, and its use so far. Time is not limited here: the caller interrupts (`error::Interrupt`).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::error::{Error, Result};
use crate::value::Usage;

/// Limits of one query.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Length of the query's text.
    pub query_bytes_max: usize,
    /// Depth of the query's tree. A chain of binary operators counts once.
    pub depth_max: usize,
    /// Series of all selectors together.
    pub series_max: usize,
    /// Samples in memory at a time, counted as in Prometheus (`--query.max-samples`).
    pub samples_max: usize,
    /// Bytes of intermediate results, and of the label values that functions make. Columns have a slot for each step,
    /// with or without a sample.
    pub memory_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            query_bytes_max: 64 << 10,
            depth_max: 64,
            series_max: 1_000_000,
            samples_max: 50_000_000,
            memory_bytes_max: 1 << 30,
        }
    }
}

/// The memory in use by a query.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    samples_max: usize,
    bytes_max: usize,
    samples: AtomicUsize,
    bytes: AtomicUsize,
    texts: AtomicUsize,
    peak_samples: AtomicUsize,
    queried_samples: AtomicU64,
    read_samples: AtomicU64,
    series: AtomicU64,
}

/// A state to return to when intermediate results are dropped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    samples: usize,
    bytes: usize,
}

fn too_many_samples() -> Error {
    Error::execution("query processing would load too many samples into memory in expression evaluation")
}

/// Bytes of a column.
pub(crate) fn column_bytes(steps: usize) -> usize {
    steps.saturating_mul(8).saturating_add(steps / 8 + 96)
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Budget {
        Budget { samples_max: limits.samples_max, bytes_max: limits.memory_bytes_max, ..Budget::default() }
    }

    /// Counts samples read, and those of them that the previous step had not read.
    pub(crate) fn count_samples(&self, queried: usize, read: usize) {
        self.queried_samples.fetch_add(queried as u64, Ordering::Relaxed);
        self.read_samples.fetch_add(read as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_series(&self, count: usize) {
        self.series.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Counts what another budget has counted.
    pub(crate) fn count_usage(&self, usage: &Usage) {
        self.queried_samples.fetch_add(usage.queried_samples, Ordering::Relaxed);
        self.read_samples.fetch_add(usage.read_samples, Ordering::Relaxed);
        self.note_window(usage.peak_samples);
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            queried_samples: self.queried_samples.load(Ordering::Relaxed),
            read_samples: self.read_samples.load(Ordering::Relaxed),
            peak_samples: self.peak_samples.load(Ordering::Relaxed),
            series: self.series.load(Ordering::Relaxed),
        }
    }

    /// Records that a window with this many samples was in memory besides the rest.
    pub(crate) fn note_window(&self, count: usize) {
        let beside = self.samples.load(Ordering::Relaxed);
        self.peak_samples.fetch_max(beside.saturating_add(count), Ordering::Relaxed);
    }

    /// Take samples in memory.
    pub(crate) fn samples(&self, count: usize) -> Result<()> {
        let before = self.samples.fetch_add(count, Ordering::Relaxed);
        if before.saturating_add(count) > self.samples_max {
            return Err(too_many_samples());
        }
        self.peak_samples.fetch_max(before + count, Ordering::Relaxed);
        Ok(())
    }

    /// Check that `count` more samples would fit.
    pub(crate) fn samples_fit(&self, count: usize) -> Result<()> {
        if self.samples.load(Ordering::Relaxed).saturating_add(count) > self.samples_max {
            return Err(too_many_samples());
        }
        Ok(())
    }

    /// Reserves memory for columns, before they are allocated.
    pub(crate) fn columns(&self, count: usize, steps: usize) -> Result<()> {
        self.bytes(count.saturating_mul(column_bytes(steps)))
    }

    pub(crate) fn bytes(&self, count: usize) -> Result<()> {
        self.take(&self.bytes, count)
    }

    /// Bytes that are reserved.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Counts the texts of new label values, before they are allocated. They are not released before the query ends.
    pub(crate) fn texts(&self, count: usize) -> Result<()> {
        self.take(&self.texts, count)
    }

    fn take(&self, taken: &AtomicUsize, count: usize) -> Result<()> {
        // Bounded, so that the sum cannot overflow: an excess ends the query.
        let count = count.min(usize::MAX / 4);
        let before = taken.fetch_add(count, Ordering::Relaxed);
        if before.saturating_add(count) > self.bytes_max {
            let text = "query processing would take too much memory in expression evaluation";
            return Err(Error::execution(text));
        }
        Ok(())
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { samples: self.samples.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }

    /// Releases everything reserved since `mark`, except a result of this size.
    pub(crate) fn keep(&self, mark: Mark, samples: usize, bytes: usize) -> Result<()> {
        self.samples.store(mark.samples, Ordering::Relaxed);
        self.bytes.store(mark.bytes, Ordering::Relaxed);
        self.samples(samples)?;
        self.bytes(bytes)
    }
}
