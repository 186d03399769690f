//! `prometheus://`: pushes samples to a Pushgateway, in Prometheus' text format.
//!
//! The gateway keeps the last push of each group. Unless the URL names a group (labels after the job), each resource is
//! a group. Options: those of `http://`, and `ssl`.
//!
//! A push holds each series once, with its last value, since the gateway rejects duplicates. Batches are pushed one
//! after the other, so that no old value overwrites a newer one.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    sync::Arc,
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE};
use futures_util::{StreamExt as _, stream};
use gnudi_model::python::quote;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::oneshot;

use super::{
    Opened, Publisher, PublisherUrl, Receipt,
    figures::PublisherCounts,
    http::{HttpEndpoint, begin},
};
use crate::{
    sample::{Sample, SampleKind},
    wire::python_str,
};

/// Concurrent pushes of different resources.
const PUSHES_MAX: usize = 16;

pub struct PrometheusPublisher {
    endpoint: Arc<HttpEndpoint>,
    /// Whether the URL names the group.
    has_group: bool,
    /// Resolves when the last batch was pushed; `None` before the first.
    last: Mutex<Option<oneshot::Receiver<()>>>,
}

impl PrometheusPublisher {
    pub fn open(url: &PublisherUrl, counts: PublisherCounts) -> Opened {
        let segments = url.path.split('/').filter(|segment| !segment.is_empty()).count();
        // metrics, job, its name, and labels.
        let has_group = url.path.starts_with("/metrics/job/") && segments > 3;
        let endpoint = HttpEndpoint::new(url, "plain/text", counts)?;
        Ok(Arc::new(PrometheusPublisher { endpoint, has_group, last: Mutex::default() }))
    }
}

impl Publisher for PrometheusPublisher {
    fn samples(&self, samples: &[Sample<'_>]) -> Receipt {
        let pushes = if self.has_group {
            vec![(String::new(), push(samples.iter()), samples.len())]
        } else {
            let mut resources: Vec<(&str, Vec<&Sample<'_>>)> = Vec::new();
            let mut places: HashMap<&str, usize> = HashMap::new();
            for sample in samples {
                let place = *places.entry(&sample.resource_id).or_insert_with(|| {
                    resources.push((&sample.resource_id, Vec::new()));
                    resources.len() - 1
                });
                resources[place].1.push(sample);
            }
            let push = |(resource, samples): (&str, Vec<&Sample<'_>>)| {
                (group(resource), push(samples.iter().copied()), samples.len())
            };
            resources.into_iter().map(push).collect()
        };
        let endpoint = self.endpoint.clone();
        // Queued here: tasks do not start in the order in which they are spawned.
        let (ended, end) = oneshot::channel::<()>();
        let before = self.last.lock().replace(end);
        begin(async move {
            let _ended = ended;
            if let Some(before) = before {
                let _ = before.await;
            }
            let posts = pushes.into_iter().map(|(path, body, items)| {
                let endpoint = endpoint.clone();
                async move { endpoint.post(&path, body.into(), items).await }
            });
            let posted: Vec<_> = stream::iter(posts).buffer_unordered(PUSHES_MAX).collect().await;
            posted.into_iter().collect()
        })
    }
}

/// The path segment that makes a resource its own group. The gateway has an encoding for names that a path cannot hold:
/// clients and servers remove the segments `.` and `..`, whose pushes would replace those of other groups.
fn group(resource: &str) -> String {
    if resource.is_empty() {
        "/resource_id@base64/=".to_owned()
    } else if resource.contains('/') || matches!(resource, "." | "..") {
        format!("/resource_id@base64/{}", BASE64_URL_SAFE.encode(resource))
    } else {
        format!("/resource_id/{}", quote(resource, ""))
    }
}

fn push<'a>(samples: impl Iterator<Item = &'a Sample<'a>>) -> String {
    // Series in order of first occurrence, each with its last value.
    let mut series: Vec<(String, SampleKind, String, String)> = Vec::new();
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    for sample in samples {
        let (name, labels) = (metric_name(&sample.name), labels(sample));
        let value = value(&sample.volume);
        if let Some(place) = places.get(&(name.clone(), labels.clone())) {
            series[*place].3 = value;
        } else {
            places.insert((name.clone(), labels.clone()), series.len());
            series.push((name, sample.kind, labels, value));
        }
    }
    let mut typed = HashSet::new();
    let mut out = String::new();
    for (name, kind, labels, value) in &series {
        // Prometheus has no delta type: it stays untyped.
        let kind = match kind {
            SampleKind::Cumulative => Some("counter"),
            SampleKind::Gauge => Some("gauge"),
            SampleKind::Delta => None,
        };
        if let Some(kind) = kind
            && typed.insert(name)
        {
            let _ = writeln!(out, "# TYPE {name} {kind}");
        }
        let _ = writeln!(out, "{name}{{{labels}}} {value}");
    }
    out
}

/// Replaces all but letters, digits, `_` and `:` by `_`.
fn metric_name(meter: &str) -> String {
    let fits = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | ':');
    let name: String = meter.chars().map(|character| if fits(character) { character } else { '_' }).collect();
    if name.starts_with(|first: char| first.is_ascii_digit()) { format!("_{name}") } else { name }
}

/// A missing value is the text `None`.
fn labels(sample: &Sample<'_>) -> String {
    let escaped = |text: Option<&str>| {
        text.unwrap_or("None").replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
    };
    format!(
        "resource_id=\"{}\", user_id=\"{}\", project_id=\"{}\"",
        escaped(Some(&sample.resource_id)),
        escaped(sample.user_id.as_deref()),
        escaped(sample.project_id.as_deref()),
    )
}

fn value(volume: &Value) -> String {
    match volume {
        Value::Bool(value) => u8::from(*value).to_string(),
        volume => python_str(volume),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{publishers::tests::sample, test_server::serve};

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn batches_are_pushed_in_the_order_of_their_publication() {
        let pushed = Arc::<Mutex<Vec<String>>>::default();
        let seen = pushed.clone();
        let gateway = serve(move |_, body| {
            seen.lock().push(body.to_owned());
            ("200 OK", "")
        });
        let url = format!("{}/metrics/job/j", gateway.await.replace("http", "prometheus"));
        let url = PublisherUrl::parse(&url).unwrap();
        let publisher = PrometheusPublisher::open(&url, PublisherCounts::default()).unwrap();
        // A worker runs the task that was spawned last first.
        let publish = move || [1.0, 2.0, 3.0].map(|volume| publisher.samples(&[sample("cpu", volume)]));
        let receipts = tokio::spawn(async move { publish() }).await.unwrap();
        Receipt::all(receipts.into()).await.unwrap();
        assert_eq!(pushed.lock().len(), 3);
        for (body, volume) in pushed.lock().iter().zip(1..) {
            assert!(body.ends_with(&format!(" {volume}.0\n")), "{volume}: {body}");
        }
    }

    #[test]
    fn a_push_holds_each_series_once() {
        let mut samples = [sample("disk.read-x", 1.5), sample("9", 2.0), sample("disk.read-x", 3.0)];
        samples[1].kind = SampleKind::Delta;
        samples[1].resource_id = "a\"\\\n".into();
        assert_eq!(
            push(samples.iter()),
            "# TYPE disk_read_x gauge\ndisk_read_x{resource_id=\"r\", user_id=\"None\", project_id=\"p\"} 3.0\n\
             _9{resource_id=\"a\\\"\\\\\\n\", user_id=\"None\", project_id=\"p\"} 2.0\n"
        );
        assert_eq!(group("a b"), "/resource_id/a%20b");
        assert_eq!(group("a/b"), "/resource_id@base64/YS9i");
        assert_eq!(group("."), "/resource_id@base64/Lg==");
        assert_eq!(group(".."), "/resource_id@base64/Li4=");
        assert_eq!(group("..."), "/resource_id/...");
        assert_eq!(group(""), "/resource_id@base64/=");
    }
}
