//! What earlier runs have written to the file, as far as a later run must know it. The file may not be posted yet; then
//! Gnocchi's index does not show it.

use std::collections::{BTreeMap, HashMap, HashSet};

use gnudi_model::{Metric, Text, Timestamp, resource_type::GENERIC};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{
    expected::is_definition,
    line::{ExportedRevision, Line, Positions},
    post::NEW_METRIC,
};

/// The contents of a file. Bounded by the changes in gnudi since the import.
#[derive(Debug, Default)]
pub struct Earlier {
    /// The positions of the journals up to which it has measures.
    pub positions: Positions,
    /// Resources that its lines create or change, unless later ones delete them.
    pub resources: HashMap<Uuid, ExportedRevisions>,
    /// Resources that its lines delete; later ones may create others with their ids.
    pub deleted_resources: HashSet<Uuid>,
    /// Metrics that its lines create, unless later ones delete them.
    pub metrics: ExportedMetrics,
    /// Its requests that change policies, rules and types.
    pub definitions: Vec<DefinitionChange>,
}

/// The exported revisions of a resource, by their start in gnudi.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportedRevisions {
    /// The first revision, if the file creates the resource.
    pub first: Option<Timestamp>,
    pub newest: Timestamp,
}

/// A request that changes a policy, a rule or a type.
#[derive(Debug)]
pub struct DefinitionChange {
    /// The number of its line, from 1.
    pub line: u64,
    pub method: String,
    pub path: String,
    pub body: Option<Box<RawValue>>,
}

/// Where Gnocchi has a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Without a resource.
    Alone,
    /// Of a resource, by its name there.
    Of(Uuid, String),
}

impl Place {
    /// Where a metric is in gnudi.
    pub fn of(metric: &Metric) -> Self {
        let name = || metric.name.as_ref().map(Text::to_string).unwrap_or_default();
        metric.resource_id.map_or(Place::Alone, |resource| Place::Of(resource, name()))
    }

    /// Where a request creates a metric.
    fn of_creation(path: &str, body: Option<&RawValue>) -> Option<Self> {
        if path == NEW_METRIC {
            return Some(Place::Alone);
        }
        let resource = in_generic(path)?.strip_suffix("/metric")?.parse().ok()?;
        let names: BTreeMap<String, &RawValue> = serde_json::from_str(body?.get()).ok()?;
        Some(Place::Of(resource, names.into_keys().next()?))
    }
}

/// The rest of a path below the generic type.
fn in_generic(path: &str) -> Option<&str> {
    path.strip_prefix("/v1/resource/")?.strip_prefix(GENERIC)?.strip_prefix('/')
}

/// Metrics that the file creates, by their ids in gnudi.
#[derive(Debug, Default)]
pub struct ExportedMetrics {
    places: HashMap<Uuid, Place>,
    /// By resource and name.
    named: HashMap<Uuid, BTreeMap<String, Uuid>>,
}

impl ExportedMetrics {
    pub fn place(&self, id: Uuid) -> Option<&Place> {
        self.places.get(&id)
    }

    pub fn ids(&self) -> impl Iterator<Item = Uuid> {
        self.places.keys().copied()
    }

    pub fn named(&self, resource: Uuid, name: &str) -> Option<Uuid> {
        self.named.get(&resource)?.get(name).copied()
    }

    pub(super) fn insert(&mut self, id: Uuid, place: Place) {
        self.remove(id);
        if let Place::Of(resource, name) = &place {
            let former = self.named.entry(*resource).or_default().insert(name.clone(), id);
            // Gnocchi has one metric of a name.
            if let Some(former) = former {
                self.places.remove(&former);
            }
        }
        self.places.insert(id, place);
    }

    fn remove(&mut self, id: Uuid) {
        if let Some(Place::Of(resource, name)) = self.places.remove(&id)
            && let Some(named) = self.named.get_mut(&resource)
        {
            named.remove(&name);
        }
    }

    fn remove_resource(&mut self, resource: Uuid) {
        for id in self.named.remove(&resource).unwrap_or_default().into_values() {
            self.places.remove(&id);
        }
    }
}

/// What a later run must know of a line.
#[derive(Debug)]
pub(super) enum Effect {
    Revision(ExportedRevision),
    ResourceDeleted(Uuid),
    Metric(Uuid, Place),
    MetricDeleted(Uuid),
    Definition(DefinitionChange),
}

impl Effect {
    pub fn of(number: u64, line: Line) -> Option<Self> {
        if let Some(revision) = line.resource {
            return Some(Effect::Revision(revision));
        }
        let (method, path) = (line.method?, line.path?);
        let is_deletion = method == "DELETE";
        if let Some(metric) = line.metric {
            return if is_deletion {
                Some(Effect::MetricDeleted(metric))
            } else {
                Some(Effect::Metric(metric, Place::of_creation(&path, line.body.as_deref())?))
            };
        }
        if is_definition(&path) {
            return Some(Effect::Definition(DefinitionChange {
                line: number,
                method,
                path,
                body: line.body,
            }));
        }
        let resource = in_generic(&path).filter(|_| is_deletion)?.parse().ok()?;
        Some(Effect::ResourceDeleted(resource))
    }
}

impl Earlier {
    pub(super) fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Revision(ExportedRevision { id, start, is_first }) => {
                let newest = Timestamp(start);
                let before = self.resources.get(&id).and_then(|exported| exported.first);
                let first = if is_first { Some(newest) } else { before };
                self.resources.insert(id, ExportedRevisions { first, newest });
            }
            Effect::ResourceDeleted(resource) => {
                self.resources.remove(&resource);
                self.metrics.remove_resource(resource);
                self.deleted_resources.insert(resource);
            }
            Effect::Metric(metric, place) => self.metrics.insert(metric, place),
            Effect::MetricDeleted(metric) => self.metrics.remove(metric),
            Effect::Definition(change) => self.definitions.push(change),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(lines: Vec<Line>) -> Earlier {
        let mut earlier = Earlier::default();
        for effect in (1..).zip(lines).filter_map(|(number, line)| Effect::of(number, line)) {
            earlier.apply(effect);
        }
        earlier
    }

    fn named(metric: u128, resource: Uuid, name: &str) -> Line {
        let path = format!("/v1/resource/generic/{resource}/metric");
        of_metric(metric, Line::request("POST", path, Some(json!({name: {"archive_policy_name": "low"}}))))
    }

    fn of_metric(metric: u128, line: Line) -> Line {
        Line { metric: Some(Uuid::from_u128(metric)), ..line }
    }

    fn resource(id: Uuid, start: i64) -> Line {
        let resource = Some(ExportedRevision { id, start, is_first: true });
        Line { resource, ..Line::request("POST", "/v1/resource/generic", Some(json!({}))) }
    }

    #[test]
    fn later_lines_take_back_what_earlier_ones_create() {
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let delete = |path: String| Line::request("DELETE", path, None);
        let alone = |metric| of_metric(metric, Line::request("POST", NEW_METRIC, Some(json!({"name": "x"}))));
        let earlier = read(vec![
            resource(one, 5),
            resource(other, 6),
            named(11, one, "a"),
            named(12, other, "a b/é"),
            named(13, other, "gone"),
            alone(14),
            alone(15),
            of_metric(13, delete(format!("/v1/resource/generic/{other}/metric/gone"))),
            of_metric(15, delete(format!("/v1/metric/{}", Uuid::from_u128(15)))),
            delete(format!("/v1/resource/generic/{one}")),
            delete("/v1/archive_policy/p".to_owned()),
        ]);
        assert_eq!(earlier.resources.keys().collect::<Vec<_>>(), [&other]);
        assert_eq!(earlier.deleted_resources, HashSet::from([one]));
        let mut metrics: Vec<Uuid> = earlier.metrics.ids().collect();
        metrics.sort_unstable();
        assert_eq!(metrics, [Uuid::from_u128(12), Uuid::from_u128(14)]);
        assert_eq!(earlier.metrics.place(metrics[0]), Some(&Place::Of(other, "a b/é".to_owned())));
        assert_eq!(earlier.metrics.place(metrics[1]), Some(&Place::Alone));
        assert_eq!(earlier.metrics.named(other, "a b/é"), Some(metrics[0]));
        assert_eq!((earlier.metrics.named(one, "a"), earlier.metrics.named(other, "gone")), (None, None));
        let [change] = &earlier.definitions[..] else { panic!("one change") };
        assert_eq!((change.line, change.method.as_str()), (11, "DELETE"));
    }

    #[test]
    fn a_resource_made_anew_is_another_one() {
        let id = Uuid::from_u128(1);
        let delete = Line::request("DELETE", format!("/v1/resource/generic/{id}"), None);
        let mut lines = vec![resource(id, 5), named(2, id, "a"), delete];
        lines.extend([resource(id, 9), named(3, id, "a")]);
        let earlier = read(lines);
        let first = Some(Timestamp(9));
        assert_eq!(earlier.resources[&id], ExportedRevisions { first, newest: Timestamp(9) });
        assert_eq!(earlier.metrics.named(id, "a"), Some(Uuid::from_u128(3)));
        assert_eq!(earlier.metrics.place(Uuid::from_u128(2)), None);
    }
}
