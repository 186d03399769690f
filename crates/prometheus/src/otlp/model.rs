//! What of a request is read: `ExportMetricsServiceRequest` and its parts, by their names. JSON is read into it directly; texts borrow
//! from the body where they can.

use std::borrow::Cow;

use serde::Deserialize;

use super::{any_value, json};

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Request<'a> {
    #[serde(borrow)]
    pub(super) resource_metrics: Vec<ResourceMetrics<'a>>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ResourceMetrics<'a> {
    #[serde(borrow)]
    pub resource: Resource<'a>,
    #[serde(borrow)]
    pub scope_metrics: Vec<ScopeMetrics<'a>>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Resource<'a> {
    #[serde(borrow)]
    pub attributes: Vec<Attribute<'a>>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct ScopeMetrics<'a> {
    #[serde(borrow)]
    pub metrics: Vec<Metric<'a>>,
}

/// Its data are in one of the last five.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metric<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(borrow)]
    pub description: Cow<'a, str>,
    #[serde(borrow)]
    pub unit: Cow<'a, str>,
    #[serde(borrow)]
    pub gauge: Option<Gauge<'a>>,
    #[serde(borrow)]
    pub sum: Option<Sum<'a>>,
    #[serde(borrow)]
    pub histogram: Option<Histogram<'a>>,
    pub exponential_histogram: Option<ExponentialHistogram>,
    #[serde(borrow)]
    pub summary: Option<Summary<'a>>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Gauge<'a> {
    #[serde(borrow)]
    pub data_points: Vec<NumberPoint<'a>>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Sum<'a> {
    #[serde(borrow)]
    pub data_points: Vec<NumberPoint<'a>>,
    #[serde(deserialize_with = "json::temporality")]
    pub aggregation_temporality: u64,
    pub is_monotonic: bool,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Histogram<'a> {
    #[serde(borrow)]
    pub data_points: Vec<HistogramPoint<'a>>,
    #[serde(deserialize_with = "json::temporality")]
    pub aggregation_temporality: u64,
}

/// Only how many there are: they are not taken.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ExponentialHistogram {
    pub data_points: Vec<ExponentialPoint>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ExponentialPoint {
    #[serde(deserialize_with = "json::unsigned")]
    pub time_unix_nano: u64,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Summary<'a> {
    #[serde(borrow)]
    pub data_points: Vec<SummaryPoint<'a>>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NumberPoint<'a> {
    #[serde(borrow)]
    pub attributes: Vec<Attribute<'a>>,
    #[serde(deserialize_with = "json::unsigned")]
    pub time_unix_nano: u64,
    #[serde(deserialize_with = "json::optional_double")]
    pub as_double: Option<f64>,
    #[serde(deserialize_with = "json::optional_signed")]
    pub as_int: Option<i64>,
    #[serde(deserialize_with = "json::unsigned")]
    pub flags: u64,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct HistogramPoint<'a> {
    #[serde(borrow)]
    pub attributes: Vec<Attribute<'a>>,
    #[serde(deserialize_with = "json::unsigned")]
    pub time_unix_nano: u64,
    #[serde(deserialize_with = "json::unsigned")]
    pub count: u64,
    #[serde(deserialize_with = "json::optional_double")]
    pub sum: Option<f64>,
    #[serde(deserialize_with = "json::unsigned_list")]
    pub bucket_counts: Vec<u64>,
    #[serde(deserialize_with = "json::double_list")]
    pub explicit_bounds: Vec<f64>,
    #[serde(deserialize_with = "json::unsigned")]
    pub flags: u64,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SummaryPoint<'a> {
    #[serde(borrow)]
    pub attributes: Vec<Attribute<'a>>,
    #[serde(deserialize_with = "json::unsigned")]
    pub time_unix_nano: u64,
    #[serde(deserialize_with = "json::unsigned")]
    pub count: u64,
    #[serde(deserialize_with = "json::double")]
    pub sum: f64,
    pub quantile_values: Vec<Quantile>,
    #[serde(deserialize_with = "json::unsigned")]
    pub flags: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Quantile {
    #[serde(deserialize_with = "json::double")]
    pub quantile: f64,
    #[serde(deserialize_with = "json::double")]
    pub value: f64,
}

/// An attribute, whose value is a text, whatever it was.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Attribute<'a> {
    #[serde(borrow)]
    pub key: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "any_value::text_of_json")]
    pub value: Cow<'a, str>,
}
