//! One process of a schedule: the engine's own code, behind a gate.

use std::{sync::Arc, time::Duration};

use gnudi_engine::{Engine, MetricdOptions, metricd::Parts};
use gnudi_indexer::Indexer;
use gnudi_model::Timestamp;
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    gate::{Gate, Gated},
    link::{Inbox, Link},
    support,
    world::World,
};

pub const LEASE: Duration = Duration::from_secs(1);

pub struct Process {
    number: usize,
    pub name: String,
    pub engine: Arc<Engine>,
    pub gate: Arc<Gate>,
    world: Arc<World>,
    stop: watch::Sender<bool>,
    workers: Vec<JoinHandle<()>>,
    leave: watch::Sender<bool>,
    owner: JoinHandle<()>,
}

impl Process {
    pub fn start(world: &Arc<World>, indexer: &Arc<dyn Indexer>, number: usize, name: String) -> Self {
        let (gate, inbox) = (Gate::new(), Arc::new(Inbox::default()));
        world.inboxes.lock().insert(number, inbox.clone());
        let link = Link::new(world.clone(), &name, gate.clone(), inbox);
        let engine =
            Arc::new(Engine::shared(indexer.clone(), link.clone(), link.clone(), link, || Timestamp::EPOCH));
        let options = MetricdOptions {
            gather: Duration::from_millis(5),
            cleanup_batch_metrics: 1,
            ..support::options(&name, LEASE)
        };
        let Parts { stop, workers, leave, owner } = Parts::new(&engine, &options);
        let spawn = |task| tokio::spawn(Gated::new(gate.clone(), task));
        let workers = workers.into_iter().map(spawn).collect();
        let owner = spawn(owner.expect("the engine is shared"));
        Process { number, name, engine, gate, world: world.clone(), stop, workers, leave, owner }
    }

    /// Kills it at any point.
    pub fn kill(self) {
        self.world.inboxes.lock().remove(&self.number);
        self.workers.iter().for_each(JoinHandle::abort);
        self.owner.abort();
    }

    /// Lets it finish its passes and leave.
    pub async fn leave(self) {
        self.world.inboxes.lock().remove(&self.number);
        let _ = self.stop.send(true);
        for worker in self.workers {
            worker.await.expect("a worker ended badly");
        }
        let _ = self.leave.send(true);
        self.owner.await.expect("the owner ended badly");
    }

    /// Whether one of its tasks has ended; none should.
    pub fn has_failed(&self) -> bool {
        self.owner.is_finished() || self.workers.iter().any(JoinHandle::is_finished)
    }
}
