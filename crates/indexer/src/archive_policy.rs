//! Archive policies in the index.

use std::sync::Arc;

use async_trait::async_trait;
use gnudi_model::{ArchivePolicy, ArchivePolicyItem};

use crate::IndexerError;

#[async_trait]
pub trait ArchivePolicies {
    async fn create_archive_policy(&self, policy: ArchivePolicy) -> Result<(), IndexerError>;

    async fn archive_policy(&self, name: &str) -> Result<Option<Arc<ArchivePolicy>>, IndexerError>;

    /// By name.
    async fn archive_policies(&self) -> Result<Vec<Arc<ArchivePolicy>>, IndexerError>;

    /// New points for the same granularities, and a new back window where one is given; returns the policy as it is then.
    async fn update_archive_policy(
        &self,
        name: &str,
        definition: Vec<ArchivePolicyItem>,
        back_window: Option<u64>,
    ) -> Result<Arc<ArchivePolicy>, IndexerError>;

    /// Refused while a metric or a rule names the policy.
    async fn delete_archive_policy(&self, name: &str) -> Result<(), IndexerError>;
}
