//! The rules of an [`Incoming`] that several processes share, in addition to those of every one.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use gnudi_model::{MetricId, Numbering, Sack};

use super::incoming::{IncomingSetup, SETUP, all_of, batch, metric, positions, shown};
use crate::incoming::{Consume, Incoming, IncomingError, Positions, Topology};

/// A shared store can change its sack count.
pub trait SharedIncoming: Incoming + Topology {}

impl<D: Incoming + Topology> SharedIncoming for D {}

/// How long a change of one process may take to become visible to another.
const SEEN_WITHIN: Duration = Duration::from_secs(30);

/// Runs all tests on a driver; each call of `make` must give two drivers on one new, empty store, like two
/// processes.
pub async fn shared_incoming<D: SharedIncoming>(make: impl AsyncFn(IncomingSetup) -> [Arc<D>; 2]) {
    let [one, _] = make(SETUP).await;
    assert!(one.topology().is_some(), "whoever is given a whole store finds how to split it");
    let make = async |setup| make(setup).await.map(|driver| -> Arc<dyn SharedIncoming> { driver });
    what_one_appends_the_other_reads(&make(SETUP).await).await;
    acknowledgements_are_seen(&make(SETUP).await).await;
    two_append_at_once(&make(SETUP).await).await;
    a_split_keeps_everything(&make(SETUP).await).await;
    a_split_goes_on_where_it_stopped(&make(SETUP).await).await;
    writes_go_on_through_splits(make(SETUP).await).await;
}

async fn named(driver: &dyn Consume, sack: Sack) {
    let naming = async { while !driver.arrivals().await.contains(&sack) {} };
    tokio::time::timeout(SEEN_WITHIN, naming).await.expect("an arrival was not seen");
}

async fn what_one_appends_the_other_reads([api, worker]: &[Arc<dyn SharedIncoming>; 2]) {
    api.append(batch(&[(4, 1, "a"), (5, 2, "b")])).await.unwrap();
    let sack = Sack::of(metric(4), SETUP.sack_count);
    named(&**worker, sack).await;
    assert_eq!(shown(&all_of(&**worker, sack).await), [(4, 1, "a")]);
    assert_eq!(worker.backlog().await.unwrap().measures, 3);
    assert_eq!(api.backlog().await.unwrap().measures, 3);
    assert_eq!(worker.backlog_by_metric().await.unwrap(), HashMap::from([(metric(4), 1), (metric(5), 2)]));
}

async fn acknowledgements_are_seen([api, worker]: &[Arc<dyn SharedIncoming>; 2]) {
    for text in ["a", "b"] {
        api.append(batch(&[(4, 1, text)])).await.unwrap();
    }
    let sack = Sack::of(metric(4), SETUP.sack_count);
    named(&**worker, sack).await;
    // The arrival may have been reported before the second batch was visible.
    positions(&**worker, sack).await;
    let records = all_of(&**worker, sack).await;
    worker.acknowledge(sack, records[0].position).await.unwrap();
    let (acknowledged, newest) = (records[0].position, records[1].position);
    let seen = async {
        while positions(&**api, sack).await != (Positions { acknowledged, newest }) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SEEN_WITHIN, seen).await.expect("an acknowledgement was not seen");
    worker.trim(&[(sack, acknowledged)]).await.unwrap();
    assert_eq!(shown(&all_of(&**worker, sack).await), [(4, 1, "b")]);
    assert_eq!(api.backlog().await.unwrap().measures, 1);
    // A former owner of the sack acknowledges again: nothing changes.
    api.acknowledge(sack, acknowledged).await.unwrap();
    worker.acknowledge(sack, newest).await.unwrap();
    worker.trim(&[(sack, newest)]).await.unwrap();
    assert_eq!(api.backlog().await.unwrap(), crate::incoming::Backlog::default());
    api.append(batch(&[(4, 1, "c")])).await.unwrap();
    assert!(positions(&**worker, sack).await.newest > newest, "positions grow when all was trimmed");
}

async fn two_append_at_once(drivers: &[Arc<dyn SharedIncoming>; 2]) {
    let tasks: Vec<_> = (0..8_u128)
        .map(|task| {
            let driver = Arc::clone(&drivers[task as usize % 2]);
            tokio::spawn(async move {
                for round in 0..20 {
                    driver.append(batch(&[(task, round, "p"), (task + 1, 1000, "q")])).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut seen: HashMap<MetricId, Vec<u32>> = HashMap::new();
    for sack in SETUP.sack_count.sacks() {
        // `positions` makes both read everything that the other appended.
        assert_eq!(positions(&*drivers[0], sack).await, positions(&*drivers[1], sack).await);
        let records = all_of(&*drivers[0], sack).await;
        assert!(records.is_sorted_by_key(|record| record.position), "out of order");
        assert_eq!(records, all_of(&*drivers[1], sack).await, "two processes read different things");
        for record in records.iter().filter(|record| record.measures < 1000) {
            seen.entry(record.metric).or_default().push(record.measures);
        }
    }
    for task in 0..8 {
        assert_eq!(
            seen[&metric(task)],
            (0..20).collect::<Vec<u32>>(),
            "each once, in the order of acceptance"
        );
    }
}

/// Processes a sack completely, and returns its records.
async fn drain(driver: &dyn Consume, sack: Sack) -> Vec<(u128, u32, String)> {
    let mut drained = Vec::new();
    loop {
        let some = pass(driver, sack).await;
        if some.is_empty() {
            return drained;
        }
        drained.extend(some);
    }
}

/// Processes a part of a sack's backlog like a worker, and returns its records.
async fn pass(driver: &dyn Consume, sack: Sack) -> Vec<(u128, u32, String)> {
    const BYTES_MAX: usize = 2000;
    let after = positions(driver, sack).await.acknowledged;
    let records = driver.pending(sack, after, BYTES_MAX).await.unwrap().records;
    let Some(last) = records.last().map(|last| last.position) else { return Vec::new() };
    assert!(records.iter().all(|record| sack.contains(record.metric)), "a record of another sack");
    driver.acknowledge(sack, last).await.unwrap();
    driver.trim(&[(sack, last)]).await.unwrap();
    shown(&records).into_iter().map(|(id, measures, text)| (id, measures, text.to_owned())).collect()
}

/// Waits until a driver has this numbering.
async fn learned(driver: &dyn Consume, numbering: Numbering) {
    let learning = async {
        while driver.numbering() != numbering {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SEEN_WITHIN, learning).await.expect("the numbering was not learned");
}

async fn a_split_keeps_everything([api, worker]: &[Arc<dyn SharedIncoming>; 2]) {
    let old = SETUP.sack_count;
    let new = old.doubled().unwrap();
    // The metrics 1 and 5 share a sack of 4, but none of 8.
    api.append(batch(&[(1, 1, "a"), (5, 2, "b")])).await.unwrap();
    let before = positions(&**worker, Sack::of(metric(1), old)).await.newest;
    let draining = Numbering { count: new, draining: true };
    assert_eq!(worker.split().await.unwrap(), draining);
    assert_eq!(worker.split().await.unwrap(), draining, "a split that drains is not split again");
    // This process may still use the old numbering.
    api.append(batch(&[(1, 3, "c"), (5, 4, "d")])).await.unwrap();
    api.append(batch(&[(1, 5, "e")])).await.unwrap();
    learned(&**api, draining).await;
    assert_eq!(api.backlog().await.unwrap().measures, 15);
    assert_eq!(worker.settle().await.unwrap(), draining, "the old sacks are not empty");
    let [low, high] = Sack::of(metric(1), old).halves().unwrap();
    assert!(positions(&**worker, low).await.newest > before, "positions grow through a split");
    let drained = drain(&**worker, Sack::of(metric(1), old)).await;
    assert_eq!(drained, [(1, 1, "a".to_owned()), (5, 2, "b".to_owned())], "what came before");
    assert_eq!(worker.settle().await.unwrap(), Numbering::settled(new));
    learned(&**api, Numbering::settled(new)).await;
    assert_eq!(drain(&**worker, low).await, [(1, 3, "c".to_owned()), (1, 5, "e".to_owned())]);
    assert_eq!(drain(&**worker, high).await, [(5, 4, "d".to_owned())]);
    assert_eq!(api.backlog().await.unwrap(), crate::incoming::Backlog::default());
    // And once more.
    let twice = new.doubled().unwrap();
    assert_eq!(api.split().await.unwrap().count, twice);
    // A process learns of it when it requests positions.
    positions(&**worker, low).await;
    assert_eq!(worker.numbering().count, twice);
    assert_eq!(api.settle().await.unwrap(), Numbering::settled(twice));
}

/// A split may be aborted at any point; another process completes it.
async fn a_split_goes_on_where_it_stopped([one, two]: &[Arc<dyn SharedIncoming>; 2]) {
    for wait_us in [0, 50, 200, 1000, 5000] {
        let before = one.numbering();
        one.append(batch(&[(1, 1, "a"), (2, 1, "b"), (3, 1, "c"), (4, 1, "d")])).await.unwrap();
        let split = tokio::spawn({
            let one = Arc::clone(one);
            async move { one.split().await }
        });
        tokio::time::sleep(Duration::from_micros(wait_us)).await;
        split.abort();
        split.await.ok();
        one.append(batch(&[(1, 2, "e"), (2, 2, "f"), (3, 2, "g"), (4, 2, "h")])).await.unwrap();
        let numbering = two.split().await.unwrap();
        assert_eq!(Some(numbering.count), before.count.doubled());
        two.append(batch(&[(1, 3, "i"), (2, 3, "j"), (3, 3, "k"), (4, 3, "l")])).await.unwrap();
        learned(&**one, numbering).await;
        let mut seen: HashMap<u128, Vec<u32>> = HashMap::new();
        for sack in numbering.units().iter().flat_map(|unit| numbering.sacks_of_unit(unit)) {
            for (id, measures, _) in drain(&**two, sack).await {
                seen.entry(id).or_default().push(measures);
            }
        }
        for id in 1..=4 {
            assert_eq!(seen[&id], [1, 2, 3], "metric {id} after {wait_us} us: lost, twice, or out of order");
        }
        assert!(!two.settle().await.unwrap().draining);
        learned(&**one, two.numbering()).await;
    }
}

/// Both append continuously while the count is doubled three times and a worker processes the records.
async fn writes_go_on_through_splits(drivers: [Arc<dyn SharedIncoming>; 2]) {
    const ROUNDS_MIN: u32 = 100;
    // Limits the backlog: a store that appends faster than it reads would never be drained.
    const WAITING_MAX: usize = 100;
    let split_thrice = Arc::new(AtomicBool::new(false));
    let (appended, taken) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let appenders: Vec<_> = (0..6_u128)
        .map(|task| {
            let driver = Arc::clone(&drivers[task as usize % 2]);
            let split_thrice = Arc::clone(&split_thrice);
            let (appended, taken) = (Arc::clone(&appended), Arc::clone(&taken));
            tokio::spawn(async move {
                let mut round = 0;
                while round < ROUNDS_MIN || !split_thrice.load(Ordering::Relaxed) {
                    while appended.load(Ordering::Relaxed) > taken.load(Ordering::Relaxed) + WAITING_MAX {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    let append =
                        async || driver.append(batch(&[(task, round, "p"), (task + 6, round, "q")])).await;
                    while let Err(IncomingError::Unavailable(_)) = append().await {}
                    appended.fetch_add(2, Ordering::Relaxed);
                    round += 1;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                round
            })
        })
        .collect();
    let mut seen: HashMap<u128, Vec<u32>> = HashMap::new();
    let mut splits = 0;
    let work = async {
        loop {
            let ended = appenders.iter().all(tokio::task::JoinHandle::is_finished);
            let numbering = drivers[1].numbering();
            for unit in numbering.units().iter() {
                for sack in numbering.sacks_of_unit(unit) {
                    let records = pass(&*drivers[1], sack).await;
                    let goes_on = records.is_empty() || sack.count == numbering.count;
                    for (id, round, _) in records {
                        seen.entry(id).or_default().push(round);
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                    // An old sack is drained before its successors.
                    if !goes_on {
                        break;
                    }
                }
            }
            if numbering.draining {
                drivers[1].settle().await.unwrap();
            } else if splits < 3 {
                splits += 1;
                drivers[0].split().await.unwrap();
                learned(&*drivers[1], drivers[0].numbering()).await;
            } else {
                split_thrice.store(true, Ordering::Relaxed);
                if ended {
                    return;
                }
            }
        }
    };
    tokio::time::timeout(6 * SEEN_WITHIN, work).await.expect("something was lost");
    for (task, appender) in (0..).zip(appenders) {
        let rounds: Vec<u32> = (0..appender.await.unwrap()).collect();
        for id in [task, task + 6] {
            let mut seen = seen.remove(&id).unwrap();
            // A batch whose append failed as unavailable may exist twice, in a row.
            seen.dedup();
            assert_eq!(seen, rounds, "metric {id}");
        }
    }
}
