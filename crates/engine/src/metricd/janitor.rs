//! Removes deleted metrics in batches; ends and deletes resources, and removes their history, if configured.

use std::sync::Arc;

use gnudi_model::{Timespan, Timestamp};
use tokio::{sync::watch, time::Instant};

use super::{MetricdOptions, ages::Ages};
use crate::{
    Engine,
    retention::{Activity, ClockTimes},
};

pub(super) async fn run(engine: Arc<Engine>, options: MetricdOptions, mut stopped: watch::Receiver<bool>) {
    let mut activity = options.metric_inactive_after.map(Activity::new);
    let began = Instant::now();
    let clocks = || ClockTimes { at: (options.clock)(), up: began.elapsed() };
    let ages_of = |what, age: Option<Timespan>| age.map(|age| Ages::new(what, age, clocks()));
    let mut of_resources = ages_of("ended resources", options.resource_cleanup_after);
    let mut of_history = ages_of("former revisions of resources", options.resource_history_retention);
    while super::sleep(options.cleanup_delay, &mut stopped).await {
        // One process ends resources and sweeps for all; each removes the metrics of its own sacks.
        let first = engine.owns_first();
        let go_on = || !*stopped.borrow();
        // Also in a process that is not the first one now.
        let now = clocks();
        let ended_before = of_resources.as_mut().and_then(|ages| ages.due_before(now));
        let history_before = of_history.as_mut().and_then(|ages| ages.due_before(now));
        if first {
            // Before removing metrics, which then includes those of the resources.
            retire(&engine, activity.as_mut(), now, ended_before, go_on).await;
        }
        if let Err(error) = engine.expunge(options.cleanup_batch_metrics, go_on).await {
            tracing::error!(%error, "deleted metrics cannot be removed: trying again later");
        }
        if first && let Some(before) = history_before {
            forget(&engine, before, go_on).await;
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
    activity: Option<&mut Activity>,
    now: ClockTimes,
    ended_before: Option<Timestamp>,
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
    if let Some(before) = ended_before {
        match engine.remove_ended_resources(before, go_on).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "resources deleted: they ended long ago"),
            Err(error) => {
                tracing::error!(%error, "ended resources cannot be deleted: trying again later");
            }
        }
    }
}
