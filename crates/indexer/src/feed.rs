//! The feed of changes in an index shared by several processes.

use async_trait::async_trait;

use crate::{Result, Touched};

/// The changes of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEntry {
    /// Contiguous in the order of commits.
    pub number: i64,
    pub touched: Touched,
}

/// An index with a feed of its changes.
#[async_trait]
pub trait Feed: Send + Sync + 'static {
    /// Whether other processes can write to the index.
    fn is_shared(&self) -> bool;

    /// The number of the latest entry.
    async fn latest(&self) -> Result<i64>;

    /// Entries from this number on, in order, up to a limit. Missing entries were removed, or were lost when the
    /// database was restored.
    async fn entries_from(&self, number: i64) -> Result<Vec<FeedEntry>>;
}
