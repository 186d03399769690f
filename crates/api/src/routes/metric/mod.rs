//! `/v1/metric`

mod create;
pub(crate) mod definition;
mod delete;
mod get_measures;
mod list;
mod post_measures;
mod show;

pub use create::create;
pub use delete::delete;
pub use get_measures::get_measures;
pub use list::list;
pub use post_measures::post_measures;
pub use show::show;

pub(crate) use get_measures::resample;

use std::{collections::HashMap, sync::Arc};

use gnudi_model::{ArchivePolicy, Metric, Resource};

use super::resource;
use crate::{call::Call, error::ApiError, json::Value};

/// How an answer shows a metric's resource: by its id, or in full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ResourceForm<'a> {
    Id,
    Whole(Option<&'a Resource>),
}

/// A metric as the API shows it; its policy by name, or in full where it is given.
pub(crate) fn shown(metric: &Metric, policy: Option<&ArchivePolicy>, resource: ResourceForm<'_>) -> Value {
    let (user, project) = metric.creator.split_once(':').unwrap_or((&metric.creator, ""));
    let text = |text: &Option<gnudi_model::Text>| Value::from(text.as_ref().map(ToString::to_string));
    Value::object([
        ("id", metric.id.to_string().into()),
        ("creator", metric.creator.to_string().into()),
        ("name", text(&metric.name)),
        ("unit", text(&metric.unit)),
        match resource {
            ResourceForm::Id => ("resource_id", metric.resource_id.map(|id| id.to_string()).into()),
            ResourceForm::Whole(resource) => ("resource", resource.map(resource::shown_in_metric).into()),
        },
        match policy {
            Some(policy) => ("archive_policy", super::archive_policy::shown(policy)),
            None => ("archive_policy_name", metric.archive_policy_name.to_string().into()),
        },
        ("created_by_user_id", user.into()),
        ("created_by_project_id", project.into()),
    ])
}

/// A list of metrics, with their policies in full and their resources by id.
pub(crate) async fn list_shown(call: &Call<'_>, metrics: &[Arc<Metric>]) -> Result<Value, ApiError> {
    let mut policies: HashMap<&str, Option<Arc<ArchivePolicy>>> = HashMap::new();
    for metric in metrics {
        let name = &*metric.archive_policy_name;
        if !policies.contains_key(name) {
            policies.insert(name, call.app.engine().indexer().archive_policy(name).await?);
        }
    }
    let shown = metrics
        .iter()
        .map(|metric| shown(metric, policies[&*metric.archive_policy_name].as_deref(), ResourceForm::Id));
    Ok(Value::Array(shown.collect()))
}
