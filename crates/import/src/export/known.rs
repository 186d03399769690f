//! The items of gnudi's index that an export knows.
//!
//! gnudi may run meanwhile. The index is listed part by part, so a later part may refer to an item that was created after
//! an earlier part was listed. Gnocchi would refuse a request that refers to such an item, and `gnudi export post` would
//! stop there. So the request is left to the next export, and so are all measures from the first one of such a metric on.

use std::collections::{HashMap, HashSet};

use gnudi_drivers::incoming::Record;
use gnudi_indexer::{Indexer, IndexerError};
use gnudi_model::{ArchivePolicy, Metric, MetricId};
use uuid::Uuid;

use super::earlier::Place;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The policies with a name.
    pub policies: HashSet<String>,
    pub resources: HashSet<Uuid>,
    /// Metrics that Gnocchi has with the same id.
    pub metrics: HashSet<MetricId>,
    /// Metrics to which Gnocchi assigns other ids, and where the file creates them.
    pub made: HashMap<MetricId, Place>,
    /// Metrics that gnudi does not have any more.
    gone: HashSet<MetricId>,
}

impl Known {
    /// Whether the policy and the resource of a new metric are known.
    pub fn has_owners_of(&self, new: &Metric) -> bool {
        let policy = new.archive_policy_name.as_str();
        (ArchivePolicy::is_definition_name(policy) || self.policies.contains(policy))
            && new.resource_id.is_none_or(|resource| self.resources.contains(&resource))
    }

    /// Whether some of the records are of a metric that came too late to be known.
    pub async fn lacks_one_of(
        &mut self,
        records: &[Record],
        gnudi: &dyn Indexer,
    ) -> Result<bool, IndexerError> {
        let is_open = |id: &MetricId| {
            !self.metrics.contains(id) && !self.made.contains_key(id) && !self.gone.contains(id)
        };
        let open: Vec<MetricId> = records.iter().map(|record| record.metric).filter(is_open).collect();
        if open.is_empty() {
            return Ok(false);
        }
        let found = gnudi.metrics(&open).await?;
        let gone = open.iter().zip(&found).filter(|(_, found)| found.is_none());
        self.gone.extend(gone.map(|(id, _)| *id));
        Ok(found.iter().any(Option::is_some))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use gnudi_drivers::incoming::Position;
    use gnudi_indexer::{MemoryIndexer, NewMetric};
    use gnudi_model::Timestamp;

    use super::*;

    fn id(number: u128) -> MetricId {
        MetricId(Uuid::from_u128(number))
    }

    #[test]
    fn a_metric_waits_for_its_policy_and_its_resource() {
        let (early, late) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let known = Known {
            policies: HashSet::from(["low".to_owned()]),
            resources: HashSet::from([early]),
            ..Known::default()
        };
        let own = ArchivePolicy::definition_name(Uuid::from_u128(3));
        for (policy, resource_id, expected) in [
            ("low", None, true),
            ("low", Some(early), true),
            ("low", Some(late), false),
            ("late", Some(early), false),
            ("late", None, false),
            (own.as_str(), Some(early), true),
            (own.as_str(), Some(late), false),
        ] {
            let metric = Metric { archive_policy_name: policy.into(), resource_id, ..Metric::new(id(4)) };
            assert_eq!(known.has_owners_of(&metric), expected, "{policy} {resource_id:?}");
        }
    }

    #[tokio::test]
    async fn measures_of_a_metric_that_came_late_are_left_to_the_next_export() {
        let gnudi: &dyn Indexer = &MemoryIndexer::default();
        let policy = ArchivePolicy::defaults(&ArchivePolicy::default_methods()).remove(0);
        gnudi.create_archive_policy(policy.clone()).await.unwrap();
        let [same, made, deleted, late] = [1, 2, 3, 4].map(id);
        let mut known = Known {
            metrics: HashSet::from([same]),
            made: HashMap::from([(made, Place::Alone)]),
            ..Known::default()
        };
        let new = NewMetric::new(late, "creator", &policy.name, Timestamp::EPOCH);
        gnudi.create_metrics(vec![new]).await.remove(0).unwrap();
        let records = |ids: &[MetricId]| -> Vec<Record> {
            let record = |metric: &MetricId| Record {
                position: Position(0),
                metric: *metric,
                measures: 0,
                points: Bytes::new(),
            };
            ids.iter().map(record).collect()
        };
        for (ids, expected) in [
            (vec![same, made], false),
            (vec![deleted], false),
            (vec![same, late, deleted], true),
            (vec![deleted, made], false),
        ] {
            assert_eq!(known.lacks_one_of(&records(&ids), gnudi).await.unwrap(), expected, "{ids:?}");
        }
        assert_eq!(known.gone, HashSet::from([deleted]));
    }
}
