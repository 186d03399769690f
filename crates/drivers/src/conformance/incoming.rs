//! The rules of [`Incoming`].

use std::{collections::HashMap, num::NonZeroU16, sync::Arc, time::Duration};

use gnudi_model::{MetricId, Numbering, Sack, SackCount, SackId};
use uuid::Uuid;

use crate::incoming::{Backlog, Batch, Consume, Incoming, IncomingError, Position, Positions, Record};

/// Settings of a driver under test.
#[derive(Clone, Copy, Debug)]
pub struct IncomingSetup {
    pub sack_count: SackCount,
    pub backlog_bytes_max: u64,
}

pub(super) const SETUP: IncomingSetup =
    IncomingSetup { sack_count: SackCount(NonZeroU16::new(4).unwrap()), backlog_bytes_max: 1 << 20 };

/// After this time an arrival counts as lost.
const ARRIVAL_TIME_MAX: Duration = Duration::from_mins(1);

/// Runs all tests on a driver; each call of `make` must give an empty one.
pub async fn incoming<D: Incoming>(make: impl AsyncFn(IncomingSetup) -> Arc<D>) {
    empty(&*make(SETUP).await).await;
    records_come_back_in_order(&*make(SETUP).await).await;
    a_read_is_bounded_but_never_splits_a_batch(&*make(SETUP).await).await;
    acknowledged_records_are_gone(&*make(SETUP).await).await;
    arrivals_name_each_sack_once(make(SETUP).await).await;
    a_full_backlog_refuses_whole_batches(&*make(IncomingSetup { backlog_bytes_max: 4096, ..SETUP }).await)
        .await;
    counts_hold_under_concurrency(make(SETUP).await).await;
    trimming_changes_nothing_that_can_be_seen(&*make(SETUP).await).await;
}

/// A metric in sack `id % 4`.
pub(super) fn metric(id: u128) -> MetricId {
    MetricId(Uuid::from_u128(id))
}

/// A batch of `(metric, measures, points)`.
pub(super) fn batch(entries: &[(u128, u32, &str)]) -> Batch {
    let mut batch = Batch::default();
    for (id, measures, points) in entries {
        batch.push(metric(*id), *measures, |out| out.extend_from_slice(points.as_bytes()));
    }
    batch
}

/// A sack of the suite's setup.
fn sack(id: u16) -> Sack {
    Sack { count: SETUP.sack_count, id: SackId(id) }
}

/// All waiting records of a sack.
async fn all(driver: &dyn Consume, id: u16) -> Vec<Record> {
    all_of(driver, sack(id)).await
}

pub(super) async fn all_of(driver: &dyn Consume, sack: Sack) -> Vec<Record> {
    driver.pending(sack, Position(0), usize::MAX).await.unwrap().records
}

pub(super) async fn positions(driver: &dyn Consume, sack: Sack) -> Positions {
    let positions = driver.positions(&[sack]).await.unwrap();
    assert_eq!(positions.len(), 1);
    positions[0]
}

pub(super) fn shown(records: &[Record]) -> Vec<(u128, u32, &str)> {
    records
        .iter()
        .map(|record| {
            let text = std::str::from_utf8(&record.points).expect("the suite sends text");
            (record.metric.0.as_u128(), record.measures, text)
        })
        .collect()
}

async fn empty(driver: &dyn Incoming) {
    assert_eq!(driver.numbering(), Numbering::settled(SETUP.sack_count));
    driver.append(Batch::default()).await.unwrap();
    for sack in SETUP.sack_count.sacks() {
        assert_eq!(driver.pending(sack, Position(0), 100).await.unwrap().records, []);
        assert_eq!(positions(driver, sack).await, Positions::default());
    }
    assert_eq!(driver.positions(&[]).await.unwrap(), []);
    assert_eq!(driver.backlog().await.unwrap().measures, 0);
    assert_eq!(driver.backlog_by_metric().await.unwrap(), HashMap::new());
}

async fn records_come_back_in_order(driver: &dyn Incoming) {
    driver.append(batch(&[(4, 1, "a"), (5, 2, "b"), (8, 3, "c"), (4, 4, "d"), (7, 0, "")])).await.unwrap();
    driver.append(batch(&[(8, 5, "e")])).await.unwrap();
    let records = all(driver, 0).await;
    assert_eq!(shown(&records), [(4, 1, "a"), (8, 3, "c"), (4, 4, "d"), (8, 5, "e")], "sack 0");
    assert_eq!(shown(&all(driver, 1).await), [(5, 2, "b")], "sack 1");
    assert_eq!(shown(&all(driver, 2).await), [], "sack 2");
    assert_eq!(shown(&all(driver, 3).await), [(7, 0, "")], "sack 3");
    let positions: Vec<Position> = records.iter().map(|record| record.position).collect();
    assert!(positions[0] > Position(0), "positions are above 0");
    assert!(
        positions[0] == positions[1] && positions[1] == positions[2],
        "a batch has one position in a sack"
    );
    assert!(positions[3] > positions[2], "positions grow");
    let newest = positions[3];
    assert_eq!(self::positions(driver, sack(0)).await, Positions { acknowledged: Position(0), newest });
    assert_eq!(driver.backlog().await.unwrap().measures, 15);
    let by_metric = HashMap::from([(metric(4), 5), (metric(8), 8), (metric(5), 2), (metric(7), 0)]);
    assert_eq!(driver.backlog_by_metric().await.unwrap(), by_metric);
}

async fn a_read_is_bounded_but_never_splits_a_batch(driver: &dyn Incoming) {
    let text = "x".repeat(1000);
    for _ in 0..5 {
        driver.append(batch(&[(4, 1, &text), (8, 1, &text)])).await.unwrap();
    }
    let (mut seen, mut after, mut reads) = (0, Position(0), 0);
    loop {
        let pending = driver.pending(sack(0), after, 3000).await.unwrap();
        let records = pending.records;
        let Some(last) = records.last() else { break };
        assert_eq!(pending.more, last.position < positions(driver, sack(0)).await.newest, "what is left");
        assert!(records.len() % 2 == 0, "a batch came in two parts");
        assert!(records.len() <= 4, "far more than asked for: {}", records.len());
        assert!(records[0].position > after, "a record came twice");
        (seen, after, reads) = (seen + records.len(), last.position, reads + 1);
    }
    assert_eq!(seen, 10);
    assert!(reads > 1);
    assert_eq!(driver.pending(sack(0), Position(0), 0).await.unwrap().records.len(), 2, "at least one batch");
}

async fn acknowledged_records_are_gone(driver: &dyn Incoming) {
    for text in ["a", "b", "c"] {
        driver.append(batch(&[(4, 10, text), (5, 1, text)])).await.unwrap();
    }
    let records = all(driver, 0).await;
    driver.acknowledge(sack(0), records[1].position).await.unwrap();
    assert_eq!(shown(&all(driver, 0).await), [(4, 10, "c")]);
    assert_eq!(all(driver, 1).await.len(), 3, "another sack's records stay");
    let (acknowledged, newest) = (records[1].position, records[2].position);
    assert_eq!(positions(driver, sack(0)).await, Positions { acknowledged, newest });
    assert_eq!(driver.backlog().await.unwrap().measures, 13);
    // An older acknowledgement has no effect.
    driver.acknowledge(sack(0), records[0].position).await.unwrap();
    assert_eq!(positions(driver, sack(0)).await.acknowledged, records[1].position);
    driver.acknowledge(sack(0), records[2].position).await.unwrap();
    driver.acknowledge(sack(1), positions(driver, sack(1)).await.newest).await.unwrap();
    assert_eq!(driver.backlog().await.unwrap(), Backlog::default(), "nothing waits, no byte is left");
    driver.append(batch(&[(4, 1, "d")])).await.unwrap();
    assert!(all(driver, 0).await[0].position > records[2].position, "positions grow");
}

async fn arrivals_name_each_sack_once(driver: Arc<dyn Incoming>) {
    driver.append(batch(&[(4, 1, "a"), (5, 1, "b")])).await.unwrap();
    driver.append(batch(&[(4, 1, "c")])).await.unwrap();
    let mut named = driver.arrivals().await;
    named.sort_unstable();
    assert_eq!(named, [sack(0), sack(1)]);
    let waiting = tokio::spawn({
        let driver = Arc::clone(&driver);
        async move { driver.arrivals().await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!waiting.is_finished(), "sacks were named twice");
    driver.append(batch(&[(5, 1, "d")])).await.unwrap();
    assert_eq!(waiting.await.unwrap(), [sack(1)]);
}

async fn a_full_backlog_refuses_whole_batches(driver: &dyn Incoming) {
    let text = "x".repeat(1500);
    driver.append(batch(&[(4, 1, &text)])).await.unwrap();
    driver.append(batch(&[(5, 1, &text)])).await.unwrap();
    let backlog = driver.backlog().await.unwrap();
    for _ in 0..3 {
        match driver.append(batch(&[(6, 1, "small"), (7, 1, &text)])).await {
            Err(IncomingError::BacklogFull { limit: 4096, .. }) => {}
            answer => panic!("a full backlog answered {answer:?}"),
        }
    }
    assert_eq!(driver.backlog().await.unwrap(), backlog, "a refused batch left something");
    assert_eq!(all(driver, 2).await, [], "a part of a refused batch is there");
    driver.append(batch(&[(6, 1, "small")])).await.expect("what fits is taken");
    driver.acknowledge(sack(0), positions(driver, sack(0)).await.newest).await.unwrap();
    driver.append(batch(&[(7, 1, &text)])).await.expect("acknowledging makes room");
}

async fn counts_hold_under_concurrency(driver: Arc<dyn Incoming>) {
    let appenders: Vec<_> = (0..8u128)
        .map(|task| {
            let driver = Arc::clone(&driver);
            tokio::spawn(async move {
                for round in 0..50u32 {
                    driver.append(batch(&[(task, round, "p"), (task + 8, 1, "q")])).await.unwrap();
                }
            })
        })
        .collect();
    let worker = tokio::spawn({
        let driver = Arc::clone(&driver);
        async move {
            let mut seen: HashMap<MetricId, Vec<u32>> = HashMap::new();
            let mut count = 0;
            while count < 800 {
                for sack in driver.arrivals().await {
                    while let Some((records, last)) = {
                        let records = driver.pending(sack, Position(0), 500).await.unwrap().records;
                        records.last().map(|last| last.position).map(|last| (records, last))
                    } {
                        count += records.len();
                        for record in records {
                            seen.entry(record.metric).or_default().push(record.measures);
                        }
                        driver.acknowledge(sack, last).await.unwrap();
                    }
                }
            }
            seen
        }
    });
    for appender in appenders {
        appender.await.unwrap();
    }
    let seen = tokio::time::timeout(ARRIVAL_TIME_MAX, worker).await.expect("an arrival was lost").unwrap();
    for task in 0..8 {
        assert_eq!(
            seen[&metric(task)],
            (0..50).collect::<Vec<u32>>(),
            "each once, in the order of acceptance"
        );
        assert_eq!(seen[&metric(task + 8)], vec![1; 50]);
    }
    assert_eq!(driver.backlog().await.unwrap(), Backlog::default());
}

async fn trimming_changes_nothing_that_can_be_seen(driver: &dyn Incoming) {
    driver.append(batch(&[(4, 1, "a"), (5, 1, "b")])).await.unwrap();
    driver.append(batch(&[(4, 1, "c")])).await.unwrap();
    let first = all(driver, 0).await[0].position;
    driver.acknowledge(sack(0), first).await.unwrap();
    driver.trim(&[(sack(0), first)]).await.unwrap();
    assert_eq!(shown(&all(driver, 0).await), [(4, 1, "c")]);
    assert_eq!(shown(&all(driver, 1).await), [(5, 1, "b")]);
    assert_eq!(driver.backlog().await.unwrap().measures, 2);
    driver.trim(&[]).await.unwrap();
}
