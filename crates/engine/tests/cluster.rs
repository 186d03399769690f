//! Processes with shared stores: ownership of sacks, and visibility of writes.

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use gnudi_drivers::{
    incoming::{
        Append as _, Consume as _, Record, Topology as _,
        objects::{ObjectIncoming, ObjectIncomingOptions},
    },
    objects::memory::MemoryObjects,
};
use gnudi_engine::{Engine, EngineError, Metricd, MetricdOptions, Presence, process_status::ProcessKind};
use gnudi_model::{Sack, Timestamp};
use parking_lot::Mutex;
use support::{
    Cluster, batch, delete,
    incoming::{Tap, TappedIncoming},
    metric, options, sacks,
    store::Tapped,
    wait::until,
};
use uuid::Uuid;

const LEASE: Duration = Duration::from_millis(600);
const SACKS: u16 = 16;
const METRICS: u128 = 40;

/// Waits until each unit has an owner; returns the owners.
async fn owners(engine: &Engine) -> BTreeSet<String> {
    let mut owners = BTreeSet::new();
    until("all sacks have owners", async || {
        let cluster = engine.cluster().await.unwrap();
        owners = cluster.units.iter().filter_map(|unit| unit.owner.clone()).collect();
        cluster.units.iter().all(|unit| unit.owner.is_some())
    })
    .await;
    owners
}

#[tokio::test(start_paused = true)]
async fn an_api_process_refreshes_what_others_process() {
    let cluster = Cluster::new(METRICS, SACKS).await;
    let api = cluster.engine();
    let presence = Presence::start(api.clone(), "api".to_owned(), LEASE, Timestamp::from_secs(7));
    api.append(batch(0..METRICS, 0)).await.unwrap();
    let refused = api.refresh(&[metric(1)], Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(refused, EngineError::RefreshTimeout(id) if id == metric(1)), "nobody works");
    let workers = ["one", "two", "three"].map(|name| Metricd::start(cluster.engine(), &options(name, LEASE)));
    let all: Vec<_> = (0..METRICS).map(metric).collect();
    api.refresh(&all, Duration::from_secs(10)).await.unwrap();
    for number in 0..METRICS {
        assert_eq!(cluster.counts(&api, number).await.into_values().sum::<f64>(), 1.0);
    }
    assert_eq!(api.figures().measures_folded.load(std::sync::atomic::Ordering::Relaxed), 0);
    until("each has its share", async || owners(&api).await.len() == 3).await;
    let status = api.cluster().await.unwrap();
    let kinds: Vec<_> =
        status.processes.iter().map(|process| (process.name.as_str(), process.status.kind)).collect();
    let metricd = ProcessKind::Metricd;
    assert_eq!(kinds, [("api", ProcessKind::Api), ("one", metricd), ("three", metricd), ("two", metricd)]);
    assert_eq!(status.processes[0].status.since, 7);
    assert_eq!(status.processes.iter().map(|process| process.leases).sum::<usize>(), usize::from(SACKS));
    presence.stop().await;
    for worker in workers {
        worker.stop().await;
    }
    assert!(api.cluster().await.unwrap().processes.is_empty());
}

/// In a store of objects that takes several requests, each of which may take seconds.
#[tokio::test(start_paused = true)]
async fn sacks_are_opened_though_to_raise_a_fence_takes_longer_than_a_lease() {
    let cluster = Cluster::new(METRICS, SACKS).await;
    let store = Arc::new(Tapped::raising_slowly(3 * LEASE));
    let engine = cluster.engine_on(cluster.incoming.clone(), store, cluster.coordinator.clone());
    let worker = Metricd::start(engine.clone(), &options("one", LEASE));
    engine.append(batch(0..METRICS, 0)).await.unwrap();
    let all: Vec<_> = (0..METRICS).map(metric).collect();
    engine.refresh(&all, Duration::from_mins(1)).await.unwrap();
    assert_eq!(engine.owned().len(), usize::from(SACKS));
    worker.stop().await;
}

/// The sacks over which a pass runs, and those over which another one began meanwhile.
#[derive(Default)]
struct Passes {
    running: Mutex<BTreeSet<Sack>>,
    doubled: Mutex<BTreeSet<Sack>>,
}

impl Tap for Passes {
    fn found(&self, sack: Sack, records: &[Record]) {
        if !records.is_empty() && !self.running.lock().insert(sack) {
            self.doubled.lock().insert(sack);
        }
    }

    fn acknowledging(&self, sack: Sack) {
        self.running.lock().remove(&sack);
    }
}

/// The sacks would go to a worker that leaves again before the passes over them have ended: their leases, and so their
/// tokens, stay the same.
#[tokio::test(start_paused = true)]
async fn a_sack_that_is_wanted_again_waits_for_the_pass_over_it() {
    /// As many passes run at once.
    const BUSY: usize = 8;
    let cluster = Cluster::new(METRICS, SACKS).await;
    let incoming = TappedIncoming::new(SACKS, Passes::default());
    let store = Arc::new(Tapped::slow(Duration::from_mins(1)));
    let engine = || cluster.engine_on(incoming.clone(), store.clone(), cluster.coordinator.clone());
    let mut busy = BTreeMap::new();
    for number in 0..METRICS {
        busy.entry(Sack::of(metric(number), sacks(SACKS))).or_insert(number);
    }
    let numbers: Vec<u128> = busy.into_values().take(BUSY).collect();
    let metrics: Vec<_> = numbers.iter().copied().map(metric).collect();

    let (one, two) = (engine(), engine());
    let worker = Metricd::start(one.clone(), &options("one", LEASE));
    until("one has all sacks", async || one.owned().len() == usize::from(SACKS)).await;
    one.append(batch(numbers.iter().copied(), 0)).await.unwrap();
    until("passes run", async || incoming.tap.running.lock().len() == BUSY).await;
    let other = Metricd::start(two.clone(), &options("two", LEASE));
    until("two has sacks", async || !two.owned().is_empty()).await;
    let open: BTreeSet<Sack> = one.owned().into_iter().map(|fence| fence.sack).collect();
    assert!(!incoming.tap.running.lock().is_subset(&open), "passes run over sacks that two should get");
    other.stop().await;
    // It learns of that with its next renewal.
    tokio::time::sleep(2 * LEASE).await;

    one.append(batch(numbers.iter().copied(), 300)).await.unwrap();
    one.refresh(&metrics, Duration::from_mins(5)).await.unwrap();
    assert_eq!(*incoming.tap.doubled.lock(), BTreeSet::new());
    for number in numbers {
        assert_eq!(cluster.counts(&one, number).await.into_values().collect::<Vec<_>>(), [1.0, 1.0]);
    }
    worker.stop().await;
}

/// The metrics of a unit are in two sacks once a split has ended.
#[tokio::test(start_paused = true)]
async fn a_refresh_waits_for_the_right_sack_when_a_split_ends_meanwhile() {
    let cluster = Cluster::new(METRICS, SACKS).await;
    let (api, incoming) = (cluster.engine(), &cluster.incoming);
    api.append(batch(1..2, 0)).await.unwrap();
    assert!(incoming.split().await.unwrap().draining);
    // Into the upper half of its former sack.
    api.append(batch(18..19, 0)).await.unwrap();
    let old = Sack::of(metric(1), sacks(SACKS));
    let newest = incoming.positions(&[old]).await.unwrap()[0].newest;
    let end = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        incoming.acknowledge(old, newest).await.unwrap();
        assert!(!incoming.settle().await.unwrap().draining);
    };
    let metrics = [1, 18].map(metric);
    let (refreshed, ()) = tokio::join!(api.refresh(&metrics, Duration::from_secs(2)), end);
    let refused = refreshed.unwrap_err();
    assert!(matches!(refused, EngineError::RefreshTimeout(id) if id == metric(18)), "{refused}");
}

/// Another process has split the sacks, and accepted a measure, since this one read the log.
#[tokio::test]
async fn a_refresh_waits_for_new_sacks_of_a_split_that_it_learns_of_itself() {
    let (cluster, objects) = (Cluster::new(METRICS, SACKS).await, MemoryObjects::default());
    let open = async || {
        let never = Duration::from_hours(1);
        let options = ObjectIncomingOptions {
            sack_count: sacks(SACKS),
            look_delay_idle: never,
            ..ObjectIncomingOptions::default()
        };
        let objects = Arc::new(objects.clone());
        ObjectIncoming::open(objects, None, Uuid::nil(), Uuid::new_v4(), options).await.unwrap()
    };
    let (own, others) = (open().await, open().await);
    let api = cluster.engine_on(own, cluster.store.clone(), cluster.coordinator.clone());
    others.split().await.unwrap();
    others.append(batch(1..2, 0)).await.unwrap();
    assert!(!api.numbering().draining);
    let refused = api.refresh(&[metric(1)], Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(refused, EngineError::RefreshTimeout(_)), "{refused}");
}

/// Of one worker, in processes that share the store and in one that does not.
#[tokio::test(start_paused = true)]
async fn passes_over_shared_stores_overlap() {
    for (is_shared, most) in [(true, 4), (false, 1)] {
        let cluster = Cluster::new(METRICS, SACKS).await;
        let store = Arc::new(Tapped::slow(Duration::from_millis(20)));
        let engine = if is_shared {
            cluster.engine_on(cluster.incoming.clone(), store.clone(), cluster.coordinator.clone())
        } else {
            let (indexer, incoming) = (cluster.indexer.clone(), cluster.incoming.clone());
            Arc::new(Engine::new(indexer, incoming, store.clone(), || Timestamp::EPOCH))
        };
        engine.append(batch(0..METRICS, 0)).await.unwrap();
        let worker = Metricd::start(engine.clone(), &MetricdOptions { workers: 1, ..options("one", LEASE) });
        until("nothing waits", async || engine.backlog().await.unwrap().measures == 0).await;
        assert_eq!(store.most_writing.load(Ordering::Relaxed), most);
        worker.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn sacks_pass_on_as_workers_come_and_go() {
    let cluster = Cluster::new(METRICS, SACKS).await;
    let api = cluster.engine();
    let one = Metricd::start(cluster.engine(), &options("one", LEASE));
    assert_eq!(owners(&api).await.len(), 1);
    let two = Metricd::start(cluster.engine(), &options("two", LEASE));
    until("the new one has its share", async || owners(&api).await.len() == 2).await;
    api.append(batch(0..METRICS, 0)).await.unwrap();
    let all: Vec<_> = (0..METRICS).map(metric).collect();
    api.refresh(&all, Duration::from_secs(10)).await.unwrap();
    one.stop().await;
    let left = tokio::time::Instant::now();
    until("the other has all", async || owners(&api).await.len() == 1).await;
    assert!(left.elapsed() < LEASE, "who leaves frees his sacks at once");
    api.append(batch(0..METRICS, 300)).await.unwrap();
    api.refresh(&all, Duration::from_secs(10)).await.unwrap();
    for number in 0..METRICS {
        assert_eq!(cluster.counts(&api, number).await.into_values().collect::<Vec<_>>(), [1.0, 1.0]);
    }
    two.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_removes_the_deleted_metrics_of_its_own_sacks() {
    let cluster = Cluster::new(METRICS, SACKS).await;
    let (api, one, two) = (cluster.engine(), cluster.engine(), cluster.engine());
    let workers = [("one", &one), ("two", &two)]
        .map(|(name, engine)| Metricd::start(engine.clone(), &options(name, LEASE)));
    until("each has its share", async || {
        let owned = [one.owned().len(), two.owned().len()];
        owned.iter().sum::<usize>() == usize::from(SACKS) && owned.iter().all(|owned| *owned > 0)
    })
    .await;
    let all: Vec<_> = (0..METRICS).map(metric).collect();
    api.append(batch(0..METRICS, 0)).await.unwrap();
    api.refresh(&all, Duration::from_secs(10)).await.unwrap();
    delete(&api, &all).await;
    assert_eq!(api.expunge(2, || true).await.unwrap(), 0, "it owns nothing");
    // The pages are smaller than the runs of metrics that the other owns.
    let (first, second) = (one.expunge(2, || true).await.unwrap(), two.expunge(2, || true).await.unwrap());
    assert!(first > 0 && second > 0);
    assert_eq!(first + second, all.len());
    assert!(api.indexer().deleted_metrics(None, 1).await.unwrap().is_empty());
    for number in 0..METRICS {
        assert!(cluster.counts(&api, number).await.is_empty());
    }
    for worker in workers {
        worker.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_split_ends_while_measures_come() {
    let cluster = Cluster::new(METRICS, SACKS).await;
    let api = cluster.engine();
    let workers = ["one", "two"].map(|name| Metricd::start(cluster.engine(), &options(name, LEASE)));
    for round in 0..60 {
        api.append(batch(0..METRICS, round)).await.unwrap();
        if round % 20 == 10 {
            let numbering = api.split_sacks().await.unwrap();
            assert!(numbering.draining);
            until("the split ends", async || !api.numbering().draining).await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(api.numbering().count.get(), 8 * SACKS);
    let all: Vec<_> = (0..METRICS).map(metric).collect();
    api.refresh(&all, Duration::from_secs(10)).await.unwrap();
    for number in 0..METRICS {
        assert_eq!(cluster.counts(&api, number).await.into_values().sum::<f64>(), 60.0, "metric {number}");
    }
    assert_eq!(owners(&api).await.len(), 2);
    for worker in workers {
        worker.stop().await;
    }
}
