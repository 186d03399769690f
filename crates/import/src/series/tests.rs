//! Reads a metric while a simulated Gnocchi processes it: at each call requests arrive, or gnocchi-metricd executes a
//! step of a pass.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_drivers::aggregates::memory::MemoryAggregates;
use gnudi_indexer::MemoryIndexer;
use gnudi_model::{Aggregation, ArchivePolicyItem, Measure};
use gnudi_series::read;
use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::source::{StoredSplit, Wanted, damaged::Damaged};

const SECOND: i64 = 1_000_000_000;
const COARSEST: i64 = 60 * SECOND;
const METRIC: MetricId = MetricId(uuid::Uuid::from_u128(5));

type Column = (Timespan, AggregationMethod);
type Buckets = BTreeMap<Timestamp, f64>;

/// The state of a metric after some requests, each processed in its own pass.
#[derive(Clone, Default)]
struct Truth {
    head: Head,
    blocks: Vec<gnudi_series::head::SealedBlock>,
    points: BTreeMap<Timestamp, f64>,
}

impl Truth {
    fn after(mut self, layout: &Layout, back_window: i64, request: &[Measure]) -> Self {
        let window = |points: &BTreeMap<Timestamp, f64>| {
            let block = |last: &Timestamp| Timestamp((last.0 / COARSEST - back_window) * COARSEST);
            points.keys().next_back().map_or(Timestamp(0), block)
        };
        let first = window(&self.points);
        self.points.extend(
            request
                .iter()
                .filter(|point| point.timestamp >= first)
                .map(|point| (point.timestamp, point.value)),
        );
        let first = window(&self.points);
        self.points.retain(|time, _| *time >= first);
        let position = self.head.applied() + 1;
        self.head.fold(layout, position, &mut request.to_vec());
        self.blocks.extend(self.head.take_sealed());
        self
    }

    fn columns(&self, layout: &Layout) -> BTreeMap<Column, Buckets> {
        columns(
            layout,
            &self.head,
            &self
                .blocks
                .iter()
                .map(|block| (block.granularity, block.first, block.last, block.bytes.as_slice()))
                .collect::<Vec<_>>(),
        )
    }
}

type BlockParts<'a> = (Timespan, Timestamp, Timestamp, &'a [u8]);

fn columns(layout: &Layout, head: &Head, blocks: &[BlockParts<'_>]) -> BTreeMap<Column, Buckets> {
    let mut all = BTreeMap::new();
    for granularity in layout.granularities() {
        let of_grain: Vec<_> = blocks
            .iter()
            .filter(|block| block.0 == granularity)
            .map(|block| (block.1, block.2, block.3))
            .collect();
        for &method in layout.methods() {
            let aggregation = Aggregation { method, granularity, timespan: None };
            let range = read::ReadRange::default();
            let series = read::assemble(&of_grain, Some(head), layout, aggregation, range).unwrap();
            all.insert((granularity, method), series.timestamps.into_iter().zip(series.values).collect());
        }
    }
    all
}

/// The progress of the running pass.
enum Step {
    /// Columns still to be written.
    Splits(Vec<Column>),
    Points,
    Removal,
}

struct Gnocchi {
    layout: Layout,
    back_window: i64,
    /// Requests still to arrive, the next one last.
    coming: Vec<Vec<Measure>>,
    /// The correct state after each request.
    truths: Vec<Truth>,
    waiting: Vec<StoredMeasures>,
    /// Number of processed requests.
    processed: usize,
    pass: Option<Step>,
    splits: BTreeMap<Column, Buckets>,
    points: Option<BTreeMap<Timestamp, f64>>,
    /// What happens at each call; when exhausted, passes run to their end.
    chance: Box<dyn Iterator<Item = u8> + Send>,
    /// Number of requests that had arrived at each listing of the backlog.
    looks: Vec<usize>,
}

impl Gnocchi {
    fn go_on(&mut self) {
        // Mostly a few steps, sometimes whole passes.
        let steps = self.chance.next().unwrap_or(u8::MAX);
        for _ in 0..if steps < 50 { steps } else { steps % 4 } {
            match self.chance.next().unwrap_or(u8::MAX) {
                0..40 => self.take_request(),
                _ => self.work(),
            }
        }
    }

    fn take_request(&mut self) {
        let Some(request) = self.coming.pop() else { return };
        let bytes = |point: &Measure| [point.timestamp.0.to_le_bytes(), point.value.to_le_bytes()].concat();
        let bytes: Vec<u8> = request.iter().flat_map(bytes).collect();
        self.waiting.push(StoredMeasures { place: self.truths.len().to_string(), bytes: bytes.into() });
        let truth =
            self.truths.last().cloned().unwrap_or_default().after(&self.layout, self.back_window, &request);
        self.truths.push(truth);
    }

    fn work(&mut self) {
        let Some(truth) = self.truths.get(self.processed) else { return };
        let new = truth.columns(&self.layout);
        self.pass = match self.pass.take() {
            None => Some(Step::Splits(new.into_keys().collect())),
            Some(Step::Splits(mut columns)) => match columns.pop() {
                Some(column) => {
                    self.splits.insert(column, new[&column].clone());
                    Some(Step::Splits(columns))
                }
                None => Some(Step::Points),
            },
            Some(Step::Points) => {
                self.points = Some(truth.points.clone());
                Some(Step::Removal)
            }
            Some(Step::Removal) => {
                self.waiting.remove(0);
                self.processed += 1;
                None
            }
        };
    }
}

struct Shared(Mutex<Gnocchi>);

#[async_trait]
impl Storage for Shared {
    fn points_place(&self, _: MetricId) -> String {
        "points".to_owned()
    }

    async fn points(&self, _: MetricId) -> Result<Option<Bytes>, SourceError> {
        let mut gnocchi = self.0.lock();
        gnocchi.go_on();
        Ok(gnocchi.points.as_ref().map(encoded_points))
    }

    async fn splits(&self, _: MetricId, wanted: Wanted<'_>) -> Result<Vec<StoredSplit>, SourceError> {
        let columns: Vec<Column> = self.0.lock().splits.keys().copied().collect();
        let mut splits = Vec::new();
        for (granularity, method) in columns {
            let mut gnocchi = self.0.lock();
            gnocchi.go_on();
            for (start, bytes) in encoded_splits(granularity, &gnocchi.splits[&(granularity, method)]) {
                let key = SplitKey { method, granularity, start };
                if wanted(&key) {
                    splits.push(StoredSplit { key, place: String::new(), bytes });
                }
            }
        }
        Ok(splits)
    }
}

#[async_trait]
impl Incoming for Shared {
    async fn backlog(&self) -> Result<HashSet<MetricId>, SourceError> {
        Ok(HashSet::from([METRIC]))
    }

    async fn backlog_of(&self, _: MetricId) -> Result<Vec<StoredMeasures>, SourceError> {
        let mut gnocchi = self.0.lock();
        gnocchi.go_on();
        let came = gnocchi.truths.len();
        gnocchi.looks.push(came);
        Ok(gnocchi.waiting.clone())
    }
}

fn encoded_points(points: &BTreeMap<Timestamp, f64>) -> Bytes {
    let mut before = 0;
    let distances =
        points.keys().flat_map(|time| (time.0 - std::mem::replace(&mut before, time.0)).to_le_bytes());
    let mut bytes: Vec<u8> = distances.collect();
    bytes.extend(points.values().flat_map(|value| value.to_le_bytes()));
    lz4_flex::block::compress_prepend_size(&bytes).into()
}

/// By the start of each split as Gnocchi names it, in double precision; nine bytes per bucket.
fn encoded_splits(granularity: Timespan, buckets: &Buckets) -> BTreeMap<Timestamp, Bytes> {
    let span = granularity.0 * carbonara::BUCKETS_MAX;
    let mut splits: BTreeMap<Timestamp, Vec<u8>> = BTreeMap::new();
    for (time, value) in buckets {
        let start = Timestamp(time.0.div_euclid(span) * span);
        let bytes = splits.entry(start).or_default();
        bytes.resize(((time.0 - start.0) / granularity.0) as usize * 9, 0);
        bytes.push(1);
        bytes.extend(value.to_le_bytes());
    }
    let named = |start: Timestamp| Timestamp((start.0 as f64 / 1e9 * 1e9) as i64);
    splits.into_iter().map(|(start, bytes)| (named(start), bytes.into())).collect()
}

fn policy(back_window: u64) -> ArchivePolicy {
    let item = |seconds| ArchivePolicyItem::new(Some(Timespan(seconds * SECOND)), None, None).unwrap();
    let methods = ["mean", "sum", "count", "last"].iter().map(|name| name.parse().unwrap()).collect();
    ArchivePolicy::new("p".to_owned(), back_window, vec![item(1), item(60)], methods).unwrap()
}

/// Requests close in time, with late points that are never too late: which of those Gnocchi drops depends on its
/// passes. So does which value of a time it keeps, unless later requests have smaller ones.
fn requests() -> impl Strategy<Value = Vec<Vec<Measure>>> {
    let request = (
        (0i64..14).prop_map(|step| step * 5),
        prop::collection::btree_map((0i64..18).prop_map(|step| step * 5), -100i32..100, 1..8),
    );
    prop::collection::vec(request, 1..12).prop_map(|requests| {
        let mut now = 100_000;
        let mut lowest: BTreeMap<i64, i32> = BTreeMap::new();
        let moved = |(step, points): (i64, BTreeMap<i64, i32>)| {
            now += step;
            let point = |(offset, value): (i64, i32)| {
                let time = now + offset;
                let value = lowest.get(&time).map_or(value, |before| value.min(before - 1));
                lowest.insert(time, value);
                Measure { timestamp: Timestamp(time * SECOND), value: f64::from(value) }
            };
            points.into_iter().map(point).collect()
        };
        requests.into_iter().map(moved).collect()
    })
}

/// The head and all blocks that imports have written.
type Stored = (Vec<u8>, Vec<(BlockKey, Bytes)>);

/// The imported state must be a correct one after some request between those processed when the import began and those
/// that had arrived when it ended.
async fn check(
    source: &SeriesSource,
    shared: &Shared,
    stored: &mut Option<Stored>,
) -> Result<(), TestCaseError> {
    let layout = shared.0.lock().layout.clone();
    let head = stored.as_ref().map(|(head, _)| head.clone());
    let outcome = loop {
        if let Some(outcome) = read(source, METRIC, &layout, head.as_deref()).await.unwrap() {
            break outcome;
        }
    };
    prop_assert_eq!((outcome.finalised, outcome.skipped), (0, Vec::new()));
    if let Some(write) = outcome.write {
        let mut blocks = stored.take().map_or_else(Vec::new, |(_, blocks)| blocks);
        blocks.extend(write.blocks);
        *stored = Some((write.head.to_vec(), blocks));
    }
    let (head, blocks) = stored.clone().unwrap_or_else(|| {
        let mut empty = Vec::new();
        Head::new().encode(&mut empty);
        (empty, Vec::new())
    });
    let head = Head::decode(&head).unwrap();
    let blocks: Vec<_> =
        blocks.iter().map(|(key, bytes)| (key.granularity, key.first, key.last, &bytes[..])).collect();
    let found = columns(&layout, &head, &blocks);
    let gnocchi = shared.0.lock();
    let looked = gnocchi.looks[gnocchi.looks.len() - 2];
    let is_true = |came: usize| match came {
        0 => found.values().all(BTreeMap::is_empty),
        came => gnocchi.truths[came - 1].columns(&layout) == found,
    };
    prop_assert!((looked..=gnocchi.truths.len()).any(is_true), "{found:?}");
    Ok(())
}

proptest! {
    #[test]
    fn a_metric_is_read_as_it_was_at_one_moment(
        requests in requests(), back_window in 2u64..4, chance in prop::collection::vec(any::<u8>(), 1..500), rounds in 1usize..5,
    ) {
        let shared = gnocchi(back_window);
        {
            let mut gnocchi = shared.0.lock();
            gnocchi.coming = requests;
            gnocchi.coming.reverse();
            gnocchi.chance = Box::new(chance.into_iter());
        }
        let source = source_of(&shared, HashSet::from([METRIC]), true);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut stored = None;
        for _ in 0..rounds {
            runtime.block_on(check(&source, &shared, &mut stored))?;
        }
    }
}

/// A Gnocchi without anything, which stays so.
fn gnocchi(back_window: u64) -> Arc<Shared> {
    Arc::new(Shared(Mutex::new(Gnocchi {
        layout: Layout::of(&policy(back_window)),
        back_window: back_window as i64,
        coming: Vec::new(),
        truths: Vec::new(),
        waiting: Vec::new(),
        processed: 0,
        pass: None,
        splits: BTreeMap::new(),
        points: None,
        chance: Box::new(std::iter::empty()),
        looks: Vec::new(),
    })))
}

/// A layout with rates, and a head of it with points at 100 and 101 s.
fn with_rates() -> (Layout, Vec<u8>) {
    let methods = ["mean", "rate:mean"].iter().map(|name| name.parse().unwrap()).collect();
    let item = ArchivePolicyItem::new(Some(Timespan(SECOND)), None, None).unwrap();
    let layout = Layout::of(&ArchivePolicy::new("p".to_owned(), 0, vec![item], methods).unwrap());
    let mut head = Head::default();
    let point = |second| Measure { timestamp: Timestamp::from_secs(second), value: 1.0 };
    head.fold_import(&layout, &mut vec![point(100), point(101)]);
    let mut stored = Vec::new();
    head.encode(&mut stored);
    (layout, stored)
}

fn source_of(shared: &Arc<Shared>, backlog: HashSet<MetricId>, includes_backlog: bool) -> SeriesSource {
    let source = SeriesSource::new(shared.clone(), shared.clone(), &[], backlog, includes_backlog);
    SeriesSource { pause: Duration::ZERO, ..source }
}

#[tokio::test]
async fn a_metric_stays_as_it_is_if_its_points_are_gone() {
    let (layout, stored) = with_rates();
    for includes_backlog in [false, true] {
        let source = source_of(&gnocchi(0), HashSet::new(), includes_backlog);
        let outcome = read(&source, METRIC, &layout, Some(&stored)).await.unwrap().unwrap();
        assert!(outcome.write.is_none() && outcome.is_waited_for);
        // Between two rounds it may have been deleted.
        assert_eq!(outcome.skipped.len(), usize::from(includes_backlog));
        let never = read(&source, METRIC, &layout, None).await.unwrap().unwrap();
        assert!(never.write.is_none() && !never.is_waited_for && never.skipped.is_empty());
    }
}

#[tokio::test]
async fn a_metric_whose_points_are_gone_stays_also_if_measures_wait() {
    let (layout, stored) = with_rates();
    let shared = gnocchi(0);
    wait(&shared, &[(102, 1.0)]);
    for includes_backlog in [false, true] {
        let source = source_of(&shared, HashSet::from([METRIC]), includes_backlog);
        source.accepts_inconsistent.store(true, Ordering::Relaxed);
        let outcome = read(&source, METRIC, &layout, Some(&stored)).await.unwrap().unwrap();
        assert!(outcome.write.is_none() && outcome.is_waited_for);
        assert_eq!(outcome.skipped.len(), usize::from(includes_backlog));
    }
    // An earlier import took the head's points from the backlog: Gnocchi has not processed any yet.
    wait(&shared, &[(100, 1.0)]);
    wait(&shared, &[(101, 1.0)]);
    let source = source_of(&shared, HashSet::from([METRIC]), true);
    let outcome = read(&source, METRIC, &layout, Some(&stored)).await.unwrap().unwrap();
    assert_eq!((outcome.measures, outcome.skipped.len()), (3, 0));
    let head = Head::decode(&outcome.write.unwrap().head).unwrap();
    assert_eq!(head.last(), Some(Timestamp::from_secs(102)));
}

/// A request of these seconds and values that waits.
fn wait(shared: &Shared, points: &[(i64, f64)]) {
    let bytes =
        |(second, value): &(i64, f64)| [(second * SECOND).to_le_bytes(), value.to_le_bytes()].concat();
    let bytes: Vec<u8> = points.iter().flat_map(bytes).collect();
    shared.0.lock().waiting.push(StoredMeasures { place: String::new(), bytes: bytes.into() });
}

/// What an import with the backlog reads.
async fn imported(shared: &Arc<Shared>, layout: &Layout) -> BTreeMap<Column, Buckets> {
    let source = source_of(shared, HashSet::from([METRIC]), true);
    let outcome = read(&source, METRIC, layout, None).await.unwrap().unwrap();
    assert_eq!((outcome.finalised, outcome.skipped), (0, Vec::new()));
    let write = outcome.write.unwrap();
    let blocks = write.blocks.iter();
    let blocks: Vec<_> =
        blocks.map(|(key, bytes)| (key.granularity, key.first, key.last, &bytes[..])).collect();
    columns(layout, &Head::decode(&write.head).unwrap(), &blocks)
}

fn buckets(values: &[(i64, f64)]) -> Buckets {
    values.iter().map(|(second, value)| (Timestamp::from_secs(*second), *value)).collect()
}

#[tokio::test]
async fn of_waiting_measures_of_one_time_the_smallest_counts() {
    let (layout, shared) = (Layout::of(&policy(0)), gnocchi(0));
    wait(&shared, &[(100, 9.0), (100, 4.0)]);
    wait(&shared, &[(100, 1.0), (101, 7.0)]);
    wait(&shared, &[(100, 5.0)]);
    let last: Column = (Timespan(SECOND), "last".parse().unwrap());
    assert_eq!(imported(&shared, &layout).await[&last], buckets(&[(100, 1.0), (101, 7.0)]));
}

#[tokio::test]
async fn a_pass_over_waiting_measures_begins_with_one_that_is_known() {
    let [mean, rate] = ["mean", "rate:mean"].map(|name| name.parse::<AggregationMethod>().unwrap());
    let item = |seconds| ArchivePolicyItem::new(Some(Timespan(seconds * SECOND)), None, None).unwrap();
    let policy = ArchivePolicy::new("p".to_owned(), 0, vec![item(1), item(60)], [mean, rate].into()).unwrap();
    let layout = Layout::of(&policy);
    // With the measure before it in the same pass, that of 110 s has a rate in all granularities, as in Gnocchi.
    for (request, expected) in
        [(vec![(100, 1.0), (110, 5.0)], vec![(110, 4.0)]), (vec![(110, 5.0)], Vec::new())]
    {
        let shared = gnocchi(0);
        {
            let mut gnocchi = shared.0.lock();
            gnocchi.points = Some(buckets(&[(100, 1.0)]));
            gnocchi.splits.insert((Timespan(SECOND), mean), buckets(&[(100, 1.0)]));
            gnocchi.splits.insert((Timespan(COARSEST), mean), buckets(&[(60, 1.0)]));
        }
        wait(&shared, &request);
        let found = imported(&shared, &layout).await;
        assert_eq!(found[&(Timespan(SECOND), rate)], buckets(&expected));
        assert_eq!(found[&(Timespan(COARSEST), rate)], buckets(&[(60, 4.0)]));
    }
}

#[test]
fn a_bucket_that_is_stored_twice_hides_none_after_it() {
    let column = |values: &[(i64, f64)]| -> Vec<(Timestamp, f64)> {
        values.iter().map(|(second, value)| (Timestamp::from_secs(*second), *value)).collect()
    };
    let twice = column(&[(1, 1.0), (2, 2.0), (2, 3.0), (4, 4.0), (5, 5.0)]);
    let grain = joined(Timespan(SECOND), &[twice, column(&[(1, 6.0), (4, 7.0)])]);
    assert_eq!(grain.starts, [1, 2, 4, 5].map(Timestamp::from_secs));
    let columns = [[Some(1.0), Some(2.0), Some(4.0), Some(5.0)], [Some(6.0), None, Some(7.0), None]];
    assert_eq!(grain.columns, columns);
}

#[tokio::test]
async fn buckets_begin_at_multiples_of_any_granularity() {
    // A policy of 33.3 s has this granularity in Gnocchi.
    let granularity = Timespan(33_299_999_999);
    let last: AggregationMethod = "last".parse().unwrap();
    let item = ArchivePolicyItem::new(Some(granularity), None, None).unwrap();
    let layout = Layout::of(&ArchivePolicy::new("p".to_owned(), 0, vec![item], [last].into()).unwrap());
    // By their names this split begins 112 ns early, and the one before it 128 ns late.
    let start = granularity.0 * carbonara::BUCKETS_MAX * 14_185;
    let bucket = |index: i64| (Timestamp(start + index * granularity.0), index as f64);
    let stored: Buckets = [-3_600, -1, 0, 1].map(bucket).into();
    let shared = gnocchi(0);
    {
        let mut gnocchi = shared.0.lock();
        gnocchi.points = Some([bucket(1)].into());
        gnocchi.splits.insert((granularity, last), stored.clone());
    }
    assert_eq!(imported(&shared, &layout).await[&(granularity, last)], stored);
}

#[test]
fn metrics_of_long_policies_are_read_a_few_at_a_time() {
    let item = |points| ArchivePolicyItem::new(Some(Timespan::from_secs(1)), points, None).unwrap();
    let policy = |name: &str, points: Option<u64>| {
        let methods = ArchivePolicy::default_methods();
        ArchivePolicy::new(name.to_owned(), 0, vec![item(points)], methods).unwrap()
    };
    let month = policy("month", Some(30 * 86_400));
    let methods = month.aggregation_methods.len() as u64;
    assert_eq!(values_of(&month), 30 * 86_400 * methods);
    assert_eq!(values_of(&policy("endless", None)), ENDLESS_BUCKETS * methods);
    let policies = [month, policy("short", Some(3_600)), policy("age", Some(100 * 365 * 86_400))];
    let source = SeriesSource::new(gnocchi(0), gnocchi(0), &policies, HashSet::new(), false);
    let sizes = |policies: &[(&str, usize)]| -> Vec<usize> {
        let names = policies.iter().flat_map(|(name, count)| std::iter::repeat_n(*name, *count));
        let metrics: Vec<NewMetric> =
            names.map(|name| NewMetric::new(METRIC, "creator", name, Timestamp::EPOCH)).collect();
        groups(&source, &metrics).iter().map(|group| group.len()).collect()
    };
    assert!(sizes(&[]).is_empty());
    assert_eq!(sizes(&[("short", 250)]), [100, 100, 50]);
    let at_once = usize::try_from(VALUES_AT_ONCE / (30 * 86_400 * methods)).unwrap();
    assert!((1..10).contains(&at_once), "{at_once}");
    assert_eq!(sizes(&[("month", 2 * at_once + 1)])[..2], [at_once, at_once]);
    // What is larger than all that may be read at once is read alone.
    assert_eq!(sizes(&[("short", 3), ("age", 2), ("short", 1)]), [3, 1, 1, 1]);
}

#[tokio::test]
async fn a_metric_that_lacks_something_is_written_when_the_round_ends() {
    let points = encoded_points(&BTreeMap::from([(Timestamp(100_000 * SECOND), 1.0)]));
    let storage = Arc::new(Damaged { points });
    let source = SeriesSource::new(storage, gnocchi(0), &[policy(0)], HashSet::new(), false);
    let source = Arc::new(SeriesSource { pause: Duration::ZERO, ..source });
    let (indexer, aggregates) = (MemoryIndexer::default(), MemoryAggregates::default());
    let target = Target { indexer: &indexer, aggregates: &aggregates, now: Timestamp::EPOCH };
    let metrics = vec![NewMetric::new(METRIC, "creator", "p", Timestamp::EPOCH)];
    // An import that is killed here reads the split again when it is repeated.
    let mut report = Report::default();
    let reads = begin(&source, target, metrics).await.unwrap();
    let held = reads.finish(target, Incomplete::Held, &mut report).await.unwrap().held;
    assert_eq!((held.len(), &report), (1, &Report::default()));
    assert_eq!(target.aggregates.read_heads(&[METRIC]).await.remove(0).unwrap(), None);
    let reads = begin(&source, target, held).await.unwrap();
    let imported = reads.finish(target, Incomplete::Written, &mut report).await.unwrap();
    assert!(imported.held.is_empty() && imported.complete == [METRIC]);
    assert!(matches!(&report.skipped[..], [reason] if reason.starts_with("split: ")), "{report:?}");
    assert!(target.aggregates.read_heads(&[METRIC]).await.remove(0).unwrap().is_some());
}
