//! Logs the backlog from time to time.

use std::{sync::Arc, sync::atomic::Ordering::Relaxed, time::Duration};

use tokio::sync::watch;

use crate::Engine;

pub(super) async fn run(engine: Arc<Engine>, delay: Duration, mut stopped: watch::Receiver<bool>) {
    while super::sleep(delay, &mut stopped).await {
        let backlog = match engine.backlog().await {
            Ok(backlog) => backlog,
            Err(error) => {
                tracing::warn!(%error, "the backlog is unknown");
                continue;
            }
        };
        let folded = engine.figures().measures_folded.load(Relaxed);
        tracing::info!(waiting = backlog.measures, bytes = backlog.bytes, folded, "measures");
    }
}
