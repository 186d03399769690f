//! The labels of a metric.
//!
//! A metric that Prometheus or OpenTelemetry wrote has the labels it was sent with: job and instance are attributes of
//! its resource, all others are encoded in its name, which `notation` parses. Any other metric gets labels from its
//! name, its unit and its resource.
//!
//! Label values are never empty. Two metrics have equal labels only if different creators wrote the same series.

mod notation;

use std::borrow::Cow;

use gnudi_model::{AttributeValue, Metric, Resource};
use gnudi_promql::METRIC_NAME;

pub use notation::{WrittenName, read};

/// The type of the resources that Prometheus and OpenTelemetry write to.
pub const RESOURCE_TYPE: &str = "prometheus";
/// An attribute of [`RESOURCE_TYPE`], and the label that it holds.
pub const JOB: &str = "job";
/// An attribute of [`RESOURCE_TYPE`], and the label that it holds.
pub const INSTANCE: &str = "instance";
/// The attribute value for a missing job or instance. A series whose job or instance is this very text has a full name,
/// which shows the difference.
pub const NONE: &str = "none";
/// The maximum length of a stored name or attribute; longer ones are truncated.
const CHARACTERS_MAX: usize = 255;

/// The prefix that Ceilometer's exporters for Prometheus add to the names of meters.
pub const CEILOMETER_PREFIX: &str = "ceilometer_";

/// The label with the id of a metric's resource. Series written by Prometheus have it only if they were sent with it.
pub const RESOURCE_ID: &str = "resource_id";

/// The label with the id of a metric. Set for metrics without a resource, and where two metrics have the same other labels.
pub const METRIC_ID: &str = "metric_id";

type Pair<'a> = (Cow<'a, str>, Cow<'a, str>);

/// The labels of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricLabels<'a> {
    /// Name and value, sorted by name, each name once.
    pub pairs: Vec<Pair<'a>>,
    /// Whether the metric was written with these labels, by Prometheus or OpenTelemetry.
    pub is_written: bool,
}

/// Whether the metric may have a full name: its untruncated name, which the indexer stores separately. `false` saves the
/// lookup.
pub fn may_have_whole_name(metric: &Metric, resource: &Resource) -> bool {
    let is_long = |text: &str| text.len() >= CHARACTERS_MAX && text.chars().count() >= CHARACTERS_MAX;
    let may_differ = |name| {
        let value = attribute(resource, name);
        is_long(value) || value == NONE || value.contains("\\x00")
    };
    resource.resource_type == RESOURCE_TYPE
        && (metric.name.as_deref().is_some_and(is_long) || may_differ(JOB) || may_differ(INSTANCE))
}

/// The labels of a metric. `whole_name` is its untruncated name, if the indexer has one.
///
/// A full name with a job or an instance has all labels. Otherwise job and instance are those of the resource.
pub fn labels<'a>(
    metric: &'a Metric,
    resource: Option<&'a Resource>,
    whole_name: Option<&'a str>,
) -> MetricLabels<'a> {
    let written = match (resource, whole_name, metric.name.as_deref()) {
        (Some(resource), Some(whole_name), _) => written_labels(resource, whole_name, true),
        (Some(resource), None, Some(name)) => written_labels(resource, name, false),
        _ => None,
    };
    let (mut pairs, is_written) = match written {
        Some(pairs) => (pairs, true),
        None => (resource_labels(metric, resource), false),
    };
    pairs.retain(|(_, value)| !value.is_empty());
    pairs.sort_unstable();
    MetricLabels { pairs, is_written }
}

/// The labels that a series was written with; `None` if the metric was not written from labels. Only full names have a
/// job or an instance, so any other name that has one is not the name of a series.
fn written_labels<'a>(resource: &'a Resource, name: &'a str, is_whole: bool) -> Option<Vec<Pair<'a>>> {
    if resource.resource_type != RESOURCE_TYPE {
        return None;
    }
    let WrittenName { name, labels: mut pairs } = read(name)?;
    let has_job_or_instance = pairs.iter().any(|(label, _)| label == JOB || label == INSTANCE);
    if has_job_or_instance && !is_whole {
        return None;
    }
    pairs.push((METRIC_NAME.into(), name));
    if !has_job_or_instance {
        for label in [JOB, INSTANCE] {
            let value = attribute(resource, label);
            if value != NONE {
                pairs.push((label.into(), value.into()));
            }
        }
    }
    Some(pairs)
}

/// The value of an attribute that is a text, otherwise "".
fn attribute<'a>(resource: &'a Resource, name: &str) -> &'a str {
    match resource.attributes.get(name) {
        Some(AttributeValue::String(text)) => text,
        _ => "",
    }
}

/// The labels of a metric that was not written with labels; some may be empty.
fn resource_labels<'a>(metric: &'a Metric, resource: Option<&'a Resource>) -> Vec<Pair<'a>> {
    let mut pairs = Vec::new();
    let mut put = |label: &'static str, value: Option<&'a str>| {
        pairs.extend(value.map(|value| (label.into(), value.into())));
    };
    put(METRIC_NAME, metric.name.as_deref());
    put("unit", metric.unit.as_deref());
    let Some(resource) = resource else {
        pairs.push((METRIC_ID.into(), metric.id.to_string().into()));
        return pairs;
    };
    put("resource", Some(&resource.original_resource_id));
    put("type", Some(&resource.resource_type));
    put("project", resource.project_id.as_deref());
    put("user", resource.user_id.as_deref());
    pairs.push((RESOURCE_ID.into(), resource.id.to_string().into()));
    for (name, value) in &resource.attributes {
        let Some(value) = value.text() else { continue };
        let mut label = Cow::from(name.as_str());
        while is_reserved(&label) || pairs.iter().any(|(taken, _)| *taken == label) {
            label = format!("attribute_{label}").into();
        }
        pairs.push((label, value));
    }
    pairs
}

/// Whether a label is set from something other than an attribute.
fn is_reserved(label: &str) -> bool {
    [METRIC_NAME, "unit", "resource", RESOURCE_ID, "type", "project", "user", METRIC_ID].contains(&label)
}

/// The name that Ceilometer's exporters give a meter, without [`CEILOMETER_PREFIX`]: all characters other than ASCII
/// letters and digits are replaced by underscores.
fn without_prefix(meter: &str) -> impl Iterator<Item = char> {
    meter.chars().map(|character| if character.is_ascii_alphanumeric() { character } else { '_' })
}

/// The metric name that Ceilometer's exporters give a meter: `ceilometer_disk_device_read_bytes`.
pub fn exported(meter: &str) -> String {
    CEILOMETER_PREFIX.chars().chain(without_prefix(meter)).collect()
}

/// Whether `exported` is the metric name that Ceilometer's exporters give a meter.
pub fn is_exported_as(meter: &str, exported: &str) -> bool {
    exported
        .strip_prefix(CEILOMETER_PREFIX)
        .is_some_and(|exported| without_prefix(meter).eq(exported.chars()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gnudi_model::MetricId;
    use uuid::Uuid;

    use super::*;

    fn metric(name: Option<&str>) -> Metric {
        let (name, unit) = (name.map(Into::into), Some("B/s".into()));
        Metric { name, unit, ..Metric::new(MetricId(Uuid::from_u128(7))) }
    }

    fn resource(resource_type: &str, attributes: &[(&str, AttributeValue)]) -> Resource {
        Resource {
            original_resource_id: "vm/1".into(),
            project_id: Some("p".into()),
            attributes: attributes.iter().map(|(name, value)| ((*name).into(), value.clone())).collect(),
            ..Resource::new(Uuid::from_u128(1), resource_type)
        }
    }

    fn scraped(job: &str, instance: &str) -> Resource {
        let text = |value: &str| AttributeValue::String(value.into());
        resource(RESOURCE_TYPE, &[(JOB, text(job)), (INSTANCE, text(instance))])
    }

    fn shown(labels: &MetricLabels<'_>) -> BTreeMap<String, String> {
        assert!(labels.pairs.is_sorted_by(|a, b| a.0 < b.0), "{labels:?}");
        labels.pairs.iter().map(|(label, value)| (label.to_string(), value.to_string())).collect()
    }

    fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
        pairs.into_iter().map(|(label, value)| (label.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn written_metrics_have_the_labels_they_were_sent_with() {
        let (up, plain) = (scraped("node", "h:9100"), metric(Some("up")));
        let found = labels(&plain, Some(&up), None);
        assert!(found.is_written);
        assert_eq!(shown(&found), pairs([("__name__", "up"), ("job", "node"), ("instance", "h:9100")]));
        let labelled = metric(Some(r#"x{a="1\\2",b="\x2f"}"#));
        let found = shown(&labels(&labelled, Some(&scraped("none", "none")), None));
        assert_eq!(found, pairs([("__name__", "x"), ("a", "1\\2"), ("b", "/")]));
    }

    #[test]
    fn whole_names_have_the_truncated_labels() {
        let (cut, place) = (metric(Some("x{a=\"1~")), scraped("node", "h"));
        let found = shown(&labels(&cut, Some(&place), Some(r#"x{a="1111"}"#)));
        assert_eq!(found, pairs([("__name__", "x"), ("a", "1111"), ("job", "node"), ("instance", "h")]));
        let found = shown(&labels(&cut, Some(&place), Some(r#"x{a="1",job="none"}"#)));
        assert_eq!(found, pairs([("__name__", "x"), ("a", "1"), ("job", "none")]), "all labels or neither");
    }

    #[test]
    fn names_that_do_not_parse_are_kept_as_they_are() {
        for name in ["x{a", r#"x{job="other"}"#, r#"x{b="1",a="2"}"#, r#"x{a=""}"#] {
            let metric = metric(Some(name));
            let place = scraped("node", "h");
            let found = labels(&metric, Some(&place), None);
            assert!(!found.is_written);
            let found = shown(&found);
            assert_eq!((&*found["__name__"], &*found["type"], &*found["job"]), (name, "prometheus", "node"));
        }
    }

    #[test]
    fn other_metrics_have_labels_of_their_resource() {
        let attributes = [
            ("host", AttributeValue::String("h1".into())),
            ("flavor", AttributeValue::Null),
            ("empty", AttributeValue::String("".into())),
            ("vcpus", AttributeValue::Number(4.0)),
            ("project", AttributeValue::String("mine".into())),
            ("attribute_project", AttributeValue::Bool(true)),
            ("metric_id", AttributeValue::Number(7.0)),
        ];
        let (read, instance) = (metric(Some("disk.read")), resource("instance", &attributes));
        let found = labels(&read, Some(&instance), None);
        assert!(!found.is_written);
        let expected = pairs([
            ("__name__", "disk.read"),
            ("unit", "B/s"),
            ("resource", "vm/1"),
            ("resource_id", "00000000-0000-0000-0000-000000000001"),
            ("type", "instance"),
            ("project", "p"),
            ("host", "h1"),
            ("vcpus", "4"),
            ("attribute_project", "true"),
            ("attribute_attribute_project", "mine"),
            ("attribute_metric_id", "7"),
        ]);
        assert_eq!(shown(&found), expected);
        let alone = shown(&labels(&metric(None), None, None));
        assert_eq!(alone, pairs([("unit", "B/s"), ("metric_id", "00000000-0000-0000-0000-000000000007")]));
    }

    #[test]
    fn only_long_names_and_changed_attributes_may_have_a_whole_name() {
        let long = "é".repeat(255);
        let may = |name: &str, job: &str| may_have_whole_name(&metric(Some(name)), &scraped(job, "h"));
        assert!(!may("up", "node") && !may(&"é".repeat(254), "node"));
        assert!(may(&long, "node") && may("up", &long) && may("up", "none") && may("up", "a\\x00b"));
        assert!(!may_have_whole_name(&metric(Some(&long)), &resource("instance", &[])));
    }

    #[test]
    fn exporters_replace_characters_by_underscores() {
        let is_called = |meter, exported: &str| is_exported_as(meter, &format!("ceilometer_{exported}"));
        assert!(is_called("disk.device.read-bytes", "disk_device_read_bytes"));
        assert!(is_called("a_é", "a__") && !is_called("a_é", "a___") && !is_called("a", "ab"));
        assert!(!is_exported_as("a", "a"));
        assert_eq!(exported("disk.device.read-bytes"), "ceilometer_disk_device_read_bytes");
    }
}
