//! Converts the metrics of policies that got other methods, and metrics that moved to another policy, in a single process:
//! the owner of the first unit.
//!
//! Pauses as long as it works, so that it takes at most half of the time.

use std::{collections::HashMap, mem, sync::Arc, time::Duration};

use gnudi_indexer::PolicyConversion;
use tokio::{sync::watch, time::Instant};
use uuid::Uuid;

use crate::Engine;

/// How often the index is polled for conversions.
const DELAY: Duration = Duration::from_secs(5);

/// `lag`: how long another process's cache may lack a change.
pub(super) async fn run(engine: Arc<Engine>, lag: Duration, mut stopped: watch::Receiver<bool>) {
    let mut met = Met::default();
    while super::sleep(DELAY, &mut stopped).await {
        if !engine.owns_first() {
            met = Met::default();
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
        let seen = Instant::now();
        convert_moved(&engine, &mut stopped).await;
        for conversion in met.due(conversions, lag, seen) {
            convert(&engine, conversion, &mut stopped).await;
        }
    }
}

/// The conversions of the last poll, each with when it was first seen.
#[derive(Default)]
struct Met(HashMap<Uuid, Instant>);

impl Met {
    /// Those of a poll that may begin: seen by an earlier poll, and so long ago that the caches of all processes have the
    /// policy. So no head is made for the former one after its conversion.
    fn due(
        &mut self,
        conversions: Vec<PolicyConversion>,
        lag: Duration,
        now: Instant,
    ) -> Vec<PolicyConversion> {
        let before = mem::take(&mut self.0);
        let since = |id: Uuid| before.get(&id).copied();
        self.0 = conversions.iter().map(|of| (of.id, since(of.id).unwrap_or(now))).collect();
        let is_due = |of: &PolicyConversion| since(of.id).is_some_and(|since| now - since >= lag);
        conversions.into_iter().filter(is_due).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversion_begins_once_all_caches_have_the_policy() {
        let (began, lag) = (Instant::now(), Duration::from_secs(12));
        let conversion = |id: u128| PolicyConversion {
            id: Uuid::from_u128(id),
            archive_policy_name: "low".to_owned(),
            converted_to: None,
        };
        let mut met = Met::default();
        let mut due = |ids: &[u128], lag: Duration, after: u64| {
            let all = ids.iter().copied().map(conversion).collect();
            let due = met.due(all, lag, began + Duration::from_secs(after));
            due.iter().map(|of| of.id.as_u128()).collect::<Vec<_>>()
        };
        assert!(due(&[1], lag, 0).is_empty());
        assert!(due(&[1], lag, 5).is_empty());
        assert!(due(&[1, 2], lag, 11).is_empty());
        assert_eq!(due(&[1, 2], lag, 12), [1]);
        // The policy's methods have changed once more.
        assert_eq!(due(&[3, 2], lag, 23), [2]);
        // A process alone: its cache lacks nothing.
        assert_eq!(due(&[3, 4], Duration::ZERO, 24), [3]);
    }
}
