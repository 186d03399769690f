//! Lists a shard's metrics that have a head, from the indexes of all its segments.

use std::collections::BTreeSet;

use gnudi_model::MetricId;

use super::{chain::Shard, manifest::Manifest, read::Stop, requests::Requests};
use crate::aggregates::{Result, entry::Kind, key::Key};

impl Requests {
    pub async fn list_metrics(&self, shard: &Shard) -> Result<Vec<MetricId>> {
        self.of_newest(shard, |manifest, last| async move { self.metrics(&manifest, last).await }).await
    }

    async fn metrics(&self, manifest: &Manifest, last: bool) -> Result<Vec<MetricId>, Stop> {
        let mut found = BTreeSet::new();
        for run in &manifest.runs {
            let mut heads = Vec::new();
            for part in &run.parts {
                let index = self.index(part, last).await?;
                for row in index.rows().take_while(|row| row.key.as_block().is_none()) {
                    let metric = row.key.metric();
                    if row.key == Key::head(metric) && row.kind != Kind::Tombstone {
                        heads.push(metric);
                    } else if row.key == Key::head(metric) || row.key == Key::deletion(metric) {
                        found.remove(&metric);
                    }
                }
            }
            // A run's head is newer than its deletion.
            found.extend(heads);
        }
        Ok(found.into_iter().collect())
    }
}
