//! Removes the data, then the index entry, of metrics that were deleted.

use std::collections::BTreeMap;

use gnudi_drivers::aggregates::Fence;
use gnudi_model::{MetricId, Sack, SackId};

use crate::{Engine, EngineError, figures::Figures};

impl Engine {
    /// Removes up to `limit` deleted metrics and returns how many they were. Measures of theirs that still wait are dropped
    /// by the workers, which no longer find the metric.
    pub async fn expunge(&self, limit: usize) -> Result<usize, EngineError> {
        let metrics = self.indexer.deleted_metrics(limit).await?;
        let units = self.incoming.numbering().units();
        let mut by_sack: BTreeMap<SackId, Vec<MetricId>> = BTreeMap::new();
        for &metric in &metrics {
            by_sack.entry(units.sack_of(metric)).or_default().push(metric);
        }
        for (sack, metrics) in by_sack {
            // A pass that began before the deletion may still write the metric's head: wait for it.
            let _owned = self.processor.lock(sack).await;
            let fence = Fence { sack: Sack { count: units, id: sack }, token: 0 };
            for removed in self.store.delete(fence, &metrics).await {
                removed?;
            }
            self.indexer.expunge_metrics(&metrics).await?;
            Figures::add(&self.figures().metrics_expunged, metrics.len() as u64);
        }
        Ok(metrics.len())
    }
}
