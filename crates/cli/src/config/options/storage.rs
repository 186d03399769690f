//! `[storage]`: the store of aggregates. The engines' own options are in `engines`.

use super::{ANY, Kind, POSITIVE, Spec};

pub const OPTIONS: &[Spec] = &options! {
    [storage]
    option recent_bytes_max(POSITIVE, "268435456",
        "gnudi: size of the log of aggregates at which it is sorted into a run; its index takes up to 30 MB of \
         memory.");
    option dirty_bytes_max(ANY, "33554432",
        "gnudi: memory for heads of aggregates that are in no file yet; beyond it they are written to a run, which \
         needs as much again meanwhile. From half of it on passes keep measures in memory and fold \
         several of a metric at once: up to 64 MiB, or 512 MiB while metrics have fewer than four each. 0: each pass \
         writes its heads to the log.");
    option damaged_metrics(Kind::Choice(&["refuse", "serve"]), "refuse",
        "gnudi: the response to a read of damaged or lost aggregates. refuse: 500 with the place; serve: the \
         undamaged part. New measures are accepted either way, and reads of times after the damage are answered.");
    option disk_reserve_bytes(ANY, "67108864",
        "gnudi: bytes of the data directory's disk that are reserved, in a file, for deletions, the index and \
         acknowledgements, which continue when the disk is full; at most a tenth of the disk. 0: nothing.");
};
