//! `opentelemetryhttp://`: sends samples to an OpenTelemetry collector, as OTLP/JSON over HTTP. Options: those of
//! `http://`, and `ssl`.
//!
//! This is OTLP proper. Ceilometer deviates from it in three ways that collectors do not accept: here a cumulative
//! meter is a `sum`, not a `counter`; times are nanoseconds, not seconds; a message's samples go in one request.

use std::{collections::HashMap, sync::Arc};

use gnudi_model::{Timestamp, python::timestamp_of_text};
use serde_json::{Value, json};

use super::{
    Opened, Publisher, PublisherUrl, Receipt,
    figures::PublisherCounts,
    http::{HttpEndpoint, begin},
    peer_health::PeerHealth,
};
use crate::sample::{Sample, SampleKind, volume_number};

/// OTLP's code for cumulative values.
const TEMPORALITY_CUMULATIVE: u8 = 2;

pub struct OpentelemetryPublisher {
    endpoint: Arc<HttpEndpoint>,
    counts: PublisherCounts,
    timeless: PeerHealth,
}

impl OpentelemetryPublisher {
    pub fn open(url: &PublisherUrl, counts: PublisherCounts) -> Opened {
        let endpoint = HttpEndpoint::new(url, "application/json", counts.clone())?;
        Ok(Arc::new(OpentelemetryPublisher { endpoint, counts, timeless: PeerHealth::new(url) }))
    }
}

impl Publisher for OpentelemetryPublisher {
    fn samples(&self, samples: &[Sample<'_>]) -> Receipt {
        let (request, points) = request(samples);
        if points < samples.len() {
            self.timeless.failed(&"a sample has no time or no number");
            self.counts.lost.inc_by((samples.len() - points) as u64);
        }
        if points == 0 {
            return Receipt::done();
        }
        let endpoint = self.endpoint.clone();
        begin(async move { endpoint.post_checked("", request.to_string().into(), points, check_taken).await })
    }
}

/// What a collector rejects although it answers 200, which it does if it takes a part of a request.
fn check_taken(answer: &[u8]) -> Result<(), String> {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let partial = &answer["partialSuccess"];
    // OTLP/JSON writes 64-bit integers as texts.
    let rejected = match &partial["rejectedDataPoints"] {
        Value::String(count) => count.parse::<u64>().unwrap_or(0),
        count => count.as_u64().unwrap_or(0),
    };
    if rejected == 0 {
        return Ok(());
    }
    Err(format!("{rejected} data points: {}", partial["errorMessage"].as_str().unwrap_or_default()))
}

/// An export request, and the number of samples in it.
fn request(samples: &[Sample<'_>]) -> (Value, usize) {
    let mut metrics: Vec<(&Sample<'_>, Vec<Value>)> = Vec::new();
    let mut places: HashMap<(&str, &str, bool), usize> = HashMap::new();
    let mut points = 0;
    for sample in samples {
        let Some(point) = point(sample) else { continue };
        let is_sum = sample.kind == SampleKind::Cumulative;
        let place = *places.entry((&sample.name, &sample.unit, is_sum)).or_insert_with(|| {
            metrics.push((sample, Vec::new()));
            metrics.len() - 1
        });
        metrics[place].1.push(point);
        points += 1;
    }
    let metrics: Vec<Value> = metrics.into_iter().map(|(sample, points)| metric(sample, &points)).collect();
    let scope = json!({"name": "ceilometer", "version": "v1"});
    let request = json!({"resourceMetrics": [{"scopeMetrics": [{"scope": scope, "metrics": metrics}]}]});
    (request, points)
}

fn metric(sample: &Sample<'_>, points: &[Value]) -> Value {
    let mut metric = json!({
        "name": sample.name.replace('.', "_"),
        "description": format!("{} unit:{}", sample.name, sample.unit),
        "unit": sample.unit,
    });
    if sample.kind == SampleKind::Cumulative {
        metric["sum"] = json!({
            "dataPoints": points, "aggregationTemporality": TEMPORALITY_CUMULATIVE, "isMonotonic": true,
        });
    } else {
        metric["gauge"] = json!({"dataPoints": points});
    }
    metric
}

/// `None` if the sample has no time, or no finite number as its volume.
fn point(sample: &Sample<'_>) -> Option<Value> {
    let time = timestamp_of_text(sample.timestamp.as_deref()?, Timestamp(0)).ok()?;
    // JSON would have null for others, which counts as 0.
    let volume = volume_number(&sample.volume).filter(|volume| volume.is_finite())?;
    let named = [
        ("resource_id", Some(&*sample.resource_id)),
        ("user_id", sample.user_id.as_deref()),
        ("project_id", sample.project_id.as_deref()),
    ];
    let attributes: Vec<Value> = named
        .iter()
        .filter_map(|(key, text)| text.map(|text| json!({"key": key, "value": {"stringValue": text}})))
        .collect();
    // OTLP/JSON writes 64-bit integers as texts.
    Some(json!({"attributes": attributes, "timeUnixNano": time.0.to_string(), "asDouble": volume}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        publishers::{PublisherUrl, tests::sample},
        test_server::serve,
    };

    #[tokio::test]
    async fn points_that_a_collector_rejects_fail_their_message() {
        let mut answers = [
            r#"{"partialSuccess": {}}"#,
            r#"{"partialSuccess": {"rejectedDataPoints": "0", "errorMessage": "a warning"}}"#,
            r#"{"partialSuccess": {"rejectedDataPoints": "1", "errorMessage": "too old"}}"#,
            "",
        ]
        .into_iter();
        let url = serve(move |_, _| ("200 OK", answers.next().unwrap())).await;
        let url = format!("{}/?timeout=60", url.replace("http", "opentelemetryhttp"));
        let url = PublisherUrl::parse(&url).unwrap();
        let counts = PublisherCounts::default();
        let publisher = OpentelemetryPublisher::open(&url, counts.clone()).unwrap();
        let samples = [sample("a", 1.0), sample("b", 2.0)];
        for _ in 0..2 {
            publisher.samples(&samples).await.unwrap();
        }
        let reason = publisher.samples(&samples).await.unwrap_err().0;
        assert!(reason.ends_with("refuses: 1 data points: too old"), "{reason}");
        publisher.samples(&samples).await.unwrap();
        assert_eq!((counts.published.get(), counts.lost.get()), (6, 0));
    }

    #[test]
    fn samples_become_points_of_metrics() {
        let mut samples =
            [sample("a.b", 1.5), sample("a.b", 2.0), sample("c", 3.0), sample("d", 4.0), sample("e", 5.0)];
        samples[0].timestamp = Some("2026-01-02T03:04:05.000006".into());
        samples[1].timestamp = Some("2026-01-02T03:04:05+00:00".into());
        samples[2].kind = SampleKind::Cumulative;
        samples[3].timestamp = None;
        samples[4].volume = "inf".into();
        let (request, points) = request(&samples);
        assert_eq!(points, 3);
        let metrics = &request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        assert_eq!(metrics[0]["name"], "a_b");
        let points = &metrics[0]["gauge"]["dataPoints"];
        assert_eq!(points[0]["timeUnixNano"], "1767323045000006000");
        assert_eq!(points[1]["timeUnixNano"], "1767323045000000000");
        assert_eq!(points[1]["asDouble"], 2.0);
        assert_eq!(points[0]["attributes"][1], json!({"key": "project_id", "value": {"stringValue": "p"}}));
        assert_eq!(metrics[1]["sum"]["isMonotonic"], true);
        assert!(metrics.get(2).is_none());
    }
}
