//! `[storage]`: the store of aggregates. The engines' own options are in `engines`.

use super::{ANY, Kind, POSITIVE, Spec};

pub const OPTIONS: &[Spec] = &options! {
    [storage]
    option recent_bytes_max(POSITIVE, "268435456",
        "gnudi: size of the log of new aggregates before they are sorted into a file; its index \
         takes up to 30 MB of memory.");
    option dirty_bytes_max(ANY, "33554432",
        "gnudi: memory for heads of aggregates that are in no file yet; beyond it they are written to one. As much \
         again is held while it is written. 0: each pass writes its heads to the log.");
    option damaged_metrics(Kind::Choice(&["refuse", "serve"]), "refuse",
        "gnudi: how a metric is read whose aggregates are damaged or lost. refuse: 503, which says \
         where; serve: what is left. New measures are taken either way, and reads of what came after the damage \
         are answered.");
    option disk_reserve_bytes(ANY, "67108864",
        "gnudi: how much of the data directory's disk is reserved, in a file, for deletions, the index and \
         acknowledgements, which go on when the disk is full; at most a tenth of the disk. 0: nothing.");
};
