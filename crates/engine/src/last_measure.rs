//! When metrics were last measured, and how many of their late measures were dropped, according to their
//! heads: without waiting measures.
//!
//! Computed on request, so it costs ingest nothing. A request reads each head, in bulk; the caller limits
//! their number.

use gnudi_model::{MetricId, Timestamp};
use gnudi_series::head::Head;

use crate::{Engine, Result, damage};

/// How many heads are read at once.
pub(crate) const HEADS_AT_ONCE: usize = 1_000;

/// The time of a metric's newest measure: see [`Head::newest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastMeasure {
    /// It has none.
    Never,
    At(Timestamp),
    /// Its head cannot be read, or was lost.
    Unknown,
}

impl LastMeasure {
    pub fn time(self) -> Option<Timestamp> {
        match self {
            LastMeasure::At(time) => Some(time),
            LastMeasure::Never | LastMeasure::Unknown => None,
        }
    }

    /// Whether certainly nothing was measured at this time or later.
    pub fn is_silent_since(self, since: Timestamp) -> bool {
        match self {
            LastMeasure::Never => true,
            LastMeasure::At(time) => time < since,
            LastMeasure::Unknown => false,
        }
    }
}

/// What a metric's head records about its measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    pub last: LastMeasure,
    /// Measures dropped because they were late, since the metric's creation or the loss of its head. `None`
    /// if the head cannot be read.
    pub late_dropped: Option<u64>,
}

impl Measured {
    const UNKNOWN: Self = Measured { last: LastMeasure::Unknown, late_dropped: None };

    fn of(head: &Head) -> Self {
        Measured { last: last(head), late_dropped: Some(head.late_dropped()) }
    }
}

impl Engine {
    /// What each metric's head records, in their order, without waiting measures.
    ///
    /// # Errors
    /// If the store does not respond; damaged heads are unknown.
    pub async fn measured(&self, metrics: &[MetricId]) -> Result<Vec<Measured>> {
        let mut found = Vec::with_capacity(metrics.len());
        for metrics in metrics.chunks(HEADS_AT_ONCE) {
            for head in self.readers().read_heads(metrics).await {
                let head = damage::decode(&head)?;
                found.push(head.map_or(Measured::UNKNOWN, |head| Measured::of(&head.unwrap_or_default())));
            }
        }
        Ok(found)
    }
}

fn last(head: &Head) -> LastMeasure {
    match (head.newest(), head.lost_before()) {
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
