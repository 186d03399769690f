//! The decoded parts of a request: `ExportMetricsServiceRequest` and its messages, with OTLP's names. JSON is
//! deserialized into it directly; as by OpenTelemetry's Go library, which Prometheus uses, fields may also have their names in protobuf
//! (`data_points`). Texts borrow from the body if possible.

use std::borrow::Cow;

use serde::Deserialize;

use super::{any_value, json};

/// A decoded request, for `translate`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Request<'a> {
    #[serde(borrow, deserialize_with = "json::or_default", alias = "resource_metrics")]
    pub(super) resource_metrics: Vec<ResourceMetrics<'a>>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ResourceMetrics<'a> {
    #[serde(borrow, deserialize_with = "json::or_default")]
    pub resource: Resource<'a>,
    #[serde(borrow, deserialize_with = "json::or_default", alias = "scope_metrics")]
    pub scope_metrics: Vec<ScopeMetrics<'a>>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Resource<'a> {
    #[serde(borrow, deserialize_with = "json::or_default")]
    pub attributes: Vec<Attribute<'a>>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct ScopeMetrics<'a> {
    #[serde(borrow, deserialize_with = "json::or_default")]
    pub metrics: Vec<Metric<'a>>,
}

/// A metric. Its data points are in one of the last five fields, depending on its type.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metric<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    pub name: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub description: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub unit: Cow<'a, str>,
    #[serde(borrow)]
    pub gauge: Option<Points<NumberPoint<'a>>>,
    #[serde(borrow)]
    pub sum: Option<Sum<'a>>,
    #[serde(borrow)]
    pub histogram: Option<Histogram<'a>>,
    /// Not supported: its data points are decoded only to count them as rejected, and for their times.
    #[serde(alias = "exponential_histogram")]
    pub exponential_histogram: Option<Points<ExponentialPoint>>,
    #[serde(borrow)]
    pub summary: Option<Points<SummaryPoint<'a>>>,
}

impl Metric<'_> {
    /// How many of the fields for data points are set: more than one only in invalid JSON.
    pub fn types(&self) -> usize {
        let Metric { gauge, sum, histogram, exponential_histogram, summary, .. } = self;
        let set = [
            gauge.is_some(),
            sum.is_some(),
            histogram.is_some(),
            exponential_histogram.is_some(),
            summary.is_some(),
        ];
        set.into_iter().filter(|is_set| *is_set).count()
    }
}

/// The data of a type that has only data points.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "P: Default + Deserialize<'de>"))]
pub(super) struct Points<P> {
    #[serde(deserialize_with = "json::or_default", alias = "data_points")]
    pub data_points: Vec<P>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Sum<'a> {
    #[serde(borrow, deserialize_with = "json::or_default", alias = "data_points")]
    pub data_points: Vec<NumberPoint<'a>>,
    #[serde(deserialize_with = "json::temporality", alias = "aggregation_temporality")]
    pub aggregation_temporality: u64,
    #[serde(deserialize_with = "json::or_default", alias = "is_monotonic")]
    pub is_monotonic: bool,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Histogram<'a> {
    #[serde(borrow, deserialize_with = "json::or_default", alias = "data_points")]
    pub data_points: Vec<HistogramPoint<'a>>,
    #[serde(deserialize_with = "json::temporality", alias = "aggregation_temporality")]
    pub aggregation_temporality: u64,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ExponentialPoint {
    #[serde(deserialize_with = "json::number", alias = "time_unix_nano")]
    pub time_unix_nano: u64,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NumberPoint<'a> {
    #[serde(borrow, deserialize_with = "json::or_default")]
    pub attributes: Vec<Attribute<'a>>,
    #[serde(deserialize_with = "json::number", alias = "time_unix_nano")]
    pub time_unix_nano: u64,
    #[serde(deserialize_with = "json::optional_number", alias = "as_double")]
    pub as_double: Option<f64>,
    #[serde(deserialize_with = "json::optional_number", alias = "as_int")]
    pub as_int: Option<i64>,
    #[serde(deserialize_with = "json::number")]
    pub flags: u64,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct HistogramPoint<'a> {
    #[serde(borrow, deserialize_with = "json::or_default")]
    pub attributes: Vec<Attribute<'a>>,
    #[serde(deserialize_with = "json::number", alias = "time_unix_nano")]
    pub time_unix_nano: u64,
    #[serde(deserialize_with = "json::number")]
    pub count: u64,
    #[serde(deserialize_with = "json::optional_number")]
    pub sum: Option<f64>,
    #[serde(deserialize_with = "json::numbers", alias = "bucket_counts")]
    pub bucket_counts: Vec<u64>,
    #[serde(deserialize_with = "json::numbers", alias = "explicit_bounds")]
    pub explicit_bounds: Vec<f64>,
    #[serde(deserialize_with = "json::number")]
    pub flags: u64,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SummaryPoint<'a> {
    #[serde(borrow, deserialize_with = "json::or_default")]
    pub attributes: Vec<Attribute<'a>>,
    #[serde(deserialize_with = "json::number", alias = "time_unix_nano")]
    pub time_unix_nano: u64,
    #[serde(deserialize_with = "json::number")]
    pub count: u64,
    #[serde(deserialize_with = "json::number")]
    pub sum: f64,
    #[serde(deserialize_with = "json::or_default", alias = "quantile_values")]
    pub quantile_values: Vec<Quantile>,
    #[serde(deserialize_with = "json::number")]
    pub flags: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Quantile {
    #[serde(deserialize_with = "json::number")]
    pub quantile: f64,
    #[serde(deserialize_with = "json::number")]
    pub value: f64,
}

/// An attribute, with its value converted to a text.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Attribute<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    pub key: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "any_value::text_of_json")]
    pub value: Cow<'a, str>,
}
