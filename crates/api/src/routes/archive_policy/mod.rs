//! `/v1/archive_policy`

mod create;
mod definition;
mod delete;
mod list;
mod show;
mod update;

pub use create::create;
pub use delete::delete;
pub use list::list;
pub use show::show;
pub use update::update;

use gnudi_model::{ArchivePolicy, Timespan};

use crate::json::Value;

/// A policy as the API shows it.
pub fn shown(policy: &ArchivePolicy) -> Value {
    let item = |item: &gnudi_model::ArchivePolicyItem| {
        Value::object([
            ("timespan", item.timespan.map(Timespan::to_python_text).into()),
            ("granularity", item.granularity.to_python_text().into()),
            ("points", item.points.into()),
        ])
    };
    let methods: Vec<String> = policy.aggregation_methods.iter().map(ToString::to_string).collect();
    Value::object([
        ("name", policy.name.as_str().into()),
        ("back_window", policy.back_window.into()),
        ("definition", Value::Array(policy.definition.iter().map(item).collect())),
        ("aggregation_methods", methods.into()),
    ])
}
