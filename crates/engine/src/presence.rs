//! Membership of a process without workers, so that `gnudi status` shows it. It owns nothing.

use std::{sync::Arc, time::Duration};

use gnudi_model::Timestamp;
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    Engine,
    metricd::membership::Membership,
    process_status::{Observer, ProcessKind},
};

/// The membership of an API process while it lives.
pub struct Presence {
    leave: watch::Sender<bool>,
    task: Option<(Arc<Engine>, JoinHandle<()>)>,
}

impl Presence {
    /// Joins, on the current runtime; `name` must be unique among all processes. Does nothing if the engine's
    /// stores are not shared.
    pub fn start(engine: Arc<Engine>, name: String, lease: Duration, now: Timestamp) -> Self {
        let (leave, leaving) = watch::channel(false);
        let task = engine.coordinator.clone().map(|coordinator| {
            let membership = Membership::new(coordinator, name, lease);
            let task = tokio::spawn(run(engine.clone(), membership, now, leaving));
            engine.tasks.watch([task.abort_handle()]);
            (engine, task)
        });
        Presence { leave, task }
    }

    /// Leaves.
    pub async fn stop(self) {
        let Some((engine, task)) = self.task else { return };
        engine.tasks.forget();
        let _ = self.leave.send(true);
        if let Err(error) = task.await {
            tracing::error!(%error, "the membership task failed");
        }
    }
}

async fn run(
    engine: Arc<Engine>,
    mut membership: Membership,
    now: Timestamp,
    mut leaving: watch::Receiver<bool>,
) {
    let mut observer = Observer::new(ProcessKind::Api, 0, now);
    while !*leaving.borrow() {
        let about = observer.look(&engine, membership.renewal_delay()).await;
        match membership.keep(&about).await {
            Ok(_) => membership.outage.answered(),
            Err(error) => membership.outage.failed(&error),
        }
        tokio::select! {
            biased;
            _ = leaving.wait_for(|leave| *leave) => {}
            () = tokio::time::sleep(membership.renewal_delay()) => {}
        }
    }
    membership.leave().await;
}
