//! Checkpoint: folds what passes have deferred, makes aggregates durable, then lets the incoming store reuse their
//! records' space.
//!
//! Until then the records are the only durable form of what passes have folded, and a start folds them again.
//! So a checkpoint may wait, and an embedded store writes each head once instead of once a pass (write-back).

use std::{sync::Arc, time::Duration};

use gnudi_drivers::incoming::Position;
use gnudi_model::Sack;
use tokio::{sync::watch, time::Instant};

use crate::{Engine, EngineError};

/// How often the incoming store is asked whether it needs a trim.
const POLL: Duration = Duration::from_secs(2);

/// How long a checkpoint waits after one that could not fold some sacks: their files would be wanted again at once, and
/// the other sacks' measures would be folded before they are many.
const RETRY: Duration = Duration::from_secs(30);

/// A checkpoint every `delay`, or earlier if it is needed.
pub(super) async fn run(engine: Arc<Engine>, delay: Duration, mut stopped: watch::Receiver<bool>) {
    let mut last = Instant::now();
    let mut pause = Duration::ZERO;
    while super::sleep(delay.min(POLL), &mut stopped).await {
        if last.elapsed() >= delay || last.elapsed() >= pause && engine.needs_checkpoint() {
            pause = if checkpoint(&engine).await { Duration::ZERO } else { RETRY.min(delay) };
            last = Instant::now();
        }
    }
}

/// Whether all deferred measures were folded.
pub(super) async fn checkpoint(engine: &Engine) -> bool {
    // Positions first: records acknowledged during the sync may not be durable yet.
    let sacks = super::own_sacks(engine, engine.incoming.numbering());
    if sacks.is_empty() {
        return true;
    }
    // In a cluster of Redis the servers of some sacks may be down.
    let positions = match engine.incoming.reachable_positions(&sacks).await {
        Ok(positions) => positions,
        Err(error) => {
            report(
                engine,
                &error.into(),
                "the log cannot be trimmed: the positions of the sacks are unknown",
            );
            return true;
        }
    };
    let failed = engine.fold_deferred().await;
    if let Some((sack, error)) = failed.first() {
        report(
            engine,
            error,
            &format!("measures of sack {} cannot be folded: the log keeps them", sack.id.0),
        );
    }
    let positions: Vec<(Sack, Position)> = positions
        .into_iter()
        .filter(|(sack, _)| failed.iter().all(|(failed, _)| failed != sack))
        .filter(|(_, positions)| positions.acknowledged > Position::default())
        .map(|(sack, positions)| (sack, positions.acknowledged))
        .collect();
    if let Err(error) = engine.store.sync().await {
        report(engine, &error.into(), "the aggregates cannot be made durable: the log is kept");
    } else if let Err(error) = engine.incoming.trim(&positions).await {
        report(engine, &error.into(), "the incoming store cannot be trimmed");
    }
    failed.is_empty()
}

fn report(engine: &Engine, error: &EngineError, what: &str) {
    if error.is_outage() {
        engine.outage.failed(error);
    } else {
        tracing::error!(%error, "{what}");
    }
}
