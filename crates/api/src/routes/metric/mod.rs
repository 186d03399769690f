//! `/v1/metric`

mod create;
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

use gnudi_model::{ArchivePolicy, Metric};

use crate::json::Value;

/// How an answer shows a metric's resource: by its id, or in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResourceForm {
    Id,
    Whole,
}

/// A metric as the API shows it; its policy by name, or in full where it is given.
fn shown(metric: &Metric, policy: Option<&ArchivePolicy>, resource: ResourceForm) -> Value {
    let (user, project) = metric.creator.split_once(':').unwrap_or((&metric.creator, ""));
    let text = |text: &Option<gnudi_model::Text>| Value::from(text.as_ref().map(ToString::to_string));
    Value::object([
        ("id", metric.id.to_string().into()),
        ("creator", metric.creator.to_string().into()),
        ("name", text(&metric.name)),
        ("unit", text(&metric.unit)),
        match resource {
            ResourceForm::Id => ("resource_id", metric.resource_id.map(|id| id.to_string()).into()),
            // Resources come with a later version; no metric has one yet.
            ResourceForm::Whole => ("resource", Value::Null),
        },
        match policy {
            Some(policy) => ("archive_policy", super::archive_policy::shown(policy)),
            None => ("archive_policy_name", metric.archive_policy_name.to_string().into()),
        },
        ("created_by_user_id", user.into()),
        ("created_by_project_id", project.into()),
    ])
}
