//! When metrics were measured last, as far as what was processed tells: their heads know the time of the newest point.
//!
//! It is computed on request, so ingest costs the same as without it. A request reads each head, in bulk; the caller limits how many.

use gnudi_drivers::aggregates::StoreError;
use gnudi_model::{MetricId, Timestamp};
use gnudi_series::head::Head;

use crate::{Engine, Result};

/// How many heads are read at once.
const HEADS_AT_ONCE: usize = 1_000;

/// The time of a metric's newest measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastMeasure {
    /// It has none.
    Never,
    At(Timestamp),
    /// Its newest state cannot be read, or was lost.
    Unknown,
}

impl LastMeasure {
    pub fn time(self) -> Option<Timestamp> {
        match self {
            LastMeasure::At(time) => Some(time),
            LastMeasure::Never | LastMeasure::Unknown => None,
        }
    }

    /// Whether nothing was measured at this time or later, for certain.
    pub fn is_silent_since(self, since: Timestamp) -> bool {
        match self {
            LastMeasure::Never => true,
            LastMeasure::At(time) => time < since,
            LastMeasure::Unknown => false,
        }
    }
}

impl Engine {
    /// When each of the metrics was measured last, in their order. Measures that still wait are not seen.
    ///
    /// # Errors
    /// Where the store does not answer; what of it is damaged is [`LastMeasure::Unknown`].
    pub async fn last_measures(&self, metrics: &[MetricId]) -> Result<Vec<LastMeasure>> {
        let mut found = Vec::with_capacity(metrics.len());
        for metrics in metrics.chunks(HEADS_AT_ONCE) {
            for head in self.store.read_heads(metrics).await {
                found.push(match head {
                    Ok(None) => LastMeasure::Never,
                    Ok(Some(bytes)) => Head::decode(&bytes).map_or(LastMeasure::Unknown, |head| last(&head)),
                    Err(StoreError::Damaged(_)) => LastMeasure::Unknown,
                    Err(error) => return Err(error.into()),
                });
            }
        }
        Ok(found)
    }
}

fn last(head: &Head) -> LastMeasure {
    match (head.last(), head.lost_before()) {
        (Some(time), _) => LastMeasure::At(time),
        (None, Some(_)) => LastMeasure::Unknown,
        (None, None) => LastMeasure::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_silent() {
        let at = |second| LastMeasure::At(Timestamp::from_secs(second));
        let since = Timestamp::from_secs(10);
        assert!(LastMeasure::Never.is_silent_since(since) && at(9).is_silent_since(since));
        assert!(!at(10).is_silent_since(since) && !LastMeasure::Unknown.is_silent_since(since));
        assert_eq!(last(&Head::new()), LastMeasure::Never);
        assert_eq!(last(&Head::after_loss(since)), LastMeasure::Unknown);
    }
}
