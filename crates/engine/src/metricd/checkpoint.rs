//! Makes aggregates durable, then lets the incoming store reuse the space of what they hold.

use std::{sync::Arc, time::Duration};

use gnudi_drivers::incoming::Position;
use gnudi_model::Sack;
use tokio::sync::watch;

use crate::Engine;

pub(super) async fn run(engine: Arc<Engine>, delay: Duration, mut stopped: watch::Receiver<bool>) {
    while super::sleep(delay, &mut stopped).await {
        checkpoint(&engine).await;
    }
}

pub(super) async fn checkpoint(engine: &Engine) {
    // Positions first: what is acknowledged during the sync may not be durable yet.
    let numbering = engine.incoming.numbering();
    let sacks: Vec<Sack> = numbering.units().iter().flat_map(|unit| numbering.sacks_of_unit(unit)).collect();
    let positions = match engine.incoming.positions(&sacks).await {
        Ok(positions) => positions,
        Err(error) => {
            tracing::error!(%error, "the log cannot be trimmed: where the sacks stand is not known");
            return;
        }
    };
    let positions: Vec<(Sack, Position)> = sacks
        .into_iter()
        .zip(positions)
        .filter(|(_, positions)| positions.acknowledged > Position::default())
        .map(|(sack, positions)| (sack, positions.acknowledged))
        .collect();
    if let Err(error) = engine.store.sync().await {
        tracing::error!(%error, "the aggregates cannot be made durable: the log is kept");
        return;
    }
    if let Err(error) = engine.incoming.trim(&positions).await {
        tracing::error!(%error, "the incoming store cannot be trimmed");
    }
}
