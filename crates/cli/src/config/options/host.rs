//! `[host]`: figures of this machine.

use super::{Kind, POSITIVE, Spec};

pub const OPTIONS: &[Spec] = &options! {
    [host]
    option enabled(Kind::Bool, "true",
        "gnudi: collect this machine's processor, memory, disk and network figures.");
    option interval(POSITIVE, "5", "gnudi: interval in seconds.");
    text archive_policy_name("high", "gnudi: archive policy of the metrics of this machine.");
};
