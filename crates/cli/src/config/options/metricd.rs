//! `[metricd]`: the workers.

use super::{ANY, Kind, POSITIVE, Spec, THREADS};

pub const OPTIONS: &[Spec] = &options! {
    [metricd]
    option workers(THREADS, "",
        "Sacks processed at the same time, and four times as many on shared engines, where they mostly wait for \
         responses. Unset: one for each processor.");
    option metric_processing_delay(ANY, "60", "Seconds between passes over all sacks if greedy is off; 0 is 1.")
        { formerly: &[("storage", "metric_processing_delay")] };
    option greedy(Kind::Bool, "true", "Process measures as they arrive.");
    option gather_ms(ANY, "100",
        "gnudi: how long a sack collects measures before it is processed, in milliseconds, so that one pass folds \
         many requests. On shared engines it is five times the duration of a pass if that is longer, but 500 ms at \
         most.");
    option checkpoint_ms(POSITIVE, "600000",
        "gnudi: interval of checkpoints in milliseconds: the longest time that heads of aggregates stay in memory \
         only. Until then the log of measures keeps what a start would fold again. With a long log or little disk \
         space a checkpoint is due earlier, on shared engines every 2 s.");
    option metric_reporting_delay(Kind::Int { min: -1, max: i64::MAX }, "120",
        "Seconds between log lines about the backlog; 0 is 1, -1 for none.")
        { formerly: &[("storage", "metric_reporting_delay")] };
    text metrics_listen("",
        "gnudi: host:port where `gnudi metricd` shows figures, at /metrics. Unset: nowhere. Workers within \
         `gnudi serve` show theirs with the API's.");
    option metric_cleanup_delay(ANY, "300", "Seconds between removals of deleted metrics; 0 is 1.")
        { formerly: &[("storage", "metric_cleanup_delay")] };
    option cleanup_batch_size(POSITIVE, "10000", "Maximum metrics that are removed at once.");
    option lease_seconds(Kind::Seconds, "10",
        "gnudi: a process that has not renewed its leases for this time loses its sacks, if processes share \
         the engines.");
    idle processing_replicas("3", "each sack has one owner");
    option metric_inactive_after(ANY, "0",
        "Seconds without measures after which a metric is inactive; a resource is ended once all of its metrics \
         are. They are counted from the start of the program at the earliest. 0: never.");
    option resource_cleanup_after(ANY, "0",
        "Seconds after their end at which resources are deleted, with their metrics. If this machine's clock is set \
         forward, they are kept for as much longer. 0: never.");
    option resource_history_retention(ANY, "0",
        "gnudi: seconds after their end at which former revisions of resources are removed; the current one \
         stays. If this machine's clock is set forward, they are kept for as much longer. 0: never.");
};
