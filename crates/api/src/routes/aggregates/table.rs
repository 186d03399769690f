//! What the operations come to, as a table: the points of each series with the keys that it has in the JSON answer, and with what the
//! resources of its group have in common.

use std::sync::Arc;

use gnudi_app::{ApiError, App, json::Value, query::Query};
use gnudi_model::Timestamp;
use gnudi_series::cross::CrossMeasures;
use gnudi_server::Response;

use super::references::Reference;
use crate::arrow::series::{Form, SeriesAnswer, seconds};

const METRIC_KEYS: [&str; 2] = ["metric_id", "aggregation"];
const RESOURCE_KEYS: [&str; 3] = ["resource_id", "metric", "aggregation"];

/// Before the name of a field that resources are grouped by.
const GROUP_PREFIX: &str = "group_";

/// What tells a table's series apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// There is one, or one of each group.
    None,
    Metric,
    Resource,
}

impl Keys {
    /// The keys of what the operations came to.
    pub fn of(references: &[Reference], measures: &[CrossMeasures]) -> Self {
        // The operations are the same at every granularity.
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

/// A table that is being put together, group by group or of all at once.
pub(super) struct TableAnswer(SeriesAnswer);

impl TableAnswer {
    /// `fields` are those that resources are grouped by.
    pub fn new(app: &App, fields: &[String], keys: Keys) -> Self {
        let fields = fields.iter().map(|field| format!("{GROUP_PREFIX}{field}"));
        let keys = keys.names().iter().map(|name| (*name).to_owned());
        TableAnswer(SeriesAnswer::new(&app.answers, fields.chain(keys)))
    }

    /// Appends the series of a group; `group` is what its resources have in common, an object, or null.
    ///
    /// # Errors
    /// Those of [`SeriesAnswer::push`].
    pub fn push(
        &mut self,
        group: &Value,
        references: &[Reference],
        measures: Vec<CrossMeasures>,
    ) -> Result<(), ApiError> {
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

    /// Appends the one series of a group.
    pub fn push_one(
        &mut self,
        group: &Value,
        granularity: Option<f64>,
        timestamps: Vec<Timestamp>,
        values: Vec<f64>,
    ) -> Result<(), ApiError> {
        let group = texts(group);
        let keys: Vec<Option<&str>> = group.iter().map(Option::as_deref).collect();
        self.0.push(&keys, granularity, Arc::new(timestamps), values)
    }

    /// # Errors
    /// Those of [`SeriesAnswer::into_response`].
    pub fn into_response(self, query: &Query) -> Result<Response, ApiError> {
        self.0.into_response(query, Form::of(query)?)
    }
}

/// What a group has in each of its fields.
fn texts(group: &Value) -> Vec<Option<String>> {
    let Value::Object(entries) = group else { return Vec::new() };
    let text = |(_, value): &(String, Value)| match value {
        Value::Null => None,
        Value::Str(text) => Some(text.clone()),
        other => Some(other.to_json()),
    };
    entries.iter().map(text).collect()
}
