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
    incoming::{Consume as _, Position, Record, TrimNeed},
};
use gnudi_engine::{Engine, Metricd};
use gnudi_model::{MetricId, Sack, SackId, Timestamp};
use gnudi_series::head::Head;
use parking_lot::Mutex;
use support::{
    batch,
    incoming::{Tap, TappedIncoming},
    indexer, metric, options, sacks,
    store::Tapped,
    wait::until,
};

const METRICS: u128 = 6;
const ROUNDS: i64 = 300;

/// Compares what is trimmed with the heads.
struct Watched {
    store: Arc<Tapped>,
    /// What passes have read, and no trim has covered.
    read: Mutex<HashMap<Sack, BTreeSet<(Position, MetricId)>>>,
    trimmed: Mutex<HashMap<Sack, Position>>,
    lost: Mutex<Option<String>>,
    /// A sack whose server does not respond.
    down: Option<Sack>,
    trim_need: TrimNeed,
}

impl Watched {
    fn log(store: Arc<Tapped>, down: Option<Sack>, trim_need: TrimNeed) -> Arc<TappedIncoming<Self>> {
        let (read, trimmed, lost) = Default::default();
        TappedIncoming::new(2, Watched { store, read, trimmed, lost, down, trim_need })
    }
}

/// Whether everything is trimmed.
async fn is_empty(log: &TappedIncoming<Watched>) -> bool {
    let sacks: Vec<Sack> = log.numbering().units().sacks().collect();
    let positions = log.driver.positions(&sacks).await.unwrap();
    let trimmed = log.tap.trimmed.lock();
    sacks.iter().zip(&positions).all(|(sack, positions)| trimmed.get(sack) == Some(&positions.newest))
}

#[async_trait]
impl Tap for Watched {
    fn found(&self, sack: Sack, records: &[Record]) {
        let found = records.iter().map(|record| (record.position, record.metric));
        self.read.lock().entry(sack).or_default().extend(found);
    }

    fn is_down(&self, sack: Sack) -> bool {
        self.down == Some(sack)
    }

    fn trim_need(&self) -> TrimNeed {
        self.trim_need
    }

    async fn trimming(&self, up_to: &[(Sack, Position)]) {
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
    }
}

#[tokio::test]
async fn a_checkpoint_trims_only_what_is_folded() {
    let failures = (0..200).map(|write| write % 3 != 0).collect();
    let store = Arc::new(Tapped::failing(failures).deferring(true));
    let incoming = Watched::log(store.clone(), None, TrimNeed::None);
    let indexer = indexer(METRICS, "medium").await;
    let engine = Arc::new(Engine::new(indexer, incoming.clone(), store, || Timestamp::EPOCH));
    let metricd = Metricd::start(engine.clone(), &options("test", Duration::from_millis(2)));
    for round in 0..ROUNDS {
        engine.append(batch(0..METRICS, round)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        // A read folds its metric between the parts of a checkpoint.
        engine.measured(&[metric(round as u128 % METRICS)]).await.unwrap();
    }
    until("everything is trimmed", async || is_empty(&incoming).await).await;
    metricd.stop().await;
    assert_eq!(*incoming.tap.lost.lock(), None);
    assert_eq!(engine.deferred_bytes(), 0);
}

/// One of the nodes of a cluster.
#[tokio::test]
async fn a_server_that_is_down_does_not_keep_the_logs_of_others() {
    let [other, down] = [0, 1].map(|id| Sack { count: sacks(2), id: SackId(id) });
    let store = Arc::new(Tapped::new(|_, writes| writes.len()));
    let incoming = Watched::log(store.clone(), Some(down), TrimNeed::None);
    let indexer = indexer(METRICS, "medium").await;
    let engine = Arc::new(Engine::new(indexer, incoming.clone(), store, || Timestamp::EPOCH));
    let metricd = Metricd::start(engine.clone(), &options("test", Duration::from_millis(2)));
    engine.append(batch(0..METRICS, 0)).await.unwrap();
    let newest = incoming.driver.positions(&[other]).await.unwrap()[0].newest;
    until("it is trimmed", async || incoming.tap.trimmed.lock().get(&other) == Some(&newest)).await;
    metricd.stop().await;
    assert_eq!(*incoming.tap.lost.lock(), None);
}

/// Heads are written less often if more of the log is kept.
#[tokio::test(start_paused = true)]
async fn a_useful_trim_waits_until_folding_is_worth_it_and_an_urgent_one_does_not() {
    for (need, rounds) in [(TrimNeed::Useful, 6), (TrimNeed::Urgent, 1)] {
        let store = Arc::new(Tapped::new(|_, writes| writes.len()).deferring(true));
        let incoming = Watched::log(store.clone(), None, need);
        let indexer = indexer(METRICS, "medium").await;
        let engine = Arc::new(Engine::new(indexer, incoming.clone(), store, || Timestamp::EPOCH));
        let metricd = Metricd::start(engine.clone(), &options("test", Duration::from_hours(1)));
        for round in 0..rounds {
            assert!(!is_empty(&incoming).await || round == 0, "{need:?}: trimmed after {round} rounds");
            engine.append(batch(0..METRICS, round)).await.unwrap();
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        assert!(is_empty(&incoming).await, "{need:?}");
        metricd.stop().await;
        assert_eq!(*incoming.tap.lost.lock(), None);
    }
}
