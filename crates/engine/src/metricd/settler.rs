//! Ends the draining of a split, once the old sacks are drained; in a single process: the owner of the first
//! unit.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::Engine;

/// How often it is tried while sacks drain.
const DELAY: Duration = Duration::from_millis(200);

pub(super) async fn run(engine: Arc<Engine>, mut stopped: watch::Receiver<bool>) {
    while super::sleep(DELAY, &mut stopped).await {
        if !engine.incoming.numbering().draining || !engine.owns_first() {
            continue;
        }
        let Some(topology) = engine.incoming.topology() else { return };
        match topology.settle().await {
            Ok(numbering) if !numbering.draining => {
                tracing::info!(sacks = numbering.count.get(), "the sacks are split");
            }
            Ok(_) => {}
            Err(error) => engine.outage.failed(&error),
        }
    }
}
