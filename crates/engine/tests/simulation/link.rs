//! A process's connection to the stores: it delays calls, may lose requests and responses, and may stop the
//! process.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_drivers::{
    aggregates::{AggregateStore, BlockKey, BlockRange, Blocks, Fence, MetricWrite, StoreError},
    coordination::{CoordinationError, Coordinator, Member, Ownership, Session},
    incoming::{
        Append, Backlog, Batch, Consume, Incoming, IncomingError, Pending, Position, Positions, Topology,
    },
};
use gnudi_model::{MetricId, Numbering, Sack};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use crate::{
    gate::Gate,
    world::{Engine, Lost, World},
};

/// The longest time for which a process may use an old numbering.
const STALE_MS_MAX: u64 = 400;
/// The longest stop: more than twice the lease.
pub const STOP_MS_MAX: u64 = 2500;

/// The sacks that a process is notified of.
#[derive(Default)]
pub struct Inbox {
    sacks: Mutex<BTreeSet<Sack>>,
    bell: Notify,
}

pub struct Link {
    world: Arc<World>,
    name: String,
    gate: Arc<Gate>,
    inbox: Arc<Inbox>,
    /// The numbering that the process knows, and until when it is not updated.
    numbering: Mutex<(Numbering, Instant)>,
}

impl Link {
    pub fn new(world: Arc<World>, name: &str, gate: Arc<Gate>, inbox: Arc<Inbox>) -> Arc<Self> {
        let numbering = Mutex::new((world.incoming.numbering(), Instant::now()));
        Arc::new(Link { world, name: name.to_owned(), gate, inbox, numbering })
    }

    /// Between any two calls the process may be delayed or stopped.
    async fn point(&self) {
        let random = &self.world.random;
        match random.below(128) {
            0 if !self.world.is_calm() => {
                self.gate.stop(random.ms(1, STOP_MS_MAX));
                tokio::task::yield_now().await;
            }
            1..=8 => tokio::time::sleep(random.ms(1, 30)).await,
            9..=24 => tokio::task::yield_now().await,
            _ => {}
        }
    }

    /// A call whose request or response may be lost.
    async fn call<T: fmt::Debug, E: fmt::Debug>(
        &self,
        engine: Engine,
        name: &str,
        call: impl Future<Output = Result<T, E>>,
        unavailable: impl Fn(String) -> E,
    ) -> Result<T, E> {
        self.point().await;
        let lost = self.world.loses(engine);
        if lost == Some(Lost::Request) {
            self.world.trace(|| format!("{} {name}: lost", self.name));
            return Err(unavailable("the request was lost".to_owned()));
        }
        let answer = call.await;
        self.world.trace(|| format!("{} {name}: {answer:?}, {lost:?}", self.name));
        self.point().await;
        if lost == Some(Lost::Answer) {
            return Err(unavailable("the answer was lost".to_owned()));
        }
        answer
    }

    async fn incoming<T: fmt::Debug>(
        &self,
        name: &str,
        call: impl Future<Output = Result<T, IncomingError>>,
    ) -> Result<T, IncomingError> {
        self.call(Engine::Incoming, name, call, IncomingError::Unavailable).await
    }

    async fn coordinator<T: fmt::Debug>(
        &self,
        name: &str,
        call: impl Future<Output = Result<T, CoordinationError>>,
    ) -> Result<T, CoordinationError> {
        self.call(Engine::Coordinator, name, call, CoordinationError::Unavailable).await
    }

    /// As [`Link::call`], for calls with one result for each item.
    async fn items<T: fmt::Debug>(
        &self,
        name: &str,
        items: usize,
        call: impl Future<Output = Vec<Result<T, StoreError>>>,
    ) -> Vec<Result<T, StoreError>> {
        let answers = self.call(Engine::Store, name, async { Ok(call.await) }, StoreError::Unavailable).await;
        answers.unwrap_or_else(|error| (0..items).map(|_| Err(error.clone())).collect())
    }
}

impl Incoming for Link {
    fn topology(&self) -> Option<&dyn Topology> {
        Some(self)
    }
}

#[async_trait]
impl Append for Link {
    async fn append(&self, batch: Batch) -> Result<(), IncomingError> {
        let taken = async {
            let metrics: Vec<MetricId> = batch.entries.iter().map(|entry| entry.metric).collect();
            self.world.incoming.append(batch).await?;
            let count = self.world.incoming.numbering().count;
            for inbox in self.world.inboxes.lock().values() {
                // Some notifications are lost.
                if !self.world.random.one_in(20) {
                    inbox.sacks.lock().extend(metrics.iter().map(|metric| Sack::of(*metric, count)));
                    inbox.bell.notify_one();
                }
            }
            Ok(())
        };
        self.incoming("append", taken).await
    }

    async fn backlog(&self) -> Result<Backlog, IncomingError> {
        self.incoming("backlog", self.world.incoming.backlog()).await
    }

    async fn backlog_by_metric(&self) -> Result<HashMap<MetricId, u64>, IncomingError> {
        self.incoming("backlog_by_metric", self.world.incoming.backlog_by_metric()).await
    }
}

#[async_trait]
impl Consume for Link {
    fn numbering(&self) -> Numbering {
        let mut known = self.numbering.lock();
        if known.1 <= Instant::now() {
            let actual = self.world.incoming.numbering();
            if actual != known.0 && !self.world.is_calm() && !self.world.random.one_in(3) {
                // It is updated soon, but not yet.
                known.1 = Instant::now() + self.world.random.ms(1, STALE_MS_MAX);
                let next = Numbering { count: actual.count, draining: true };
                // It may learn of the start of a split before it learns of its end.
                if known.0.count < actual.count && self.world.random.one_in(2) && !known.0.draining {
                    known.0 = next;
                }
            } else {
                known.0 = actual;
            }
        }
        known.0
    }

    async fn pending(
        &self,
        sack: Sack,
        after: Position,
        _bytes_max: usize,
    ) -> Result<Pending, IncomingError> {
        // So that a sack takes several passes.
        let bytes_max = 1 + self.world.random.below(200) as usize;
        self.incoming("pending", self.world.incoming.pending(sack, after, bytes_max)).await
    }

    async fn acknowledge(&self, sack: Sack, up_to: Position) -> Result<(), IncomingError> {
        let acknowledging = async {
            self.world.acknowledged(sack, up_to).await;
            self.world.incoming.acknowledge(sack, up_to).await
        };
        self.incoming("acknowledge", acknowledging).await
    }

    async fn trim(&self, up_to: &[(Sack, Position)]) -> Result<(), IncomingError> {
        self.incoming("trim", self.world.incoming.trim(up_to)).await
    }

    async fn positions(&self, sacks: &[Sack]) -> Result<Vec<Positions>, IncomingError> {
        self.incoming("positions", self.world.incoming.positions(sacks)).await
    }

    async fn arrivals(&self) -> Vec<Sack> {
        loop {
            let sacks = std::mem::take(&mut *self.inbox.sacks.lock());
            if !sacks.is_empty() {
                return sacks.into_iter().collect();
            }
            self.inbox.bell.notified().await;
        }
    }
}

#[async_trait]
impl Topology for Link {
    async fn split(&self) -> Result<Numbering, IncomingError> {
        self.incoming("split", self.world.incoming.split()).await
    }

    async fn settle(&self) -> Result<Numbering, IncomingError> {
        let numbering = self.incoming("settle", self.world.incoming.settle()).await?;
        *self.numbering.lock() = (numbering, Instant::now() + Duration::from_millis(1));
        Ok(numbering)
    }
}

#[async_trait]
impl AggregateStore for Link {
    async fn read_heads(&self, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>, StoreError>> {
        self.items("read_heads", metrics.len(), self.world.store.read_heads(metrics)).await
    }

    async fn read_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Blocks, StoreError>> {
        self.items("read_blocks", ranges.len(), self.world.store.read_blocks(ranges)).await
    }

    async fn list_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Vec<BlockKey>, StoreError>> {
        self.items("list_blocks", ranges.len(), self.world.store.list_blocks(ranges)).await
    }

    async fn raise(&self, fence: Fence) -> Result<(), StoreError> {
        let raising = async {
            self.world.store.raise(fence).await?;
            self.world.raised(fence);
            Ok(())
        };
        self.call(Engine::Store, "raise", raising, StoreError::Unavailable).await
    }

    async fn write(&self, fence: Fence, mut writes: Vec<MetricWrite>) -> Vec<Result<(), StoreError>> {
        let items = writes.len();
        if !self.world.is_calm() && self.world.random.one_in(40) {
            // Only some of them are executed.
            writes.truncate(self.world.random.below(items as u64) as usize);
        }
        let done = writes.len();
        let writing = async {
            let taken = self.world.store.write(fence, writes.clone()).await;
            if !taken.is_empty() && taken.iter().all(Result::is_ok) {
                self.world.written(fence, &writes);
            }
            if taken.iter().any(|taken| matches!(taken, Err(StoreError::Fenced { .. }))) {
                self.world.refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            taken
        };
        let mut answers = self.items("write", done, writing).await;
        answers.extend((done..items).map(|_| Err(StoreError::Unavailable("the rest was lost".to_owned()))));
        answers
    }

    async fn delete(&self, fence: Fence, metrics: &[MetricId]) -> Vec<Result<(), StoreError>> {
        self.items("delete", metrics.len(), self.world.store.delete(fence, metrics)).await
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.call(Engine::Store, "sync", self.world.store.sync(), StoreError::Unavailable).await
    }
}

#[async_trait]
impl Coordinator for Link {
    async fn join(&self, name: &str, about: &str, ttl: Duration) -> Result<Session, CoordinationError> {
        self.coordinator("join", self.world.coordinator.join(name, about, ttl)).await
    }

    async fn renew(&self, session: Session, about: &str) -> Result<(), CoordinationError> {
        self.coordinator("renew", self.world.coordinator.renew(session, about)).await
    }

    async fn leave(&self, session: Session) -> Result<(), CoordinationError> {
        self.coordinator("leave", self.world.coordinator.leave(session)).await
    }

    async fn members(&self) -> Result<Vec<Member>, CoordinationError> {
        self.coordinator("members", self.world.coordinator.members()).await
    }

    async fn acquire(&self, session: Session, sacks: &[Sack]) -> Result<Vec<Option<u64>>, CoordinationError> {
        self.coordinator("acquire", self.world.coordinator.acquire(session, sacks)).await
    }

    async fn release(&self, session: Session, sacks: &[Sack]) -> Result<(), CoordinationError> {
        self.coordinator("release", self.world.coordinator.release(session, sacks)).await
    }

    async fn ownerships(&self) -> Result<Vec<Ownership>, CoordinationError> {
        self.coordinator("ownerships", self.world.coordinator.ownerships()).await
    }

    async fn advance_tokens(&self, past: u64) -> Result<(), CoordinationError> {
        self.coordinator("advance_tokens", self.world.coordinator.advance_tokens(past)).await
    }
}
