//! The store's state, and the metrics of its shards.

use async_trait::async_trait;
use futures_util::future::try_join_all;
use gnudi_model::MetricId;

use super::{ObjectAggregates, format};
use crate::aggregates::{Movable, Result, StoreState};

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
        let lists = self.shards.iter().map(|shard| self.in_time(self.requests.list_metrics(shard)));
        Ok(try_join_all(lists).await?.concat())
    }
}
