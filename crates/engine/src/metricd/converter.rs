//! Converts the metrics of policies that got other methods, and metrics that moved to another policy, in a single process:
//! the owner of the first unit.
//!
//! Pauses as long as it works, so that it takes at most half of the time.

use std::{collections::HashSet, sync::Arc, time::Duration};

use gnudi_indexer::PolicyConversion;
use tokio::{sync::watch, time::Instant};
use uuid::Uuid;

use crate::Engine;

/// How often the index is polled for conversions. One begins when it is seen for the second time: by then the
/// caches of all processes have the policy, so that no head is made for the former one after its conversion.
const DELAY: Duration = Duration::from_secs(5);

pub(super) async fn run(engine: Arc<Engine>, mut stopped: watch::Receiver<bool>) {
    let mut met: HashSet<Uuid> = HashSet::new();
    while super::sleep(DELAY, &mut stopped).await {
        if !engine.owns_first() {
            met.clear();
            continue;
        }
        let conversions = match engine.indexer.policy_conversions().await {
            Ok(conversions) => {
                engine.outage.answered();
                conversions
            }
            Err(error) => {
                engine.outage.failed(&error);
                continue;
            }
        };
        convert_moved(&engine, &mut stopped).await;
        let now = conversions.iter().map(|conversion| conversion.id).collect();
        for conversion in conversions.into_iter().filter(|conversion| met.contains(&conversion.id)) {
            convert(&engine, conversion, &mut stopped).await;
        }
        met = now;
    }
}

/// Runs until there is no recorded move, or a failure: the rest is retried after the next delay.
async fn convert_moved(engine: &Engine, stopped: &mut watch::Receiver<bool>) {
    while engine.owns_first() {
        let began = Instant::now();
        match engine.convert_moved().await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::warn!(%error, "metrics cannot be converted to their new archive policies: trying again later");
                return;
            }
        }
        if !super::sleep(began.elapsed(), stopped).await {
            return;
        }
    }
}

/// Runs until the last metric, or a failure: the rest is retried after the next delay.
async fn convert(engine: &Engine, conversion: PolicyConversion, stopped: &mut watch::Receiver<bool>) {
    let policy = conversion.archive_policy_name.clone();
    let mut left = Some(conversion);
    while let Some(conversion) = left.filter(|_| engine.owns_first()) {
        let began = Instant::now();
        left = match engine.convert_next(conversion).await {
            Ok(left) => left,
            Err(error) => {
                tracing::warn!(policy, %error, "metrics of an archive policy cannot be converted: trying again later");
                return;
            }
        };
        if left.is_none() {
            tracing::info!(policy, "all metrics of an archive policy have its new aggregation methods");
        } else if !super::sleep(began.elapsed(), stopped).await {
            return;
        }
    }
}
