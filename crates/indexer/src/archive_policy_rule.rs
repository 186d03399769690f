//! Archive policy rules in the index.

use async_trait::async_trait;
use gnudi_model::{ArchivePolicyRule, python::fnmatch::fnmatch};

use crate::{IndexerError, Result};

#[async_trait]
pub trait ArchivePolicyRules {
    async fn create_archive_policy_rule(&self, rule: ArchivePolicyRule) -> Result<()>;

    async fn archive_policy_rule(&self, name: &str) -> Result<Option<ArchivePolicyRule>>;

    /// In matching order: pattern descending, then name ascending.
    async fn archive_policy_rules(&self) -> Result<Vec<ArchivePolicyRule>>;

    async fn rename_archive_policy_rule(&self, name: &str, new_name: &str) -> Result<ArchivePolicyRule>;

    async fn delete_archive_policy_rule(&self, name: &str) -> Result<()>;

    /// The policy of the first rule that matches the name. A damaged rule fails those names for which no rule before it
    /// matches, if it matches or its pattern is lost: a rule behind it could be the wrong one.
    async fn archive_policy_name_for_metric(&self, metric_name: &str) -> Result<String> {
        first_match(&self.archive_policy_rules().await?, metric_name)
    }
}

/// The policy of the first rule that matches; the rules must be in matching order.
pub(crate) fn first_match(rules: &[ArchivePolicyRule], metric_name: &str) -> Result<String> {
    rules
        .iter()
        .find(|rule| fnmatch(metric_name, &rule.metric_pattern))
        .map(|rule| rule.archive_policy_name.clone())
        .ok_or_else(|| IndexerError::NoArchivePolicyRuleMatch(metric_name.to_owned()))
}
