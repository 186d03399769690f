//! Revokes the end of resources that get measures from the time of their end on.
//!
//! Gnocchi does so in each pass, and reads each metric's resource for it. Here the cache has the ends of measured
//! resources; the index is queried only for others, and written only to revoke an end.

use gnudi_model::{Timespan, Timestamp, python::datetime};
use uuid::Uuid;

use crate::{Indexer, Result};

/// Resources, each with the time of a measure of one of its metrics; in any order, and any number of times.
pub type MeasuredResources = Vec<(Uuid, Timestamp)>;

/// The resolution of the index's times.
pub const MICROSECOND: Timespan = Timespan(1_000);

/// Revokes the ends that are not after these measures, with new revisions from `now` on; returns their number.
///
/// # Errors
/// If the index does not respond.
pub async fn revive_measured(
    indexer: &dyn Indexer,
    measured: MeasuredResources,
    now: Timestamp,
) -> Result<u64> {
    let mut seen = latest(measured);
    if seen.is_empty() {
        return Ok(0);
    }
    let ids: Vec<Uuid> = seen.iter().map(|(resource, _)| *resource).collect();
    let mut ends = indexer.ends(&ids).await?.into_iter();
    seen.retain_mut(|(_, time)| {
        let end = ends.next().expect("one answer each").flatten();
        end.is_some_and(|ended_at| {
            // As Gnocchi compares it with an end.
            *time = datetime(*time);
            ended_at <= *time
        })
    });
    if seen.is_empty() {
        return Ok(0);
    }
    indexer.revive_resources(&seen, now.floor(MICROSECOND)).await
}

/// The latest time of each resource.
fn latest(mut measured: MeasuredResources) -> MeasuredResources {
    measured.sort_unstable_by(|a, b| b.cmp(a));
    measured.dedup_by_key(|(resource, _)| *resource);
    measured
}

#[cfg(test)]
mod tests {
    use gnudi_model::resource_type::GENERIC;

    use super::*;
    use crate::{MemoryIndexer, NewResource};

    #[test]
    fn the_latest_of_each_is_kept() {
        let [one, two] = [1, 2].map(Uuid::from_u128);
        let measured = [(one, 3), (two, 1), (one, 5)].map(|(resource, time)| (resource, Timestamp(time)));
        assert_eq!(latest(measured.into()), [(two, Timestamp(1)), (one, Timestamp(5))]);
    }

    #[tokio::test]
    async fn measures_from_the_end_on_revoke_it() {
        let indexer: &dyn Indexer = &MemoryIndexer::default();
        let [over, later, rounded, going, unknown] = [1, 2, 3, 4, 5].map(Uuid::from_u128);
        let at = Timestamp::from_secs;
        let end_between = Timestamp(1_700_000_000_123_456_000);
        let ends =
            [(over, Some(at(100))), (later, Some(at(101))), (rounded, Some(end_between)), (going, None)];
        let new = |(id, ended_at)| NewResource {
            ended_at,
            ..NewResource::new(id, GENERIC, "creator", Timestamp::EPOCH)
        };
        for created in indexer.create_resources(ends.map(new).into()).await {
            created.unwrap();
        }
        let mut measured: MeasuredResources =
            [over, later, going, unknown].map(|resource| (resource, at(100))).into();
        measured.extend([(over, at(90)), (rounded, Timestamp(end_between.0 - 400))]);
        assert_eq!(revive_measured(indexer, measured, Timestamp(1_800_000_000_000_000_123)).await, Ok(2));
        let found = indexer.ends(&[over, later, rounded, going, unknown]).await.unwrap();
        assert_eq!(found, [Some(None), Some(Some(at(101))), Some(None), Some(None), None]);
        let revived = indexer.resource(GENERIC, over).await.unwrap().unwrap();
        assert_eq!(revived.revision_start, at(1_800_000_000));
    }
}
