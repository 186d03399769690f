//! Removes the data, then the index entries, of deleted metrics. Each process does so for its own units.

use std::collections::BTreeMap;

use gnudi_model::{MetricId, Sack};

use crate::{Engine, EngineError, Result, figures::Figures};

/// What a round has done so far.
#[derive(Default)]
struct Round {
    removed: usize,
    failed: usize,
    first_error: Option<EngineError>,
}

impl Engine {
    /// Removes the deleted metrics of this process's units, in batches of about `batch`, until none are left
    /// or `go_on` returns false; returns their number. The workers drop their waiting measures, since they no
    /// longer find the metric. A metric that cannot be removed is left to the next round; the first one's error is
    /// returned after all others are removed.
    pub async fn expunge(&self, batch: usize, go_on: impl Fn() -> bool) -> Result<usize> {
        let mut round = Round::default();
        let mut after = None;
        while go_on() {
            // Page by page: other processes' metrics must not hide this process's own.
            let page = self.indexer.deleted_metrics(after, batch).await?;
            let Some(last) = page.last() else { break };
            after = Some(*last);
            self.expunge_own(&page, &mut round).await?;
            if page.len() < batch {
                break;
            }
        }
        let Round { removed, failed, first_error } = round;
        let Some(error) = first_error else { return Ok(removed) };
        tracing::warn!(removed, failed, "some deleted metrics are left to the next round");
        Err(error)
    }

    /// Fails if a store does not respond: then the others would fail, too.
    async fn expunge_own(&self, metrics: &[MetricId], round: &mut Round) -> Result<()> {
        let units = self.incoming.numbering().units();
        let mut by_unit: BTreeMap<Sack, Vec<MetricId>> = BTreeMap::new();
        for &metric in metrics {
            by_unit.entry(Sack::of(metric, units)).or_default().push(metric);
        }
        for (unit, metrics) in by_unit {
            let Some(unit) = self.units.get(unit) else { continue };
            // A pass that began before the deletion may still write the metric's head: wait for it. The fence
            // stopped passes of earlier owners.
            let Some(mut progress) = unit.lock().await else { continue };
            progress.deferred.remove(&metrics);
            let mut gone = Vec::with_capacity(metrics.len());
            for (metric, deleted) in metrics.iter().zip(self.store.delete(unit.fence, &metrics).await) {
                match deleted.map_err(EngineError::from) {
                    Ok(()) => gone.push(*metric),
                    Err(error) if error.is_outage() => return Err(error),
                    Err(error) => {
                        round.failed += 1;
                        round.first_error.get_or_insert(error);
                    }
                }
            }
            if gone.is_empty() {
                continue;
            }
            self.indexer.expunge_metrics(&gone).await?;
            Figures::add(&self.figures().metrics_expunged, gone.len() as u64);
            round.removed += gone.len();
        }
        Ok(())
    }
}
