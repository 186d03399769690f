//! How the catalogue follows the index.
//!
//! 1. Changes are noted after they are committed, and the index is asked only after changes were taken: whatever was read last of a
//!    metric is not older than the last change that was taken.
//! 2. One task at a time takes changes and applies them. A request goes on only after everything was applied that had been noted when
//!    it came. So it finds what this process had answered before.
//! 3. The subscription is older than the load. What changes while metrics are listed is looked at again.
//! 4. Each change names what to look at, never what it is now: changes may come twice, late and in any order.
//! 5. What was taken and could not be applied is given back; a load that failed is begun again.
//!
//! Example. At 0.0 s a request subscribes and lists. At 0.5 s another process deletes metric m, which was listed at 0.3 s; at 0.6 s the
//! feed of the index tells it. At 0.9 s the list has come to its end, and the request takes the change, asks for m, and finds none: m is
//! removed. Only now it selects.

use std::collections::HashSet;

use gnudi_indexer::{Changes, IndexerError, Subscription, Which};
use gnudi_model::MetricId;
use uuid::Uuid;

use super::{
    Catalogue, Shared,
    reading::{self, Pages},
};

/// How many metrics are read, and put into the catalogue, at once.
const METRICS_AT_ONCE: usize = 10_000;
/// As many resources, which come with all of their metrics.
const RESOURCES_AT_ONCE: usize = 100;

/// Where the changes come from; `None` where nobody notes them, so that each request must look at everything.
pub(super) struct Following(Option<Subscription>);

impl Catalogue {
    /// Returns when the catalogue has all that was noted before.
    pub(super) async fn follow(&self) -> Result<(), IndexerError> {
        if let Ok(following) = self.shared.following.try_lock()
            && let Some(Following(Some(subscription))) = &*following
            && !subscription.has_changes()
        {
            return Ok(());
        }
        // Goes on where the request does not: others wait for it, and the next one would begin again.
        let shared = self.shared.clone();
        let task = tokio::spawn(async move { shared.catch_up().await });
        match task.await {
            Ok(outcome) => outcome,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
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
        // After a load: what has changed meanwhile.
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
                let series = self.series.read();
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
            // Metrics that a resource lost are told by themselves.
            let read = reading::of_resources(self.engine.indexer(), ids).await?;
            self.series.write().put(&read.series());
        }
        Ok(())
    }

    async fn look_at_metrics(&self, ids: &[MetricId]) -> Result<(), IndexerError> {
        let found = self.engine.indexer().metrics(ids).await?;
        let missing = ids.iter().zip(&found).filter(|(_, metric)| metric.is_none());
        let missing: Vec<MetricId> = missing.map(|(id, _)| *id).collect();
        let read = reading::of_metrics(self.engine.indexer(), found.into_iter().flatten().collect()).await?;
        let mut series = self.series.write();
        series.remove(&missing);
        series.put(&read.series());
        Ok(())
    }

    /// Looks at all metrics, and forgets those that are not there any more.
    async fn load(&self) -> Result<(), IndexerError> {
        let start = std::time::Instant::now();
        let mut listed: HashSet<MetricId> = HashSet::new();
        let mut pages = Pages::new(METRICS_AT_ONCE);
        while let Some(page) = pages.next(self.engine.indexer()).await? {
            listed.extend(page.iter().map(|metric| metric.id));
            let read = reading::of_metrics(self.engine.indexer(), page).await?;
            self.series.write().put(&read.series());
        }
        let mut series = self.series.write();
        let gone: Vec<MetricId> = series.metrics().filter(|id| !listed.contains(id)).collect();
        series.remove(&gone);
        let (count, took) = (series.len(), start.elapsed().as_millis());
        tracing::debug!(series = count, milliseconds = took, "the catalogue of series was loaded");
        Ok(())
    }

    /// Looks at those metrics that the catalogue has not: there are too many new ones to name.
    async fn load_unknown(&self) -> Result<(), IndexerError> {
        let mut pages = Pages::new(METRICS_AT_ONCE);
        while let Some(mut page) = pages.next(self.engine.indexer()).await? {
            {
                let series = self.series.read();
                page.retain(|metric| !series.contains(metric.id));
            }
            let read = reading::of_metrics(self.engine.indexer(), page).await?;
            self.series.write().put(&read.series());
        }
        Ok(())
    }
}
