//! Removes the data, then the index entries, of deleted metrics. Each process does so for its own units.

use std::collections::BTreeMap;

use gnudi_model::{MetricId, Sack};

use crate::{Engine, Result, figures::Figures};

impl Engine {
    /// Removes the deleted metrics of this process's units, in batches of about `batch`, until none are left
    /// or `go_on` returns false; returns their number. The workers drop their waiting measures, since they no
    /// longer find the metric.
    pub async fn expunge(&self, batch: usize, go_on: impl Fn() -> bool) -> Result<usize> {
        let mut removed = 0;
        let mut after = None;
        while go_on() {
            // Page by page: other processes' metrics must not hide this process's own.
            let page = self.indexer.deleted_metrics(after, batch).await?;
            let Some(last) = page.last() else { break };
            after = Some(*last);
            removed += self.expunge_own(&page).await?;
            if page.len() < batch {
                break;
            }
        }
        Ok(removed)
    }

    async fn expunge_own(&self, metrics: &[MetricId]) -> Result<usize> {
        let units = self.incoming.numbering().units();
        let mut by_unit: BTreeMap<Sack, Vec<MetricId>> = BTreeMap::new();
        for &metric in metrics {
            by_unit.entry(Sack::of(metric, units)).or_default().push(metric);
        }
        let mut removed = 0;
        for (unit, metrics) in by_unit {
            let Some(unit) = self.units.get(unit) else { continue };
            // A pass that began before the deletion may still write the metric's head: wait for it. The fence
            // stopped passes of earlier owners.
            let Some(_owned) = unit.lock().await else { continue };
            for removed in self.store.delete(unit.fence, &metrics).await {
                removed?;
            }
            self.indexer.expunge_metrics(&metrics).await?;
            Figures::add(&self.figures().metrics_expunged, metrics.len() as u64);
            removed += metrics.len();
        }
        Ok(removed)
    }
}
