//! The measures of a request, grouped by resource and metric name.

use std::collections::{BTreeMap, HashMap};

use gnudi_model::{AttributeValue, Measure, Text};
use uuid::Uuid;

use crate::{json::Value, resource_id, shortened::shortened};

/// The measures of one resource.
#[derive(Clone, Debug, Default)]
pub struct Parcel {
    pub id: Uuid,
    pub original_resource_id: String,
    /// The resource's attributes, if it is created.
    pub attributes: BTreeMap<Text, AttributeValue>,
    metrics: Vec<ParcelMetric>,
    places: HashMap<String, usize>,
}

/// The measures of one metric.
#[derive(Clone, Debug)]
struct ParcelMetric {
    name: String,
    whole_name: Option<String>,
    measures: Vec<Measure>,
}

impl Parcel {
    /// The measures of a metric, to append to.
    pub fn metric(&mut self, name: String) -> &mut Vec<Measure> {
        self.metric_of_series(name, || None)
    }

    /// Like [`Parcel::metric`]. `whole_name` is called for a metric that is new here; see
    /// [`Parcel::whole_names`].
    pub fn metric_of_series(
        &mut self,
        name: String,
        whole_name: impl FnOnce() -> Option<String>,
    ) -> &mut Vec<Measure> {
        let place = *self.places.entry(name).or_insert_with_key(|name| {
            let whole_name = whole_name();
            self.metrics.push(ParcelMetric { name: name.clone(), whole_name, measures: Vec::new() });
            self.metrics.len() - 1
        });
        &mut self.metrics[place].measures
    }

    /// The metrics' names, each once.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.metrics.iter().map(|metric| metric.name.as_str())
    }

    /// The full name of each metric whose name was truncated, in the order of the names.
    pub fn whole_names(&self) -> impl Iterator<Item = Option<&str>> {
        self.metrics.iter().map(|metric| metric.whole_name.as_deref())
    }

    /// The measures of each metric, in the order of the names.
    pub fn measures(&self) -> impl Iterator<Item = &[Measure]> {
        self.metrics.iter().map(|metric| metric.measures.as_slice())
    }
}

/// The parcels of a request, one per resource.
#[derive(Clone, Debug, Default)]
pub struct Parcels {
    all: Vec<Parcel>,
    places: HashMap<Uuid, usize>,
    names: HashMap<String, usize>,
}

impl Parcels {
    /// The parcel of a resource, by name and creator. A name that is too long for an id is shortened;
    /// slashes, which ids may not contain, become `_`. `attributes` is called if the parcel is new.
    pub fn resource(
        &mut self,
        name: &str,
        creator: &str,
        attributes: impl FnOnce() -> BTreeMap<Text, AttributeValue>,
    ) -> &mut Parcel {
        if let Some(&place) = self.names.get(name) {
            return &mut self.all[place];
        }
        let original_resource_id = shortened(name.replace('/', "_"));
        let id = resource_id::check(&Value::from(original_resource_id.as_str()), creator)
            .expect("it is short enough and has no slash");
        // Two names may map to the same UUID.
        let place = *self.places.entry(id).or_insert_with(|| {
            let attributes = attributes();
            self.all.push(Parcel { id, original_resource_id, attributes, ..Parcel::default() });
            self.all.len() - 1
        });
        self.names.insert(name.to_owned(), place);
        &mut self.all[place]
    }

    /// Keeps the metrics for which `is_wanted` returns true, by resource and name. Nothing may be added
    /// afterwards.
    pub fn retain(&mut self, is_wanted: impl Fn(Uuid, &str, &[Measure]) -> bool) {
        for parcel in &mut self.all {
            let id = parcel.id;
            parcel.metrics.retain(|metric| is_wanted(id, &metric.name, &metric.measures));
        }
        self.all.retain(|parcel| !parcel.metrics.is_empty());
    }

    /// Drops the marked metrics of a parcel, which stays, and returns how many measures they have. The marks are in the order
    /// of the names. Nothing may be added afterwards.
    pub fn leave_out(&mut self, index: usize, marks: impl IntoIterator<Item = bool>) -> usize {
        let (mut marks, mut measures) = (marks.into_iter(), 0);
        self.all[index].metrics.retain(|metric| {
            let is_left_out = marks.next() == Some(true);
            measures += if is_left_out { metric.measures.len() } else { 0 };
            !is_left_out
        });
        measures
    }

    pub fn iter(&self) -> impl Iterator<Item = &Parcel> {
        self.all.iter()
    }

    pub fn get(&self, index: usize) -> &Parcel {
        &self.all[index]
    }

    /// The number of metrics in all parcels.
    pub fn metrics(&self) -> usize {
        self.all.iter().map(|parcel| parcel.metrics.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use gnudi_model::Timestamp;

    use super::*;

    #[test]
    fn measures_are_gathered_by_resource_and_name() {
        let mut parcels = Parcels::default();
        let measure = |value| Measure { timestamp: Timestamp(1), value };
        let id = "5b7ebe90-4ad2-4c83-ad2c-f6344884ab70";
        for (resource, name, value) in [
            (id, "a", 1.0),
            (&id.to_uppercase(), "b", 2.0),
            ("x/y", "a", 3.0),
            (id, "a", 4.0),
            ("x_y", "a", 5.0),
        ] {
            parcels.resource(resource, "me", BTreeMap::new).metric(name.to_owned()).push(measure(value));
        }
        let values: Vec<Vec<(&str, Vec<f64>)>> = parcels
            .iter()
            .map(|parcel| {
                let values = |measures: &[Measure]| measures.iter().map(|measure| measure.value).collect();
                parcel.names().zip(parcel.measures().map(values)).collect()
            })
            .collect();
        assert_eq!(values, [vec![("a", vec![1.0, 4.0]), ("b", vec![2.0])], vec![("a", vec![3.0, 5.0])]]);
        assert_eq!(parcels.metrics(), 3);
        assert_eq!(parcels.get(1).original_resource_id, "x_y");
        assert_eq!(parcels.get(0).id.to_string(), id);
        assert_eq!(parcels.resource(&"x".repeat(300), "me", BTreeMap::new).original_resource_id.len(), 255);
    }
}
