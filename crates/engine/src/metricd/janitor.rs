//! Removes deleted metrics, batch by batch.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::Engine;

pub(super) async fn run(
    engine: Arc<Engine>,
    delay: Duration,
    batch_metrics: usize,
    mut stopped: watch::Receiver<bool>,
) {
    while super::sleep(delay, &mut stopped).await {
        loop {
            match engine.expunge(batch_metrics).await {
                Ok(removed) if removed == batch_metrics && !*stopped.borrow() => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::error!(%error, "deleted metrics cannot be removed: trying again later");
                    break;
                }
            }
        }
    }
}
