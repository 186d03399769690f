//! `/v1/metric/{id}/measures` and `/v1/batch/metrics/measures`.

use std::{collections::BTreeMap, io::Write};

use gnudi_model::{AggregationMethod, Measure, MetricId};

use crate::{Client, Result, points::parse_points, uri::Query};

/// One aggregated point: `["2015-01-01T00:00:00+00:00", 60.0, 1.5]` in JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The start of the bucket as returned by the server: truncated to whole seconds.
    pub timestamp: String,
    pub granularity_seconds: f64,
    pub value: f64,
}

/// Which points to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeasuresFilter {
    /// Unix seconds, an ISO time, or relative ("-10 minutes").
    pub start: Option<String>,
    /// `None`: mean.
    pub aggregation: Option<AggregationMethod>,
    /// Seconds or a duration; `None`: every granularity of the policy.
    pub granularity: Option<String>,
    /// Process the backlog first.
    pub refresh: bool,
}

impl MeasuresFilter {
    fn path(&self, metric: MetricId) -> String {
        let mut query = Query::new(&format!("/v1/metric/{metric}/measures"));
        query.add_some("start", self.start.as_deref());
        query.add_some("aggregation", self.aggregation.map(|method| method.to_string()).as_deref());
        query.add_some("granularity", self.granularity.as_deref());
        if self.refresh {
            query.add("refresh", "true");
        }
        query.finish()
    }
}

impl Client {
    /// Sends measures of many metrics in one request, accepted or rejected as a whole.
    pub async fn post_batch(&self, batch: &BTreeMap<MetricId, Vec<Measure>>) -> Result<()> {
        self.post_only("/v1/batch/metrics/measures".to_owned(), batch_body(batch)).await
    }

    /// Reads points: granularities one after the other, coarsest first, oldest point first within each.
    pub async fn get_measures(&self, metric: MetricId, filter: &MeasuresFilter) -> Result<Vec<Point>> {
        self.get_points(filter.path(metric)).await
    }

    /// GET of any path below the base URL that returns points, as [`Client::get_measures`].
    pub async fn get_points(&self, path: String) -> Result<Vec<Point>> {
        self.get_with(path, parse_points).await
    }
}

/// Approximate size of a measure in JSON.
const MEASURE_BYTES: usize = 72;

/// Writes `[{"timestamp": ..., "value": ...}, ...]`: ISO times in UTC with nine digits, values in the shortest form
/// that round-trips. NaN and infinities are texts, which Gnocchi accepts. Times are texts, since Gnocchi reads numbers as
/// seconds in double precision.
pub fn write_measures(measures: &[Measure], out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, measure) in measures.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"timestamp\":\"");
        let end = out.len() + b"YYYY-MM-DDTHH:MM:SS".len();
        measure.timestamp.write_iso(out);
        out.truncate(end);
        write!(out, ".{:09}\",\"value\":", measure.timestamp.0.rem_euclid(1_000_000_000))
            .expect("a Vec takes it");
        match measure.value {
            value if value.is_finite() => write!(out, "{value:?}").expect("a Vec takes it"),
            value if value.is_nan() => out.extend_from_slice(b"\"nan\""),
            value if value > 0.0 => out.extend_from_slice(b"\"inf\""),
            _ => out.extend_from_slice(b"\"-inf\""),
        }
        out.push(b'}');
    }
    out.push(b']');
}

fn batch_body(batch: &BTreeMap<MetricId, Vec<Measure>>) -> Vec<u8> {
    let measures: usize = batch.values().map(Vec::len).sum();
    let mut body = Vec::with_capacity(MEASURE_BYTES * measures + 48 * batch.len() + 2);
    body.push(b'{');
    for (index, (metric, measures)) in batch.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        write!(body, "\"{metric}\":").expect("a Vec takes it");
        write_measures(measures, &mut body);
    }
    body.push(b'}');
    body
}

#[cfg(test)]
mod tests {
    use gnudi_model::{Statistic, Timestamp};

    use super::*;

    const METRIC: MetricId = MetricId(uuid::Uuid::from_u128(0x0a7a_15ff_aa13_4ac2_897c_9bdf_30ce_175b));

    fn text(measures: &[(i64, f64)]) -> String {
        let measures: Vec<_> =
            measures.iter().map(|&(ns, value)| Measure { timestamp: Timestamp(ns), value }).collect();
        let mut out = Vec::new();
        write_measures(&measures, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn writes_measures_exactly() {
        assert_eq!(text(&[]), "[]");
        assert_eq!(
            text(&[(1_420_070_400_123_456_789, 1.5), (0, -0.0)]),
            "[{\"timestamp\":\"2015-01-01T00:00:00.123456789\",\"value\":1.5},\
             {\"timestamp\":\"1970-01-01T00:00:00.000000000\",\"value\":-0.0}]"
        );
        for (value, shown) in [
            (1e300, "1e300"),
            (0.1 + 0.2, "0.30000000000000004"),
            (f64::NAN, "\"nan\""),
            (f64::INFINITY, "\"inf\""),
            (f64::NEG_INFINITY, "\"-inf\""),
        ] {
            assert!(text(&[(0, value)]).ends_with(&format!("\"value\":{shown}}}]")), "{shown}");
        }
    }

    #[test]
    fn writes_a_batch_by_metric() {
        let measure = Measure { timestamp: Timestamp(0), value: 1.0 };
        let batch = BTreeMap::from([
            (METRIC, vec![measure]),
            (MetricId(uuid::Uuid::from_u128(1)), vec![measure, measure]),
        ]);
        let body: serde_json::Value = serde_json::from_slice(&batch_body(&batch)).unwrap();
        assert_eq!(body[METRIC.to_string()].as_array().unwrap().len(), 1);
        assert_eq!(body["00000000-0000-0000-0000-000000000001"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn a_filter_becomes_a_query() {
        assert!(MeasuresFilter::default().path(METRIC).ends_with("/measures"));
        let filter = MeasuresFilter {
            start: Some("-10 minutes".to_owned()),
            aggregation: Some(AggregationMethod { rate: true, statistic: Statistic::Mean }),
            granularity: Some("60".to_owned()),
            refresh: true,
        };
        assert!(
            filter.path(METRIC).ends_with(
                "/measures?start=-10%20minutes&aggregation=rate%3Amean&granularity=60&refresh=true"
            )
        );
    }
}
