//! `/v1/archive_policy_rule`

mod create;
mod delete;
mod list;
mod show;
mod update;

pub use create::create;
pub use delete::delete;
pub use list::list;
pub use show::show;
pub use update::update;

use gnudi_indexer::IndexerError;
use gnudi_model::ArchivePolicyRule;

use crate::{call::Call, error::ApiError, json::Value};

/// A rule as the API shows it.
pub fn shown(rule: &ArchivePolicyRule) -> Value {
    Value::object([
        ("name", rule.name.as_str().into()),
        ("archive_policy_name", rule.archive_policy_name.as_str().into()),
        ("metric_pattern", rule.metric_pattern.as_str().into()),
    ])
}

/// The rule that the path names.
async fn find(call: &Call<'_>) -> Result<ArchivePolicyRule, ApiError> {
    let rule = call.app.engine().indexer().archive_policy_rule(call.parameter("name")).await?;
    rule.ok_or_else(|| IndexerError::NoSuchArchivePolicyRule(call.parameter("name").to_owned()).into())
}
