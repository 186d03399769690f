//! Measures by resource and by the metric's name: `{"<resource>": {"<metric>": [...]}}`, where a list may also be
//! `{"archive_policy_name": "low", "unit": "s", "measures": [...]}`, which says how to make a metric that is missing.
//!
//! As with lists: `scan` reads the common bodies, `slow` all others. What is made of the names is the route's.

mod scan;
mod slow;

use std::{borrow::Cow, ops::Range};

use gnudi_app::ApiError;
use gnudi_model::{Measure, Timestamp};
use uuid::Uuid;

pub use scan::scan;
pub use slow::slow;

use super::{ReadBy, scan::Scan, too_many};

/// What a body has, without its measures; each resource and name once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named<'a> {
    /// In the order of the body.
    pub resources: Vec<NamedResource<'a>>,
    /// Those of the first resource first.
    pub metrics: Vec<NamedMetric<'a>>,
}

/// A resource whose metrics a body names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedResource<'a> {
    pub id: Uuid,
    /// The id as the body has it.
    pub original_id: Cow<'a, str>,
}

/// A metric that a body names, and its measures: `range` of the measures read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedMetric<'a> {
    /// The place of its resource among [`Named::resources`].
    pub resource: usize,
    pub name: Cow<'a, str>,
    pub archive_policy_name: Option<Cow<'a, str>>,
    pub unit: Option<Cow<'a, str>>,
    pub range: Range<usize>,
}

/// The named measures of a body, by whichever parser can; `out` is filled anew. Ids that are no UUIDs are `creator`'s.
///
/// # Errors
/// As [`slow`].
pub fn read<'a>(
    input: &'a [u8],
    creator: &str,
    now: impl FnOnce() -> Timestamp,
    measures_max: usize,
    out: &mut Vec<Measure>,
) -> Result<(Named<'a>, ReadBy), ApiError> {
    out.clear();
    let mut named = Named::default();
    match scan(input, creator, measures_max, &mut named, out) {
        Scan::Regular => Ok((named, ReadBy::Scanner)),
        Scan::TooMany => Err(too_many(measures_max)),
        Scan::Irregular => {
            out.clear();
            let named = slow(input, creator, now(), measures_max, out)?;
            Ok((named, ReadBy::SlowParser))
        }
    }
}
