//! `[incoming]`: where measures wait. The engines' own options are in `engines`.

use super::{Kind, POSITIVE, Spec};

pub const OPTIONS: &[Spec] = &options! {
    [incoming]
    option durability(Kind::Choice(&["disk", "os"]), "",
        "gnudi: what 202 promises. disk: the measures survive a power cut; with Redis, where appendfsync says \
         otherwise, the start is refused. os: they survive the end of the program, not that of the machine. \
         Unset: disk; with Redis what it promises, which is said at the start.");
    option sacks(Kind::Int { min: 1, max: 65_535 }, "128",
        "gnudi: number of sacks of a new data directory (gnocchi-upgrade --sacks-number).");
    option backlog_bytes_max(POSITIVE, "4294967296",
        "gnudi: how many bytes of measures may wait; beyond it measures are answered 429.");
    option journal(Kind::Text, "",
        "gnudi: a directory in which all measures that come in are kept as they came, for `gnudi export gnocchi`. It grows until \
         somebody removes it. One process writes a journal: of several, each that serves the API needs a directory of its own. \
         Unset: none is kept.");
};
