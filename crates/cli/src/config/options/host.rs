//! `[host]`: the figures of this machine.

use super::{Kind, POSITIVE, Spec};

pub const OPTIONS: &[Spec] = &options! {
    [host]
    option enabled(Kind::Bool, "true",
        "gnudi: collect this machine's own processor, memory, disk and network figures.");
    option interval(POSITIVE, "5", "gnudi: seconds from one look at the machine to the next.");
    text archive_policy_name("high", "gnudi: archive policy of the metrics of this machine.");
};
