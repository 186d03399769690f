//! Measures by resource and metric name: `{"<resource>": {"<metric>": [...]}}`. A list may also be
//! `{"archive_policy_name": "low", "unit": "s", "measures": [...]}`, with the definition for a missing
//! metric.
//!
//! As with lists, `scan` parses the common bodies, `slow` all others. The routes resolve the names.

mod scan;
mod slow;

use std::{borrow::Cow, ops::Range};

use gnudi_app::Result;
use gnudi_model::{Measure, Timestamp};
use uuid::Uuid;

pub use scan::scan;
pub use slow::slow;

use super::{ReadBy, scan::Scan, too_many};

/// The names in a body, without the measures; each resource and name occurs once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named<'a> {
    /// In body order.
    pub resources: Vec<NamedResource<'a>>,
    /// In the order of `resources`.
    pub metrics: Vec<NamedMetric<'a>>,
}

impl Named<'_> {
    /// The id of a metric's resource, and its name.
    pub fn key(&self, index: usize) -> (Uuid, &str) {
        let metric = &self.metrics[index];
        (self.resources[metric.resource].id, &metric.name)
    }
}

/// A resource in a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedResource<'a> {
    pub id: Uuid,
    /// The id as written in the body.
    pub original_id: Cow<'a, str>,
}

/// A metric in a body; its measures are `range` of the parsed measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedMetric<'a> {
    /// The resource's index in [`Named::resources`].
    pub resource: usize,
    pub name: Cow<'a, str>,
    pub archive_policy_name: Option<Cow<'a, str>>,
    pub unit: Option<Cow<'a, str>>,
    pub range: Range<usize>,
}

/// Parses a body, by the scanner if possible. Clears `out` first. Ids that are no UUIDs are hashed with
/// `creator`.
///
/// # Errors
/// As [`slow`].
pub fn read<'a>(
    input: &'a [u8],
    creator: &str,
    now: impl FnOnce() -> Timestamp,
    measures_max: usize,
    out: &mut Vec<Measure>,
) -> Result<(Named<'a>, ReadBy)> {
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
