//! The initial contents of a new index.

use std::collections::BTreeSet;

use gnudi_model::{AggregationMethod, ArchivePolicy, ArchivePolicyRule};

use crate::{Indexer, IndexerError, Result};

/// Whether the index has neither policies nor rules, damaged ones included: then a server creates the defaults.
pub async fn has_no_archive_policies(indexer: &dyn Indexer) -> Result<bool> {
    let has_none = match indexer.archive_policies().await {
        Ok(policies) if policies.is_empty() => {
            indexer.archive_policy_rules().await.map(|rules| rules.is_empty())
        }
        policies => policies.map(|_| false),
    };
    match has_none {
        Err(IndexerError::DamagedItem { .. }) => Ok(false),
        has_none => has_none,
    }
}

/// Creates those of the policies `bool`, `low`, `medium`, `high` with the methods, and of the rule `default`: `*` ->
/// `low`, that do not exist: all at once, since an index with some of them gets no others
/// ([`has_no_archive_policies`]). May be repeated, and called by several processes at once.
pub async fn create_default_archive_policies(
    indexer: &dyn Indexer,
    methods: &BTreeSet<AggregationMethod>,
) -> Result<()> {
    let rule = ArchivePolicyRule::new("default", "*", "low");
    indexer.create_missing_policies(ArchivePolicy::defaults(methods), vec![rule]).await
}
