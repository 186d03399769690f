//! `[host]`: the figures of this machine.

use super::{Kind, POSITIVE, Spec, option};

pub const OPTIONS: &[Spec] = &[
    option(
        "host",
        "enabled",
        Kind::Bool,
        "true",
        "gnudi: collect this machine's own processor, memory, disk and network figures.",
    ),
    option("host", "interval", POSITIVE, "5", "gnudi: seconds from one look at the machine to the next."),
    option(
        "host",
        "archive_policy_name",
        Kind::Text,
        "high",
        "gnudi: archive policy of the metrics of this machine.",
    ),
];
