//! What a move needs of the store ([`Movable`]): its state, and the list of each shard's metrics.

use std::collections::BTreeSet;

use async_trait::async_trait;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use gnudi_model::MetricId;
use uuid::Uuid;

use super::{
    ObjectAggregates,
    chain::Shard,
    format,
    manifest::Manifest,
    requests::Requests,
    table::{STRETCH_BYTES, Stop},
};
use crate::aggregates::{
    Movable, Result, StoreState,
    table::entry::{Kind, Piece, walk},
};

/// Shards listed at once. A listing reads all heads of its shard.
const LISTED_AT_ONCE: usize = 4;

#[async_trait]
impl Movable for ObjectAggregates {
    fn place(&self) -> String {
        self.requests.objects.place()
    }

    async fn identity(&self) -> Result<Uuid> {
        self.in_time(format::identity(&self.requests)).await
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

impl Requests {
    /// The metrics of a shard that have a head.
    async fn list_metrics(&self, shard: &Shard) -> Result<Vec<MetricId>> {
        self.of_newest(shard, |manifest, last| async move { self.metrics(&manifest, last).await }).await
    }

    async fn metrics(&self, manifest: &Manifest, last: bool) -> Result<Vec<MetricId>, Stop> {
        let mut found = BTreeSet::new();
        for run in manifest.runs.with_heads() {
            let mut heads = Vec::new();
            for object in &run.tables {
                let table = self.table(object, last).await?;
                let mut page = 0;
                while page < table.index.pages.len() {
                    let end = table.index.pages_within(page, STRETCH_BYTES);
                    let pages = self.read_pages(&table, page, end).await?;
                    page = end + 1;
                    for piece in walk(&pages.bytes) {
                        let Piece::Entry(_, header) = piece else { continue };
                        let metric = header.key.metric();
                        if header.key.is_head() && header.kind != Kind::Tombstone {
                            heads.push(metric);
                        } else if header.key.is_head() || header.key.is_deletion() {
                            found.remove(&metric);
                        }
                    }
                }
            }
            // A run's head is newer than its deletion.
            found.extend(heads);
        }
        Ok(found.into_iter().collect())
    }
}
