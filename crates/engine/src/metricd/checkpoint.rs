//! Makes aggregates durable, then lets the incoming store reuse the space of what they hold.

use std::{sync::Arc, time::Duration};

use gnudi_drivers::incoming::Position;
use tokio::sync::watch;

use crate::Engine;

pub(super) async fn run(engine: Arc<Engine>, delay: Duration, mut stopped: watch::Receiver<bool>) {
    while super::sleep(delay, &mut stopped).await {
        checkpoint(&engine).await;
    }
}

pub(super) async fn checkpoint(engine: &Engine) {
    // Positions first: what is acknowledged during the sync may not be durable yet.
    let mut positions = Vec::new();
    for sack in engine.incoming.sack_count().iter() {
        let (acknowledged, _) = engine.incoming.positions(sack).await;
        if acknowledged > Position::default() {
            positions.push((sack, acknowledged));
        }
    }
    if let Err(error) = engine.store.sync().await {
        tracing::error!(%error, "the aggregates cannot be made durable: the log is kept");
        return;
    }
    if let Err(error) = engine.incoming.trim(&positions).await {
        tracing::error!(%error, "the incoming store cannot be trimmed");
    }
}
