//! The initial contents of a new index.

use std::collections::BTreeSet;

use gnudi_model::{AggregationMethod, ArchivePolicy, ArchivePolicyRule};

use crate::{Indexer, IndexerError, Result};

/// Whether the index has neither policies nor rules: then a server creates the defaults.
pub async fn has_no_archive_policies(indexer: &dyn Indexer) -> Result<bool> {
    Ok(indexer.archive_policies().await?.is_empty() && indexer.archive_policy_rules().await?.is_empty())
}

/// Creates those of the policies `bool`, `low`, `medium`, `high` with the methods, and of the rule `default`: `*` ->
/// `low`, that do not exist. May be repeated, and called by several processes at once.
pub async fn create_default_archive_policies(
    indexer: &dyn Indexer,
    methods: &BTreeSet<AggregationMethod>,
) -> Result<()> {
    for policy in ArchivePolicy::defaults(methods) {
        match indexer.create_archive_policy(policy).await {
            Ok(()) | Err(IndexerError::ArchivePolicyAlreadyExists(_)) => {}
            Err(error) => return Err(error),
        }
    }
    match indexer.create_archive_policy_rule(ArchivePolicyRule::new("default", "*", "low")).await {
        Ok(()) | Err(IndexerError::ArchivePolicyRuleAlreadyExists(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
