//! Listings of metrics and resources as tables, one row per item.

use std::{collections::HashMap, sync::Arc};

use gnudi_arrow::{
    Compression,
    write::{Cells, Table},
};
use gnudi_model::{AttributeValue, Metric, Resource, Text, Timestamp};

fn texts<'t>(texts: impl Iterator<Item = Option<&'t str>>) -> Cells {
    Cells::Texts(texts.map(|text| text.map(str::to_owned)).collect())
}

fn creator(creator: &str) -> (&str, &str) {
    creator.split_once(':').unwrap_or((creator, ""))
}

/// Metrics, with their policies' names and their resources' ids.
pub fn metrics(metrics: &[Arc<Metric>], compression: Compression) -> Vec<u8> {
    let mut table = Table::default();
    let mut column = |name: &str, of: &dyn Fn(&Metric) -> Option<String>| {
        table.column(name, Cells::Texts(metrics.iter().map(|metric| of(metric)).collect()));
    };
    let optional = |text: &Option<Text>| text.as_ref().map(ToString::to_string);
    column("id", &|metric| Some(metric.id.to_string()));
    column("creator", &|metric| Some(metric.creator.to_string()));
    column("name", &|metric| optional(&metric.name));
    column("unit", &|metric| optional(&metric.unit));
    column("resource_id", &|metric| metric.resource_id.map(|id| id.to_string()));
    column("archive_policy_name", &|metric| Some(metric.archive_policy_name.to_string()));
    column("created_by_user_id", &|metric| Some(creator(&metric.creator).0.to_owned()));
    column("created_by_project_id", &|metric| Some(creator(&metric.creator).1.to_owned()));
    table.into_stream(compression)
}

/// Resources, with the fields named in `attrs`, or all.
pub fn resources(resources: &[Arc<Resource>], attrs: &[&str], compression: Compression) -> Vec<u8> {
    let mut table = Table::default();
    let mut column = |name: &str, cells: Cells| {
        if attrs.is_empty() || attrs.contains(&name) {
            table.column(name, cells);
        }
    };
    let all = || resources.iter();
    let times =
        |of: &dyn Fn(&Resource) -> Option<Timestamp>| Cells::Times(all().map(|one| of(one)).collect());
    let ids = all().map(|resource| Some(resource.id.to_string()));
    column("id", Cells::Texts(ids.collect()));
    column("creator", texts(all().map(|resource| Some(&*resource.creator))));
    column("started_at", times(&|resource| Some(resource.started_at)));
    column("revision_start", times(&|resource| Some(resource.revision_start)));
    column("ended_at", times(&|resource| resource.ended_at));
    column("user_id", texts(all().map(|resource| resource.user_id.as_deref())));
    column("project_id", texts(all().map(|resource| resource.project_id.as_deref())));
    column("original_resource_id", texts(all().map(|resource| Some(&*resource.original_resource_id))));
    column("type", texts(all().map(|resource| Some(&*resource.resource_type))));
    for name in attribute_names(resources) {
        column(name, attributes(resources, name));
    }
    column("revision_end", times(&|resource| resource.revision_end));
    column("created_by_user_id", texts(all().map(|resource| Some(creator(&resource.creator).0))));
    column("created_by_project_id", texts(all().map(|resource| Some(creator(&resource.creator).1))));
    let metrics = |resource: &Arc<Resource>| {
        let entry = |metric: &Arc<Metric>| {
            (metric.name.as_deref().unwrap_or_default().to_owned(), metric.id.to_string())
        };
        resource.metrics.iter().map(entry).collect()
    };
    column("metrics", Cells::Maps(all().map(metrics).collect()));
    table.into_stream(compression)
}

/// The union of the resources' attribute names, in order of first appearance.
fn attribute_names(resources: &[Arc<Resource>]) -> Vec<&str> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut names = Vec::new();
    for name in resources.iter().flat_map(|resource| resource.attributes.keys()) {
        places.entry(name).or_insert_with(|| {
            names.push(&**name);
            names.len() - 1
        });
    }
    names
}

/// One attribute of all resources. If its kind differs between types, the values are converted to texts.
fn attributes(resources: &[Arc<Resource>], name: &str) -> Cells {
    let values = || resources.iter().map(|resource| resource.attributes.get(name));
    let present = || values().flatten().filter(|value| !matches!(value, AttributeValue::Null));
    macro_rules! all {
        ($kind:pat) => {
            present().next().is_some() && present().all(|value| matches!(value, $kind))
        };
    }
    macro_rules! cells {
        ($cells:path, $kind:path) => {
            $cells(
                values()
                    .map(|value| match value {
                        Some($kind(value)) => Some(*value),
                        _ => None,
                    })
                    .collect(),
            )
        };
    }
    if all!(AttributeValue::Number(_)) {
        return cells!(Cells::Numbers, AttributeValue::Number);
    }
    if all!(AttributeValue::Bool(_)) {
        return cells!(Cells::Flags, AttributeValue::Bool);
    }
    if all!(AttributeValue::Datetime(_)) {
        return cells!(Cells::Times, AttributeValue::Datetime);
    }
    let text = |value: &AttributeValue| match value {
        AttributeValue::Null => None,
        AttributeValue::String(text) => Some(text.to_string()),
        AttributeValue::Uuid(id) => Some(id.to_string()),
        AttributeValue::Number(number) => Some(number.to_string()),
        AttributeValue::Bool(flag) => Some(flag.to_string()),
        AttributeValue::Datetime(time) => Some(time.to_iso_micros()),
    };
    Cells::Texts(values().map(|value| value.and_then(text)).collect())
}
