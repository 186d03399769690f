//! The results of operations as a table: the points of each series, with its keys in the JSON response and
//! the values of its group's fields.

use std::sync::Arc;

use gnudi_app::{Call, Result, json::Value, query::Query};
use gnudi_model::Timestamp;
use gnudi_series::cross::CrossMeasures;
use gnudi_server::Response;

use super::references::Reference;
use crate::arrow::series::{Form, SeriesAnswer, seconds};

const METRIC_KEYS: [&str; 2] = ["metric_id", "aggregation"];
const RESOURCE_KEYS: [&str; 3] = ["resource_id", "metric", "aggregation"];

/// The prefix of `groupby` columns.
const GROUP_PREFIX: &str = "group_";

/// The key columns of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// None: there is one series, or one per group.
    None,
    Metric,
    Resource,
}

impl Keys {
    /// The key columns for the results.
    pub fn of(references: &[Reference], measures: &[CrossMeasures]) -> Self {
        // The operations are the same for all granularities, so the first one decides.
        match references.first() {
            _ if measures.first().is_none_or(|first| first.aggregated) => Keys::None,
            Some(Reference { resource: Some(_), .. }) => Keys::Resource,
            _ => Keys::Metric,
        }
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            Keys::None => &[],
            Keys::Metric => &METRIC_KEYS,
            Keys::Resource => &RESOURCE_KEYS,
        }
    }
}

/// A table that is being built, group by group or at once.
pub(super) struct TableAnswer(SeriesAnswer);

impl TableAnswer {
    /// `fields` are the `groupby` fields.
    pub fn new(call: &Call<'_>, fields: &[String], keys: Keys) -> Self {
        let fields = fields.iter().map(|field| format!("{GROUP_PREFIX}{field}"));
        let keys = keys.names().iter().map(|name| (*name).to_owned());
        TableAnswer(SeriesAnswer::new(&call.answers(), fields.chain(keys)))
    }

    /// Appends the series of a group; `group` has the values of its fields, as an object, or null.
    ///
    /// # Errors
    /// Those of [`SeriesAnswer::push`].
    pub fn push(
        &mut self,
        group: &Value,
        references: &[Reference],
        measures: Vec<CrossMeasures>,
    ) -> Result<()> {
        let group = texts(group);
        let paths: Vec<Vec<String>> = references.iter().map(Reference::path).collect();
        for measures in measures {
            let granularity = seconds(measures.granularity);
            for (index, series) in measures.columns.into_iter().enumerate() {
                let path = paths.get(index).filter(|_| !measures.aggregated);
                let path = path.into_iter().flatten().map(|key| Some(key.as_str()));
                let keys: Vec<Option<&str>> = group.iter().map(Option::as_deref).chain(path).collect();
                self.0.push(&keys, granularity, series.timestamps, series.values)?;
            }
        }
        Ok(())
    }

    /// Appends a group's only series.
    pub fn push_one(
        &mut self,
        group: &Value,
        granularity: Option<f64>,
        timestamps: Vec<Timestamp>,
        values: Vec<f64>,
    ) -> Result<()> {
        let group = texts(group);
        let keys: Vec<Option<&str>> = group.iter().map(Option::as_deref).collect();
        self.0.push(&keys, granularity, Arc::new(timestamps), values)
    }

    /// # Errors
    /// Those of [`SeriesAnswer::into_response`].
    pub fn into_response(self, query: &Query) -> Result<Response> {
        self.0.into_response(query, Form::of(query)?)
    }
}

/// The values of a group's fields.
fn texts(group: &Value) -> Vec<Option<String>> {
    let Value::Object(entries) = group else { return Vec::new() };
    let text = |(_, value): &(String, Value)| match value {
        Value::Null => None,
        Value::Str(text) => Some(text.clone()),
        other => Some(other.to_json()),
    };
    entries.iter().map(text).collect()
}
