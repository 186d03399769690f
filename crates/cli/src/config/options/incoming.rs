//! `[incoming]`: the log of incoming measures. The engines' own options are in `engines`.

use super::{Kind, POSITIVE, Spec};

pub const OPTIONS: &[Spec] = &options! {
    [incoming]
    option durability(Kind::Choice(&["disk", "os"]), "",
        "gnudi: durability of a 202. disk: the measures survive a power cut; with Redis, if appendfsync is \
         different, the start is refused. os: they survive a crash of the program, not of the machine. \
         Unset: disk; with Redis what its configuration promises, which is logged at the start.");
    option sacks(Kind::Int { min: 1, max: 65_535 }, "128",
        "gnudi: number of sacks of a new data directory (gnocchi-upgrade --sacks-number).");
    option backlog_bytes_max(POSITIVE, "4294967296",
        "gnudi: maximum bytes of the backlog; beyond it measures get 429.");
    option journal(Kind::Text, "",
        "gnudi: directory of a journal of all incoming measures, for `gnudi export gnocchi`. It grows until it \
         is removed by hand. Each process that serves the API needs its own directory. Unset: no journal.");
};
