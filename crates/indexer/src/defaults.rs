//! The initial contents of a new index.

use std::collections::BTreeSet;

use gnudi_model::{AggregationMethod, ArchivePolicy, ArchivePolicyRule};

use crate::{Indexer, IndexerError, Result};

/// Creates the policies `bool`, `low`, `medium`, `high` with the methods and the rule `default`: `*` -> `low`, if the
/// index has neither policies nor rules; returns whether it did. Safe if several processes do so concurrently.
pub async fn create_default_archive_policies(
    indexer: &dyn Indexer,
    methods: &BTreeSet<AggregationMethod>,
) -> Result<bool> {
    if !indexer.archive_policies().await?.is_empty() || !indexer.archive_policy_rules().await?.is_empty() {
        return Ok(false);
    }
    for policy in ArchivePolicy::defaults(methods) {
        match indexer.create_archive_policy(policy).await {
            Ok(()) | Err(IndexerError::ArchivePolicyAlreadyExists(_)) => {}
            Err(error) => return Err(error),
        }
    }
    match indexer.create_archive_policy_rule(ArchivePolicyRule::new("default", "*", "low")).await {
        Ok(()) | Err(IndexerError::ArchivePolicyRuleAlreadyExists(_)) => Ok(true),
        Err(error) => Err(error),
    }
}
