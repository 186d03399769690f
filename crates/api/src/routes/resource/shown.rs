//! Resources in responses, written as bytes or as part of another document.

use std::sync::Arc;

use gnudi_access::created_by;
use gnudi_app::json::{Value, float, write_joined, write_string};
use gnudi_model::{AttributeValue, Metric, Resource, Timestamp};
use gnudi_server::ReplyBody;
use uuid::Uuid;

use crate::json_list::json_list;

/// The value of a field.
#[derive(Clone, Copy, Debug)]
enum Shown<'r> {
    Null,
    Text(&'r str),
    Id(Uuid),
    Time(Timestamp),
    Bool(bool),
    Number(f64),
    /// Their ids, by name.
    Metrics(&'r [Arc<Metric>]),
}

impl<'r> Shown<'r> {
    fn optional(text: Option<&'r gnudi_model::Text>) -> Self {
        text.map_or(Shown::Null, |text| Shown::Text(text))
    }

    fn attribute(value: &'r AttributeValue) -> Self {
        match value {
            AttributeValue::Null => Shown::Null,
            AttributeValue::String(text) => Shown::Text(text),
            AttributeValue::Uuid(id) => Shown::Id(*id),
            AttributeValue::Number(number) => Shown::Number(*number),
            AttributeValue::Bool(flag) => Shown::Bool(*flag),
            AttributeValue::Datetime(time) => Shown::Time(*time),
        }
    }

    fn write(self, out: &mut Vec<u8>) {
        match self {
            Shown::Null => out.extend_from_slice(b"null"),
            Shown::Text(text) => write_string(text, out),
            Shown::Id(id) => write_id(id, out),
            Shown::Time(time) => {
                out.push(b'"');
                time.write_iso_micros(out);
                out.push(b'"');
            }
            Shown::Bool(flag) => out.extend_from_slice(if flag { b"true" } else { b"false" }),
            Shown::Number(number) => float::write(number, out),
            Shown::Metrics(metrics) => write_joined(*b"{}", metrics, out, |metric, out| {
                write_string(metric.name.as_deref().unwrap_or_default(), out);
                out.extend_from_slice(b": ");
                write_id(metric.id.0, out);
            }),
        }
    }

    fn value(self) -> Value {
        match self {
            Shown::Null => Value::Null,
            Shown::Text(text) => text.into(),
            Shown::Id(id) => id.to_string().into(),
            Shown::Time(time) => time.to_iso_micros().into(),
            Shown::Bool(flag) => Value::Bool(flag),
            Shown::Number(number) => Value::Float(number),
            Shown::Metrics(metrics) => {
                let metric = |metric: &Arc<Metric>| {
                    let name = metric.name.as_ref().map(ToString::to_string).unwrap_or_default();
                    (name, metric.id.to_string().into())
                };
                Value::Object(metrics.iter().map(metric).collect())
            }
        }
    }
}

fn write_id(id: Uuid, out: &mut Vec<u8>) {
    let mut text = Uuid::encode_buffer();
    out.push(b'"');
    out.extend_from_slice(id.hyphenated().encode_lower(&mut text).as_bytes());
    out.push(b'"');
}

/// Calls `each` for every field but the metrics, in Gnocchi's order.
fn each_field<'r>(resource: &'r Resource, mut each: impl FnMut(&'r str, Shown<'r>)) {
    let optional_time = |time: Option<Timestamp>| time.map_or(Shown::Null, Shown::Time);
    let (user, project) = created_by(&resource.creator);
    each("id", Shown::Id(resource.id));
    each("creator", Shown::Text(&resource.creator));
    each("started_at", Shown::Time(resource.started_at));
    each("revision_start", Shown::Time(resource.revision_start));
    each("ended_at", optional_time(resource.ended_at));
    each("user_id", Shown::optional(resource.user_id.as_ref()));
    each("project_id", Shown::optional(resource.project_id.as_ref()));
    each("original_resource_id", Shown::Text(&resource.original_resource_id));
    each("type", Shown::Text(&resource.resource_type));
    for (name, value) in &resource.attributes {
        each(name, Shown::attribute(value));
    }
    each("revision_end", optional_time(resource.revision_end));
    each("created_by_user_id", Shown::Text(user));
    each("created_by_project_id", Shown::Text(project));
}

/// Calls `each` for every field in `attrs`; for all if it is empty.
fn each_selected<'r>(resource: &'r Resource, attrs: &[&str], mut each: impl FnMut(&'r str, Shown<'r>)) {
    let is_selected = |name: &str| attrs.is_empty() || attrs.contains(&name);
    each_field(resource, |name, shown| {
        if is_selected(name) {
            each(name, shown);
        }
    });
    if is_selected("metrics") {
        each("metrics", Shown::Metrics(&resource.metrics));
    }
}

/// Appends a resource with the fields in `attrs`, or all.
pub(crate) fn write(resource: &Resource, attrs: &[&str], out: &mut Vec<u8>) {
    let mut is_first = true;
    out.push(b'{');
    each_selected(resource, attrs, |name, shown| {
        if !is_first {
            out.extend_from_slice(b", ");
        }
        is_first = false;
        write_string(name, out);
        out.extend_from_slice(b": ");
        shown.write(out);
    });
    out.push(b'}');
}

/// A list of resources, each like [`write`].
pub(crate) fn list(resources: Vec<Arc<Resource>>, attrs: Vec<String>) -> ReplyBody {
    json_list(resources, move |resource, out| {
        let attrs: Vec<&str> = attrs.iter().map(String::as_str).collect();
        write(&resource, &attrs, out);
    })
}

/// The value of a field; `None` if there is no such field.
pub(crate) fn field(resource: &Resource, name: &str) -> Option<Value> {
    let mut found = None;
    each_field(resource, |known, shown| {
        if known == name {
            found = Some(shown.value());
        }
    });
    found
}

/// A resource within a metric: without metrics and attributes.
pub(crate) fn shown_in_metric(resource: &Resource) -> Value {
    let mut entries = Vec::with_capacity(12);
    each_field(resource, |name, shown| {
        if !resource.attributes.contains_key(name) {
            entries.push((name.to_owned(), shown.value()));
        }
    });
    Value::Object(entries)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gnudi_model::MetricId;

    use super::*;
    use gnudi_app::json;

    fn resource() -> Resource {
        let metric = |name: &str, id: u128| {
            Arc::new(Metric { name: Some(name.into()), ..Metric::new(MetricId(Uuid::from_u128(id))) })
        };
        Resource {
            original_resource_id: "a\"".into(),
            creator: "u:p:q".into(),
            project_id: Some("p2".into()),
            started_at: Timestamp(1_500_000),
            revision_start: Timestamp::from_secs(2),
            attributes: BTreeMap::from([
                ("b".into(), AttributeValue::Bool(true)),
                ("d".into(), AttributeValue::Datetime(Timestamp::from_secs(1))),
                ("n".into(), AttributeValue::Number(2.0)),
                ("s".into(), AttributeValue::String("é".into())),
                ("u".into(), AttributeValue::Uuid(Uuid::from_u128(2))),
                ("x".into(), AttributeValue::Null),
            ]),
            metrics: [metric("cpu", 3), metric("disk", 4)].into(),
            ..Resource::new(Uuid::from_u128(1), "inst")
        }
    }

    const WHOLE: &str = r#"{"id": "00000000-0000-0000-0000-000000000001", "creator": "u:p:q", "started_at": "1970-01-01T00:00:00.001500+00:00", "revision_start": "1970-01-01T00:00:02+00:00", "ended_at": null, "user_id": null, "project_id": "p2", "original_resource_id": "a\"", "type": "inst", "b": true, "d": "1970-01-01T00:00:01+00:00", "n": 2.0, "s": "\u00e9", "u": "00000000-0000-0000-0000-000000000002", "x": null, "revision_end": null, "created_by_user_id": "u", "created_by_project_id": "p:q", "metrics": {"cpu": "00000000-0000-0000-0000-000000000003", "disk": "00000000-0000-0000-0000-000000000004"}}"#;

    fn text(attrs: &[&str]) -> String {
        let mut out = Vec::new();
        write(&resource(), attrs, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn bytes_and_values_say_the_same() {
        assert_eq!(text(&[]), WHOLE);
        let Value::Object(entries) = json::parse(WHOLE.as_bytes()).unwrap() else { panic!("an object") };
        for (name, value) in entries {
            assert_eq!(field(&resource(), &name), (name != "metrics").then_some(value), "{name}");
        }
        assert_eq!(field(&resource(), "foo"), None);
    }

    #[test]
    fn only_what_is_asked_for_is_shown() {
        assert_eq!(
            text(&["s", "id", "foo"]),
            r#"{"id": "00000000-0000-0000-0000-000000000001", "s": "\u00e9"}"#
        );
        assert_eq!(text(&["foo"]), "{}");
        let bare = Arc::new(Resource { metrics: Arc::default(), ..resource() });
        let ReplyBody::Whole(Some(list)) = list(vec![bare.clone(), bare], vec!["metrics".to_owned()]) else {
            panic!("it is short")
        };
        assert_eq!(list, r#"[{"metrics": {}}, {"metrics": {}}]"#);
    }

    #[test]
    fn a_metric_shows_neither_metrics_nor_attributes() {
        let Value::Object(entries) = shown_in_metric(&resource()) else { panic!("an object") };
        let names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), 12);
        assert!(!names.iter().any(|name| ["metrics", "b", "x"].contains(name)), "{names:?}");
    }
}
