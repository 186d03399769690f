//! The store's state, and the metrics of its shards.

use async_trait::async_trait;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use gnudi_model::MetricId;

use super::{ObjectAggregates, format};
use crate::aggregates::{Movable, Result, StoreState};

/// Shards listed at once. A listing reads all heads of its shard.
const LISTED_AT_ONCE: usize = 4;

#[async_trait]
impl Movable for ObjectAggregates {
    fn place(&self) -> String {
        self.requests.objects.place()
    }

    async fn state(&self) -> Result<StoreState> {
        self.in_time(format::state(&self.requests)).await
    }

    async fn set_state(&self, state: StoreState) -> Result<()> {
        self.in_time(format::set_state(&self.requests, state)).await
    }

    async fn list_metrics(&self) -> Result<Vec<MetricId>> {
        // Only each request has a timeout: a shard may have any number of heads.
        let lists: Vec<_> = self.shards.iter().map(|shard| self.requests.list_metrics(shard)).collect();
        let lists: Vec<Vec<MetricId>> = stream::iter(lists).buffered(LISTED_AT_ONCE).try_collect().await?;
        Ok(lists.concat())
    }
}
