//! Lists a shard's metrics that have a head.

use std::collections::BTreeSet;

use gnudi_model::MetricId;

use super::{
    chain::Shard,
    manifest::Manifest,
    requests::Requests,
    table::{STRETCH_BYTES, Stop},
};
use crate::aggregates::{
    Result,
    table::entry::{Kind, Piece, walk},
};

impl Requests {
    pub async fn list_metrics(&self, shard: &Shard) -> Result<Vec<MetricId>> {
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
