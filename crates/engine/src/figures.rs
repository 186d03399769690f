//! Counters of the workers, for `/metrics` and the reporter.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters since the start of the process.
#[derive(Debug, Default)]
pub struct Figures {
    /// Passes over a sack that found records.
    pub passes: AtomicU64,
    /// Their time in microseconds, summed over all workers.
    pub pass_time_us: AtomicU64,
    /// Failed passes, which are retried.
    pub passes_failed: AtomicU64,
    /// Heads written.
    pub heads_written: AtomicU64,
    /// Blocks sealed.
    pub blocks_sealed: AtomicU64,
    /// Measures folded into aggregates.
    pub measures_folded: AtomicU64,
    /// Measures dropped because they were older than the back window.
    pub measures_late: AtomicU64,
    /// Measures dropped because their metric was deleted.
    pub measures_orphaned: AtomicU64,
    /// Measures set aside because folding them panicked.
    pub measures_set_aside: AtomicU64,
    /// Heads, blocks or records that did not decode and were quarantined.
    pub damaged: AtomicU64,
    /// Heads converted to another policy, or to other methods.
    pub metrics_converted: AtomicU64,
    /// Metrics whose data the janitor removed.
    pub metrics_expunged: AtomicU64,
    /// Resources that the janitor ended because their metrics got no measures.
    pub resources_ended: AtomicU64,
    /// Ends of resources that were revoked because newer measures came.
    pub resources_revived: AtomicU64,
    /// Resources that the janitor deleted because they ended long ago.
    pub resources_removed: AtomicU64,
    /// Former revisions of resources that the janitor removed because they ended long ago.
    pub revisions_removed: AtomicU64,
}

impl Figures {
    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Relaxed);
    }

    /// Name, help and value of each counter.
    pub fn list(&self) -> [(&'static str, &'static str, f64); 16] {
        let value = |counter: &AtomicU64| counter.load(Relaxed) as f64;
        [
            ("passes", "Passes over a sack that found measures", value(&self.passes)),
            (
                "pass_seconds",
                "Time spent in passes, over all workers, in seconds",
                value(&self.pass_time_us) / 1e6,
            ),
            ("passes_failed", "Passes that failed and are tried again", value(&self.passes_failed)),
            ("heads_written", "Heads written", value(&self.heads_written)),
            ("blocks_sealed", "Blocks sealed", value(&self.blocks_sealed)),
            ("measures_folded", "Measures folded into aggregates", value(&self.measures_folded)),
            ("measures_late", "Measures dropped: older than the back window", value(&self.measures_late)),
            (
                "measures_orphaned",
                "Measures dropped: their metric was deleted",
                value(&self.measures_orphaned),
            ),
            (
                "measures_set_aside",
                "Measures set aside: folding them panicked",
                value(&self.measures_set_aside),
            ),
            ("damaged", "Heads, blocks or records that did not decode", value(&self.damaged)),
            (
                "metrics_converted",
                "Metrics converted to another policy or other aggregation methods",
                value(&self.metrics_converted),
            ),
            ("metrics_expunged", "Deleted metrics whose data is removed", value(&self.metrics_expunged)),
            ("resources_ended", "Resources ended: no measures for long", value(&self.resources_ended)),
            (
                "resources_revived",
                "Ends of resources revoked by new measures",
                value(&self.resources_revived),
            ),
            ("resources_removed", "Resources deleted: ended long ago", value(&self.resources_removed)),
            ("revisions_removed", "Revisions removed: ended long ago", value(&self.revisions_removed)),
        ]
    }
}
