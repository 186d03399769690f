//! What a write leaves out, since rows of the index are damaged: clients would repeat a refused write until somebody
//! repairs them.

use std::{fmt, sync::Arc};

use gnudi_indexer::IndexerError;
use gnudi_model::Metric;
use uuid::Uuid;

use crate::{call::Call, error::Result};

/// How many reasons are reported.
const REASONS_REPORTED_MAX: usize = 10;

/// The log names what is left out once in this time.
const LOGGED_EVERY_NANOSECONDS: u64 = 60_000_000_000;

/// A metric looked up by name, or why it cannot be read.
pub type LookedUp = Result<Option<Arc<Metric>>, IndexerError>;

/// Measures that cannot be stored.
#[derive(Debug, Default)]
pub struct LeftOut {
    pub measures: usize,
    /// Each names its metric or resource.
    pub reasons: Vec<IndexerError>,
}

impl LeftOut {
    pub fn is_empty(&self) -> bool {
        self.measures == 0
    }

    /// Adds what a parcel has lost.
    pub(super) fn add(&mut self, measures: usize, reasons: impl IntoIterator<Item = IndexerError>) {
        if measures > 0 {
            self.measures += measures;
            self.reasons.extend(reasons);
        }
    }

    /// Logs it, if nothing was logged lately.
    pub(super) fn log(&self, call: &Call<'_>) {
        if self.is_empty() {
            return;
        }
        let (now, mut logged_at) = (call.app.now(), call.app.left_out_logged_at.lock());
        if logged_at.is_none_or(|at| now.0.abs_diff(at.0) >= LOGGED_EVERY_NANOSECONDS) {
            *logged_at = Some(now);
            tracing::error!(measures = self.measures, reasons = %self, "a write leaves out what is damaged");
        }
    }
}

/// The reasons, on one line.
impl fmt::Display for LeftOut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, reason) in self.reasons.iter().take(REASONS_REPORTED_MAX).enumerate() {
            let before = if index > 0 { "; " } else { "" };
            write!(formatter, "{before}{reason}")?;
        }
        match self.reasons.len().saturating_sub(REASONS_REPORTED_MAX) {
            0 => Ok(()),
            omitted => write!(formatter, "; and {omitted} more"),
        }
    }
}

/// Metrics by resource and name, one result each, in order: a damaged one fails no other.
///
/// # Errors
/// Those of the index itself.
pub async fn named_metrics(call: &Call<'_>, names: &[(Uuid, &str)]) -> Result<Vec<LookedUp>> {
    let mut found = Vec::with_capacity(names.len());
    // Parts to look up, the next one last.
    let mut parts = vec![names];
    while let Some(part) = parts.pop() {
        match call.indexer().named_metrics(part).await {
            Ok(metrics) => found.extend(metrics.into_iter().map(Ok)),
            Err(error @ IndexerError::DamagedMetric { .. }) if part.len() == 1 => found.push(Err(error)),
            Err(IndexerError::DamagedMetric { .. }) => {
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([second, first]);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_bounded() {
        let mut left_out = LeftOut::default();
        left_out.add(0, [IndexerError::InvalidFilter]);
        assert!(left_out.is_empty() && left_out.to_string().is_empty());
        for number in 0..REASONS_REPORTED_MAX + 2 {
            let (id, reason) = (Uuid::from_u128(number as u128), "no text".to_owned());
            left_out.add(3, [IndexerError::DamagedResource { id, reason }]);
        }
        let text = left_out.to_string();
        assert_eq!((left_out.measures, text.split("; ").count()), (36, REASONS_REPORTED_MAX + 1));
        assert!(text.contains(&Uuid::nil().to_string()) && text.ends_with("; and 2 more"), "{text}");
    }
}
