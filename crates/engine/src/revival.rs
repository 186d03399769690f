//! Revokes the end of resources that get measures from the time of their end on.
//!
//! Gnocchi does so in each pass, and reads each metric's resource for it. Here the index's cache has the ends
//! of measured resources; the index is queried only for others, and written only to revoke an end.

use gnudi_indexer::Indexer;
use gnudi_model::{Timespan, Timestamp};
use uuid::Uuid;

use crate::{Result, figures::Figures};

/// Resources, each with the time of a measure of one of its metrics.
#[derive(Debug, Default)]
pub(crate) struct Seen(Vec<(Uuid, Timestamp)>);

impl Seen {
    pub(crate) fn add(&mut self, resource: Option<Uuid>, latest: Option<Timestamp>) {
        if let (Some(resource), Some(latest)) = (resource, latest) {
            self.0.push((resource, latest));
        }
    }

    pub(crate) fn extend(&mut self, more: Seen) {
        self.0.extend(more.0);
    }

    /// The latest time of each resource.
    fn into_latest(mut self) -> Vec<(Uuid, Timestamp)> {
        self.0.sort_unstable_by(|a, b| b.cmp(a));
        self.0.dedup_by_key(|(resource, _)| *resource);
        self.0
    }

    /// Revokes the ends that are not after these times.
    pub(crate) async fn revive(self, indexer: &dyn Indexer, figures: &Figures, now: Timestamp) -> Result<()> {
        let mut seen = self.into_latest();
        if seen.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = seen.iter().map(|(resource, _)| *resource).collect();
        let ends = indexer.ends(&ids).await?;
        let mut ends = ends.into_iter();
        seen.retain_mut(|(_, latest)| {
            let end = ends.next().expect("one answer each").flatten();
            end.is_some_and(|ended_at| {
                *latest = as_compared(*latest);
                ended_at <= *latest
            })
        });
        if !seen.is_empty() {
            let revived = indexer.revive_resources(&seen, now.floor(MICROSECOND)).await?;
            Figures::add(&figures.resources_revived, revived);
        }
        Ok(())
    }
}

/// The resolution of the index's times.
pub(crate) const MICROSECOND: Timespan = Timespan(1_000);

/// The time as Gnocchi compares it with an end: as seconds in a double, rounded to microseconds.
fn as_compared(time: Timestamp) -> Timestamp {
    let seconds = time.0 as f64 / 1e9;
    let micros = (seconds.fract() * 1e6).round_ties_even();
    Timestamp((seconds.trunc() as i64).saturating_mul(1_000_000_000).saturating_add(micros as i64 * 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_to_microseconds() {
        let cases = [
            (1_700_000_000_000_000_000, 1_700_000_000_000_000_000),
            (1_700_000_000_123_456_000, 1_700_000_000_123_456_000),
            // datetime.utcfromtimestamp(numpy.int64(...) / 1e9) in Python.
            (1_700_000_000_999_999_900, 1_700_000_001_000_000_000),
            (1_700_000_000_999_999_400, 1_700_000_001_000_000_000),
            (1_700_000_000_123_455_600, 1_700_000_000_123_456_000),
            (1_700_000_000_000_000_600, 1_700_000_000_000_000_000),
            (0, 0),
        ];
        for (time, compared) in cases {
            assert_eq!(as_compared(Timestamp(time)), Timestamp(compared), "{time}");
        }
    }

    #[test]
    fn the_latest_of_each_is_kept() {
        let mut seen = Seen::default();
        let [one, two] = [1, 2].map(Uuid::from_u128);
        for (resource, time) in
            [(Some(one), Some(3)), (Some(two), Some(1)), (Some(one), Some(5)), (None, Some(9))]
        {
            seen.add(resource, time.map(Timestamp));
        }
        seen.add(Some(two), None);
        assert_eq!(seen.into_latest(), [(two, Timestamp(1)), (one, Timestamp(5))]);
    }
}
