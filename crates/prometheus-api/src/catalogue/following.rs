//! Keeps the catalogue up to date with the index.
//!
//! 1. Changes are logged after they are committed, and the index is read only after changes were taken from
//!    the log: the last read of a metric is never older than the last change taken.
//! 2. One task at a time takes and applies changes. A request waits until all changes logged before it are
//!    applied, so it sees everything that this process has acknowledged.
//! 3. The subscription precedes the load, so changes during the load are applied after it.
//! 4. A change names the objects to read, never their new state: it may come twice, late and in any order.
//! 5. Changes that could not be applied are returned to the log; a failed load is repeated.
//!
//! Example. At 0.0 s a request subscribes and starts the load. At 0.5 s another process deletes metric m,
//! which was loaded at 0.3 s; at 0.6 s the change arrives through the index. At 0.9 s the load ends. The
//! request takes the change, looks m up, finds none and removes it. Only then it selects.

use std::collections::HashSet;

use gnudi_indexer::{Changes, IndexerError, MetricPages, Subscription, Which};
use gnudi_model::MetricId;
use gnudi_prometheus::index::Index;
use gnudi_server::without_blocking_tasks;
use uuid::Uuid;

use super::{Catalogue, Shared, reading};

/// The batch size for loading metrics into the catalogue.
const METRICS_AT_ONCE: usize = 10_000;
/// The same for resources, each with all its metrics.
const RESOURCES_AT_ONCE: usize = 100;

/// The subscription to the change log; `None` without a log, so that each request must reload everything.
pub(super) struct Following(Option<Subscription>);

impl Catalogue {
    /// Returns once all changes logged before are applied.
    pub(super) async fn follow(&self) -> Result<(), IndexerError> {
        if let Ok(following) = self.shared.following.try_lock()
            && let Some(Following(Some(subscription))) = &*following
            && !subscription.has_changes()
        {
            return Ok(());
        }
        // A task of its own survives the request: others wait for its result, and the next one would have to
        // start over.
        let shared = self.shared.clone();
        let task = tokio::spawn(async move { shared.catch_up().await });
        task.await.unwrap_or_else(|error| Err(IndexerError::stopping(error)))
    }
}

impl Shared {
    async fn catch_up(&self) -> Result<(), IndexerError> {
        let mut following = self.following.lock().await;
        let is_loaded = matches!(&*following, Some(Following(Some(_))));
        if !is_loaded {
            let log = self.engine.indexer().change_log();
            let next = Following(log.map(gnudi_indexer::ChangeLog::subscribe));
            self.load().await?;
            *following = Some(next);
        }
        // After a load: changes made during it.
        let Some(Following(Some(subscription))) = &*following else { return Ok(()) };
        let changes = subscription.take();
        let applied = self.apply(&changes).await;
        if applied.is_err() {
            subscription.give_back(changes);
        }
        applied
    }

    async fn apply(&self, changes: &Changes) -> Result<(), IndexerError> {
        let Changes { created, metrics, resources } = changes;
        let (Which::These(changed), Which::These(resources)) = (metrics, resources) else {
            return self.load().await;
        };
        let unknown: Vec<MetricId> = match created {
            Which::All => {
                self.load_unknown().await?;
                Vec::new()
            }
            Which::These(created) => {
                let series = self.index();
                created.iter().copied().map(MetricId).filter(|id| !series.contains(*id)).collect()
            }
        };
        let changed: HashSet<MetricId> = changed.iter().copied().map(MetricId).chain(unknown).collect();
        let changed: Vec<MetricId> = changed.into_iter().collect();
        for ids in changed.chunks(METRICS_AT_ONCE) {
            self.look_at_metrics(ids).await?;
        }
        let resources: HashSet<Uuid> = resources.iter().copied().collect();
        let resources: Vec<Uuid> = resources.into_iter().collect();
        for ids in resources.chunks(RESOURCES_AT_ONCE) {
            // A metric that left its resource has a change of its own.
            let read = reading::of_resources(self.engine.indexer(), ids).await?;
            self.change(|series| series.put(&read.series()));
        }
        Ok(())
    }

    /// Changes the index. That may wait for a long search.
    fn change<T>(&self, change: impl FnOnce(&mut Index) -> T) -> T {
        without_blocking_tasks(|| change(&mut self.series.write()))
    }

    async fn look_at_metrics(&self, ids: &[MetricId]) -> Result<(), IndexerError> {
        let found = match self.engine.indexer().metrics(ids).await {
            // Listings leave it out.
            Err(IndexerError::DamagedMetric { .. }) => return self.load().await,
            found => found?,
        };
        let missing = ids.iter().zip(&found).filter(|(_, metric)| metric.is_none());
        let missing: Vec<MetricId> = missing.map(|(id, _)| *id).collect();
        let read = reading::of_metrics(self.engine.indexer(), found.into_iter().flatten().collect()).await?;
        self.change(|series| {
            series.remove(&missing);
            series.put(&read.series());
        });
        Ok(())
    }

    /// Loads all metrics, and removes those that no longer exist.
    async fn load(&self) -> Result<(), IndexerError> {
        let start = std::time::Instant::now();
        let mut listed: HashSet<MetricId> = HashSet::new();
        let mut pages = MetricPages::new(METRICS_AT_ONCE);
        while let Some(page) = pages.next(self.engine.indexer()).await? {
            listed.extend(page.iter().map(|metric| metric.id));
            let read = reading::of_metrics(self.engine.indexer(), page).await?;
            self.change(|series| series.put(&read.series()));
        }
        let count = self.change(|series| {
            let gone: Vec<MetricId> = series.metrics().filter(|id| !listed.contains(id)).collect();
            series.remove(&gone);
            series.len()
        });
        let took = start.elapsed().as_millis();
        tracing::debug!(series = count, milliseconds = took, "the catalogue of series was loaded");
        Ok(())
    }

    /// Loads the metrics that the catalogue lacks: there are too many new ones to list in the log.
    async fn load_unknown(&self) -> Result<(), IndexerError> {
        let mut pages = MetricPages::new(METRICS_AT_ONCE);
        while let Some(mut page) = pages.next(self.engine.indexer()).await? {
            {
                let series = self.index();
                page.retain(|metric| !series.contains(metric.id));
            }
            let read = reading::of_metrics(self.engine.indexer(), page).await?;
            self.change(|series| series.put(&read.series()));
        }
        Ok(())
    }
}
