//! Removes deleted metrics in batches; ends and deletes resources, and removes their history, if configured.

use std::sync::Arc;

use gnudi_model::Timestamp;
use tokio::{sync::watch, time::Instant};

use super::MetricdOptions;
use crate::{
    Engine,
    retention::{Activity, ClockTimes},
};

pub(super) async fn run(engine: Arc<Engine>, options: MetricdOptions, mut stopped: watch::Receiver<bool>) {
    let mut activity = options.metric_inactive_after.map(Activity::new);
    let began = Instant::now();
    while super::sleep(options.cleanup_delay, &mut stopped).await {
        // One process ends resources and sweeps for all; each removes the metrics of its own sacks.
        let first = engine.owns_first();
        let go_on = || !*stopped.borrow();
        if first {
            // Before removing metrics, which then includes those of the resources.
            let now = ClockTimes { at: (options.clock)(), up: began.elapsed() };
            retire(&engine, &options, activity.as_mut(), now, go_on).await;
        }
        if let Err(error) = engine.expunge(options.cleanup_batch_metrics, go_on).await {
            tracing::error!(%error, "deleted metrics cannot be removed: trying again later");
        }
        if first && let Some(retention) = options.resource_history_retention {
            forget(&engine, (options.clock)().saturating_sub(retention), go_on).await;
        }
        if first && let Err(error) = engine.sweep_index(go_on).await {
            tracing::error!(%error, "the index cannot be swept: trying again later");
        }
    }
}

/// Removes the history of resources before a time.
async fn forget(engine: &Engine, before: Timestamp, go_on: impl Fn() -> bool) {
    match engine.remove_revisions(before, go_on).await {
        Ok(0) => {}
        Ok(removed) => tracing::info!(removed, "former revisions of resources removed: they ended long ago"),
        Err(error) => tracing::error!(%error, "former revisions cannot be removed: trying again later"),
    }
}

async fn retire(
    engine: &Engine,
    options: &MetricdOptions,
    activity: Option<&mut Activity>,
    now: ClockTimes,
    go_on: impl Fn() -> bool + Copy,
) {
    if let Some(activity) = activity {
        match engine.end_inactive_resources(activity, now, go_on).await {
            Ok(0) => {}
            Ok(ended) => tracing::info!(ended, "resources ended: their metrics get no measures"),
            Err(error) => {
                tracing::error!(%error, "inactive resources cannot be ended: trying again later");
            }
        }
    }
    if let Some(after) = options.resource_cleanup_after {
        let before = (options.clock)().saturating_sub(after);
        match engine.remove_ended_resources(before, go_on).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "resources deleted: they ended long ago"),
            Err(error) => {
                tracing::error!(%error, "ended resources cannot be deleted: trying again later");
            }
        }
    }
}
