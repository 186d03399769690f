//! Measures over HTTP: parsing requests and writing responses.
//!
//! `scan` parses the common bodies fast; `slow` parses all others exactly as Gnocchi does; `write` formats
//! points.

pub(crate) mod document;
pub(crate) mod groups;
pub mod named;
pub mod number;
pub mod scan;
pub mod slow;
pub mod write;

use std::collections::HashMap;

use gnudi_app::{ApiError, Figures, Result};
use gnudi_model::{Measure, Timestamp};

use scan::{MetricMeasures, Scan};

/// The memory of a point that is not written yet.
pub(crate) const POINT_BYTES: usize = size_of::<Timestamp>() + size_of::<f64>();

/// The parser that read a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBy {
    Scanner,
    SlowParser,
}

impl ReadBy {
    /// Counts bodies that needed the slow parser.
    pub fn count(self, figures: &Figures) {
        if self == ReadBy::SlowParser {
            figures.irregular_bodies.inc();
        }
    }
}

/// Parses a list of measures, by the scanner if possible. Clears `out` first.
///
/// # Errors
/// As [`slow::list`].
pub fn read_list(
    input: &[u8],
    now: impl FnOnce() -> Timestamp,
    measures_max: usize,
    out: &mut Vec<Measure>,
) -> Result<ReadBy> {
    out.clear();
    match scan::list(input, measures_max, out) {
        Scan::Regular => Ok(ReadBy::Scanner),
        Scan::TooMany => Err(too_many(measures_max)),
        Scan::Irregular => {
            out.clear();
            slow::list(input, now(), measures_max, out)?;
            Ok(ReadBy::SlowParser)
        }
    }
}

/// Parses a batch of measures, by the scanner if possible. Clears both vectors first; each metric occurs
/// once.
///
/// # Errors
/// As [`slow::batch`].
pub fn read_batch(
    input: &[u8],
    now: impl FnOnce() -> Timestamp,
    measures_max: usize,
    metrics: &mut Vec<MetricMeasures>,
    out: &mut Vec<Measure>,
) -> Result<ReadBy> {
    metrics.clear();
    out.clear();
    match scan::batch(input, measures_max, metrics, out) {
        Scan::Regular => {
            keep_last_of_duplicates(metrics);
            Ok(ReadBy::Scanner)
        }
        Scan::TooMany => Err(too_many(measures_max)),
        Scan::Irregular => {
            metrics.clear();
            out.clear();
            slow::batch(input, now(), measures_max, metrics, out)?;
            Ok(ReadBy::SlowParser)
        }
    }
}

pub(crate) fn too_many(measures_max: usize) -> ApiError {
    ApiError::too_large(format!("There are more than {measures_max} measures"))
}

/// Of several lists for one metric, keeps the last in the place of the first, as a Python dictionary does.
fn keep_last_of_duplicates(metrics: &mut Vec<MetricMeasures>) {
    let mut places = HashMap::with_capacity(metrics.len());
    let mut kept: Vec<MetricMeasures> = Vec::with_capacity(metrics.len());
    for part in metrics.drain(..) {
        if let Some(&place) = places.get(&part.metric) {
            let earlier: &mut MetricMeasures = &mut kept[place];
            earlier.range = part.range;
        } else {
            places.insert(part.metric, kept.len());
            kept.push(part);
        }
    }
    *metrics = kept;
}
