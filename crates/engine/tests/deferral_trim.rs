//! Deferred measures and the log: a checkpoint trims a sack only to what is in heads, whatever fails.

mod support;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use gnudi_drivers::{
    aggregates::AggregateStore as _,
    incoming::{
        Append, Backlog, Batch, Consume, Incoming, IncomingError, Pending, Position, Positions,
        memory::MemoryIncoming,
    },
};
use gnudi_engine::{Engine, Metricd};
use gnudi_model::{MetricId, Numbering, Sack, SackId, Timestamp};
use gnudi_series::head::Head;
use parking_lot::Mutex;
use support::{batch, indexer, metric, options, sacks, store::Tapped, until};

const METRICS: u128 = 6;
const ROUNDS: i64 = 300;

/// Compares what is trimmed with the heads.
struct Watched {
    driver: MemoryIncoming,
    store: Arc<Tapped>,
    /// What passes have read, and no trim has covered.
    read: Mutex<HashMap<Sack, BTreeSet<(Position, MetricId)>>>,
    trimmed: Mutex<HashMap<Sack, Position>>,
    lost: Mutex<Option<String>>,
    /// A sack whose server does not respond.
    down: Option<Sack>,
}

impl Watched {
    fn new(store: Arc<Tapped>, down: Option<Sack>) -> Arc<Self> {
        let driver = MemoryIncoming::new(sacks(2), u64::MAX);
        let (read, trimmed, lost) = Default::default();
        Arc::new(Watched { driver, store, read, trimmed, lost, down })
    }

    /// Whether everything is trimmed.
    async fn is_empty(&self) -> bool {
        let sacks: Vec<Sack> = self.driver.numbering().units().sacks().collect();
        let positions = self.driver.positions(&sacks).await.unwrap();
        let trimmed = self.trimmed.lock();
        sacks.iter().zip(&positions).all(|(sack, positions)| trimmed.get(sack) == Some(&positions.newest))
    }
}

impl Incoming for Watched {}

#[async_trait]
impl Append for Watched {
    async fn append(&self, batch: Batch) -> Result<(), IncomingError> {
        self.driver.append(batch).await
    }

    async fn backlog(&self) -> Result<Backlog, IncomingError> {
        self.driver.backlog().await
    }

    async fn backlog_by_metric(&self) -> Result<HashMap<MetricId, u64>, IncomingError> {
        self.driver.backlog_by_metric().await
    }
}

#[async_trait]
impl Consume for Watched {
    fn numbering(&self) -> Numbering {
        self.driver.numbering()
    }

    async fn pending(&self, sack: Sack, after: Position, bytes_max: usize) -> Result<Pending, IncomingError> {
        let pending = self.driver.pending(sack, after, bytes_max).await?;
        let found = pending.records.iter().map(|record| (record.position, record.metric));
        self.read.lock().entry(sack).or_default().extend(found);
        Ok(pending)
    }

    async fn acknowledge(&self, sack: Sack, up_to: Position) -> Result<(), IncomingError> {
        self.driver.acknowledge(sack, up_to).await
    }

    async fn trim(&self, up_to: &[(Sack, Position)]) -> Result<(), IncomingError> {
        for &(sack, up_to) in up_to {
            let covered: Vec<(Position, MetricId)> = {
                let mut read = self.read.lock();
                let read = read.entry(sack).or_default();
                let covered = read.iter().filter(|(position, _)| *position <= up_to).copied().collect();
                read.retain(|(position, _)| *position > up_to);
                covered
            };
            let metrics: Vec<MetricId> = covered.iter().map(|(_, metric)| *metric).collect();
            for ((position, metric), head) in covered.iter().zip(self.store.read_heads(&metrics).await) {
                let applied = head.unwrap().map_or(0, |head| Head::decode(&head).unwrap().applied());
                if applied < position.0 {
                    let what = format!("{metric}: {position:?} is trimmed, and only {applied} is applied");
                    self.lost.lock().get_or_insert(what);
                }
            }
            self.trimmed.lock().insert(sack, up_to);
        }
        self.driver.trim(up_to).await
    }

    async fn positions(&self, sacks: &[Sack]) -> Result<Vec<Positions>, IncomingError> {
        if self.down.is_some_and(|down| sacks.contains(&down)) {
            return Err(IncomingError::Unavailable("by the test".into()));
        }
        self.driver.positions(sacks).await
    }

    async fn reachable_positions(&self, sacks: &[Sack]) -> Result<Vec<(Sack, Positions)>, IncomingError> {
        let reachable: Vec<Sack> = sacks.iter().copied().filter(|sack| self.down != Some(*sack)).collect();
        let positions = self.positions(&reachable).await?;
        Ok(reachable.into_iter().zip(positions).collect())
    }

    async fn arrivals(&self) -> Vec<Sack> {
        self.driver.arrivals().await
    }
}

#[tokio::test]
async fn a_checkpoint_trims_only_what_is_folded() {
    let failures = (0..200).map(|write| write % 3 != 0).collect();
    let store = Arc::new(Tapped::failing(failures).deferring(true));
    let incoming = Watched::new(store.clone(), None);
    let indexer = indexer(METRICS, "medium").await;
    let engine = Arc::new(Engine::new(indexer, incoming.clone(), store, || Timestamp::EPOCH));
    let metricd = Metricd::start(engine.clone(), &options("test", Duration::from_millis(2)));
    for round in 0..ROUNDS {
        engine.append(batch(0..METRICS, round)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        // A read folds its metric between the parts of a checkpoint.
        engine.measured(&[metric(round as u128 % METRICS)]).await.unwrap();
    }
    until("everything is trimmed", async || incoming.is_empty().await).await;
    metricd.stop().await;
    assert_eq!(*incoming.lost.lock(), None);
    assert_eq!(engine.deferred_bytes(), 0);
}

/// One of the nodes of a cluster.
#[tokio::test]
async fn a_server_that_is_down_does_not_keep_the_logs_of_others() {
    let [other, down] = [0, 1].map(|id| Sack { count: sacks(2), id: SackId(id) });
    let store = Arc::new(Tapped::new(|_, writes| writes.len()));
    let incoming = Watched::new(store.clone(), Some(down));
    let indexer = indexer(METRICS, "medium").await;
    let engine = Arc::new(Engine::new(indexer, incoming.clone(), store, || Timestamp::EPOCH));
    let metricd = Metricd::start(engine.clone(), &options("test", Duration::from_millis(2)));
    engine.append(batch(0..METRICS, 0)).await.unwrap();
    let newest = incoming.driver.positions(&[other]).await.unwrap()[0].newest;
    until("it is trimmed", async || incoming.trimmed.lock().get(&other) == Some(&newest)).await;
    metricd.stop().await;
    assert_eq!(*incoming.lost.lock(), None);
}
