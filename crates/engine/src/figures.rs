//! Counters of the workers, for `/metrics` and the reporter.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Declares each counter once: its field, its name for `/metrics`, the divisor to the unit of that name, and its help.
macro_rules! figures {
    ($($field:ident, $name:literal, $unit:literal, $help:literal;)*) => {
        /// Counters since the start of the process. Fields are in the unit of their names, and described as listed.
        #[derive(Debug, Default)]
        pub struct Figures {
            $(#[doc = $help] pub $field: AtomicU64,)*
        }

        impl Figures {
            /// Name, help and value of each counter.
            pub fn list(&self) -> [(&'static str, &'static str, f64); 16] {
                [$(($name, $help, self.$field.load(Relaxed) as f64 / $unit),)*]
            }
        }
    };
}

figures! {
    passes, "passes", 1.0, "Passes over a sack that found measures";
    pass_time_us, "pass_seconds", 1e6, "Time spent in passes, over all workers, in seconds";
    passes_failed, "passes_failed", 1.0, "Passes that failed and are tried again";
    heads_written, "heads_written", 1.0, "Heads written";
    blocks_sealed, "blocks_sealed", 1.0, "Blocks sealed";
    measures_folded, "measures_folded", 1.0, "Measures folded into aggregates";
    measures_late, "measures_late", 1.0, "Measures dropped: older than the back window";
    measures_orphaned, "measures_orphaned", 1.0, "Measures dropped: their metric was deleted";
    measures_set_aside, "measures_set_aside", 1.0, "Measures set aside: folding them panicked";
    damaged, "damaged", 1.0, "Heads, blocks or records that did not decode";
    metrics_converted, "metrics_converted", 1.0, "Metrics converted to another policy or other aggregation methods";
    metrics_expunged, "metrics_expunged", 1.0, "Deleted metrics whose data is removed";
    resources_ended, "resources_ended", 1.0, "Resources ended: no measures for long";
    resources_revived, "resources_revived", 1.0, "Ends of resources revoked by new measures";
    resources_removed, "resources_removed", 1.0, "Resources deleted: ended long ago";
    revisions_removed, "revisions_removed", 1.0, "Revisions removed: ended long ago";
}

impl Figures {
    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Relaxed);
    }
}
