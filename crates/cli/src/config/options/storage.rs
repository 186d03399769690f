//! `[storage]`: where aggregates lie. The engines' own options are in `engines`.

use super::{POSITIVE, Spec, option};

pub const OPTIONS: &[Spec] = &[option(
    "storage",
    "recent_bytes_max",
    POSITIVE,
    "268435456",
    "gnudi: how large the log of new aggregates grows before they are sorted into a file for good; its index takes \
         up to 30 MB of memory.",
)];
