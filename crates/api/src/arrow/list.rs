//! Listings of metrics and resources as tables, one row per item.

use std::{collections::HashMap, sync::Arc};

use gnudi_access::created_by;
use gnudi_app::{ApiError, Result};
use gnudi_arrow::{
    Compression,
    write::{Cells, Table},
};
use gnudi_model::{AttributeValue, Metric, Resource, Text, Timestamp};

/// The maximum number of metrics in a table, alone or in its resources: a table is made as a whole, which takes some 200
/// bytes each.
const METRICS_MAX: usize = 500_000;

fn check(metrics: usize) -> Result<()> {
    if metrics > METRICS_MAX {
        let detail = format!("The table would have more than {METRICS_MAX} metrics: request JSON, or fewer");
        return Err(ApiError::too_large(detail));
    }
    Ok(())
}

fn texts<'t>(texts: impl Iterator<Item = Option<&'t str>>) -> Cells {
    Cells::Texts(texts.map(|text| text.map(str::to_owned)).collect())
}

/// Metrics, with their policies' names and their resources' ids.
///
/// # Errors
/// 413 beyond [`METRICS_MAX`].
pub fn metrics(metrics: &[Arc<Metric>], compression: Compression) -> Result<Vec<u8>> {
    check(metrics.len())?;
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
    column("created_by_user_id", &|metric| Some(created_by(&metric.creator).0.to_owned()));
    column("created_by_project_id", &|metric| Some(created_by(&metric.creator).1.to_owned()));
    Ok(table.into_stream(compression))
}

/// Resources, with the fields named in `attrs`, or all.
///
/// # Errors
/// 413 beyond [`METRICS_MAX`].
pub fn resources(resources: &[Arc<Resource>], attrs: &[&str], compression: Compression) -> Result<Vec<u8>> {
    let has_metrics = attrs.is_empty() || attrs.contains(&"metrics");
    if has_metrics {
        check(resources.iter().map(|resource| resource.metrics.len()).sum())?;
    }
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
    column("created_by_user_id", texts(all().map(|resource| Some(created_by(&resource.creator).0))));
    column("created_by_project_id", texts(all().map(|resource| Some(created_by(&resource.creator).1))));
    let metrics = |resource: &Arc<Resource>| {
        let entry = |metric: &Arc<Metric>| {
            (metric.name.as_deref().unwrap_or_default().to_owned(), metric.id.to_string())
        };
        resource.metrics.iter().map(entry).collect()
    };
    if has_metrics {
        column("metrics", Cells::Maps(all().map(metrics).collect()));
    }
    Ok(table.into_stream(compression))
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
    Cells::Texts(values().map(|value| Some(value?.text()?.into_owned())).collect())
}

#[cfg(test)]
mod tests {
    use gnudi_model::MetricId;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_table_has_a_bounded_number_of_metrics() {
        let metric = Arc::new(Metric::new(MetricId(Uuid::from_u128(1))));
        let resource = |metrics: usize| {
            Arc::new(Resource {
                metrics: vec![metric.clone(); metrics].into(),
                ..Resource::new(Uuid::from_u128(2), "r")
            })
        };
        let few = [resource(2), resource(3)];
        assert!(resources(&few, &[], Compression::None).is_ok());
        assert!(metrics(&few[0].metrics, Compression::None).is_ok());
        let many = [resource(METRICS_MAX / 2), resource(METRICS_MAX / 2 + 1)];
        let refused =
            |attrs: &[&str]| resources(&many, attrs, Compression::None).err().map(|error| error.status);
        assert_eq!(refused(&[]).map(|status| status.as_u16()), Some(413));
        assert_eq!(refused(&["id", "metrics"]).map(|status| status.as_u16()), Some(413));
        assert_eq!(refused(&["id"]), None);
    }
}
