//! What other processes have changed in an index that they share.

use async_trait::async_trait;

use crate::{Result, Touched};

/// One transaction's changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEntry {
    /// One more than that of the transaction before it, in the order of their commits.
    pub number: i64,
    /// Whether this process wrote it.
    pub is_own: bool,
    pub touched: Touched,
}

/// An index that says what was changed.
#[async_trait]
pub trait Feed: Send + Sync + 'static {
    /// Whether others can write to the index at all.
    fn is_shared(&self) -> bool;

    /// The number of the latest entry.
    async fn latest(&self) -> Result<i64>;

    /// Entries from this number on, in order, and no more than can be held at once. One that is missing was removed, or
    /// belonged to a past that the database knows nothing of any more.
    async fn entries_from(&self, number: i64) -> Result<Vec<FeedEntry>>;
}
