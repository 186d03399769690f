//! The items that an export knows, of gnudi's index and of Gnocchi's.
//!
//! gnudi may run meanwhile. The index is listed part by part, so a later part may refer to an item that was created after
//! an earlier part was listed. Gnocchi would refuse a request that refers to such an item, and `gnudi export post` would
//! stop there. So the request is left to the next export, and so are all measures from the first one of such a metric on.
//! So is a new item whose id or name Gnocchi still has: to `gnudi export post` it would count as created already, and its
//! data would be added to that of the former one, which the next export deletes.

use std::collections::{BTreeSet, HashMap, HashSet};

use gnudi_drivers::incoming::Record;
use gnudi_indexer::{Indexer, IndexerError};
use gnudi_model::{ArchivePolicy, Metric, MetricId};
use uuid::Uuid;

use super::earlier::{Earlier, Place};
use crate::index::MetricPlace;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The policies with a name.
    pub policies: HashSet<String>,
    pub resources: HashSet<Uuid>,
    /// Resources that Gnocchi has, or the file of earlier runs creates, and those of them that this run deletes.
    pub kept_resources: HashSet<Uuid>,
    pub deleted_resources: BTreeSet<Uuid>,
    /// Metrics of resources that Gnocchi has, unless they are deleted, or that this run creates, by their place there.
    pub kept_metrics: HashMap<MetricPlace, MetricId>,
    /// Metrics that the file of earlier runs creates, and this run deletes.
    pub deleted_metrics: HashSet<Uuid>,
    /// Metrics that Gnocchi has with the same id.
    pub metrics: HashSet<MetricId>,
    /// Metrics to which Gnocchi assigns other ids, and where the file creates them.
    pub made: HashMap<MetricId, Place>,
    /// Metrics whose measures are left out: gnudi does not have them any more, or Gnocchi cannot have them.
    pub left_out: HashSet<MetricId>,
}

impl Known {
    /// Notes a metric that the file creates.
    pub fn make(&mut self, new: &Metric) {
        if let (Some(_), Some(name)) = (new.resource_id, &new.name) {
            self.kept_metrics.insert(MetricPlace::of(new.resource_id, Some(name.as_str())), new.id);
        }
        self.made.insert(new.id, Place::of(new));
    }

    /// Whether the policy and the resource of a new metric are known.
    pub fn has_owners_of(&self, new: &Metric) -> bool {
        let policy = new.archive_policy_name.as_str();
        (ArchivePolicy::is_definition_name(policy) || self.policies.contains(policy))
            && new.resource_id.is_none_or(|resource| self.resources.contains(&resource))
    }

    /// Whether Gnocchi deletes its metrics of this resource with it, on a request of this run or of an earlier one.
    pub fn deletes_with(&self, resource: Option<Uuid>, earlier: &Earlier) -> bool {
        resource.is_some_and(|resource| {
            self.deleted_resources.contains(&resource) || earlier.deleted_resources.contains(&resource)
        })
    }

    /// The other metric that has the place of a new one in Gnocchi, by its id in gnudi.
    pub fn holder_of_place(&self, new: &Metric, earlier: &Earlier) -> Option<MetricId> {
        let (resource, name) = (new.resource_id?, new.name.as_deref().unwrap_or_default());
        let imported = self.kept_metrics.get(&MetricPlace::of(Some(resource), Some(name))).copied();
        let created = earlier.metrics.named(resource, name).filter(|created| {
            !self.deleted_resources.contains(&resource) && !self.deleted_metrics.contains(created)
        });
        imported.or(created.map(MetricId)).filter(|holder| *holder != new.id)
    }

    /// Whether some of the records are of a metric that came too late to be known.
    pub async fn lacks_one_of(
        &mut self,
        records: &[Record],
        gnudi: &dyn Indexer,
    ) -> Result<bool, IndexerError> {
        let is_open = |id: &MetricId| {
            !self.metrics.contains(id) && !self.made.contains_key(id) && !self.left_out.contains(id)
        };
        let open: Vec<MetricId> = records.iter().map(|record| record.metric).filter(is_open).collect();
        if open.is_empty() {
            return Ok(false);
        }
        let found = gnudi.metrics(&open).await?;
        let gone = open.iter().zip(&found).filter(|(_, found)| found.is_none());
        self.left_out.extend(gone.map(|(id, _)| *id));
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

    #[test]
    fn a_metric_of_a_deleted_resource_goes_with_it() {
        let [now, before, kept] = [1, 2, 3].map(Uuid::from_u128);
        let known = Known { deleted_resources: BTreeSet::from([now]), ..Known::default() };
        let earlier = Earlier { deleted_resources: HashSet::from([before]), ..Earlier::default() };
        for (resource, expected) in
            [(Some(now), true), (Some(before), true), (Some(kept), false), (None, false)]
        {
            assert_eq!(known.deletes_with(resource, &earlier), expected, "{resource:?}");
        }
    }

    #[test]
    fn a_place_in_gnocchi_has_one_metric() {
        let [resource, gone] = [1, 2].map(Uuid::from_u128);
        let [imported, created, deleted, other] = [11, 12, 13, 14].map(id);
        let mut known = Known {
            deleted_resources: BTreeSet::from([gone]),
            kept_metrics: HashMap::from([(MetricPlace::of(Some(resource), Some("cpu")), imported)]),
            deleted_metrics: HashSet::from([deleted.0]),
            ..Known::default()
        };
        let mut earlier = Earlier::default();
        for (metric, of, name) in
            [(created, resource, "disk"), (deleted, resource, "net"), (other, gone, "cpu")]
        {
            earlier.metrics.insert(metric.0, Place::Of(of, name.to_owned()));
        }
        let named = |metric: MetricId, resource_id: Option<Uuid>, name: &str| Metric {
            name: Some(name.into()),
            resource_id,
            ..Metric::new(metric)
        };
        // It is deleted while the metrics are listed, and another one gets its name.
        known.make(&named(id(15), Some(resource), "load"));
        let holder = |metric: MetricId, resource_id: Option<Uuid>, name: &str| {
            known.holder_of_place(&named(metric, resource_id, name), &earlier)
        };
        assert_eq!(holder(id(20), Some(resource), "load"), Some(id(15)));
        assert_eq!(holder(id(15), Some(resource), "load"), None);
        assert_eq!(holder(id(20), Some(resource), "cpu"), Some(imported));
        assert_eq!(holder(id(20), Some(resource), "disk"), Some(created));
        assert_eq!(holder(created, Some(resource), "disk"), None);
        assert_eq!(holder(id(20), Some(resource), "net"), None);
        assert_eq!(holder(id(20), Some(gone), "cpu"), None);
        assert_eq!(holder(id(20), None, "cpu"), None);
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
        assert_eq!(known.left_out, HashSet::from([deleted]));
    }
}
