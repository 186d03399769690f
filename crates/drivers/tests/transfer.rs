//! Randomised transfers between two stores: the source is written meanwhile, the target fails in the middle
//! of writes, and the command is interrupted and repeated. At the end both are equal.

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_drivers::{
    aggregates::{
        AggregateStore, BlockKey, BlockRange, Blocks, Fence, MetricWrite, Movable, StoreError, StoreState,
        memory::MemoryAggregates,
    },
    transfer::{Depth, Observer, Report, Retries, Transfer},
};
use gnudi_model::{MetricId, Timespan, Timestamp};
use parking_lot::Mutex;
use support::{aggregate_items::metric, random::Random};

const METRICS: usize = 400;
const MINUTE: Timespan = Timespan(60_000_000_000);
const RAW: Timespan = Timespan(0);

/// Workers' passes: each changes the head, and some of the blocks, also in place.
struct Writer {
    store: Arc<MemoryAggregates>,
    random: Random,
    position: u64,
    metrics: BTreeSet<usize>,
    blocks: BTreeMap<usize, BTreeSet<BlockKey>>,
}

impl Writer {
    async fn pass(&mut self) {
        let id = self.random.below(METRICS);
        self.position += 1;
        let known = self.blocks.entry(id).or_default();
        let mut write = MetricWrite::of_head(metric(id), format!("head {}", self.position));
        for _ in 0..self.random.below(4) {
            let granularity = if self.random.one_in(3) { RAW } else { MINUTE };
            let at = Timestamp::from_secs(100 * self.random.below(30) as i64);
            let last = Timestamp(at.0 + 60_000_000_000);
            let key = BlockKey { metric: metric(id), granularity, first: at, last };
            if self.random.one_in(5) {
                known.remove(&key);
                write.expired.push(key);
                write.blocks.retain(|(other, _)| *other != key);
            } else {
                known.insert(key);
                write.expired.retain(|other| *other != key);
                write.blocks.push((key, Bytes::from(format!("block {}", self.position).repeat(20))));
            }
        }
        self.metrics.insert(id);
        self.store.write(Fence::EVERYTHING, vec![write]).await.remove(0).unwrap();
    }

    async fn delete(&mut self) {
        let Some(id) = self.metrics.iter().nth(self.random.below(self.metrics.len().max(1))).copied() else {
            return;
        };
        self.metrics.remove(&id);
        self.blocks.remove(&id);
        self.store.delete(Fence::EVERYTHING, &[metric(id)]).await.remove(0).unwrap();
    }
}

/// A target that fails at times, after executing a part of the call.
struct Flaky {
    store: Arc<MemoryAggregates>,
    random: Mutex<Random>,
    /// One call in this many fails; 0: none.
    rarely: usize,
    /// Runs before each write.
    passes: Option<Arc<tokio::sync::Mutex<Writer>>>,
    /// A block of this time was lost, with its key.
    lost: Option<Timestamp>,
}

impl Flaky {
    /// A target that never fails.
    fn reliable(store: Arc<MemoryAggregates>) -> Self {
        Flaky { store, random: Mutex::new(Random::new(1)), rarely: 0, passes: None, lost: None }
    }

    fn fails(&self) -> bool {
        self.rarely > 0 && self.random.lock().one_in(self.rarely)
    }

    /// Reads of a store rely on it.
    async fn assert_apart(&self, metrics: &[MetricId]) {
        for keys in self.store.list_blocks(&all_ranges(metrics)).await {
            let keys = keys.unwrap();
            assert!(keys.is_sorted_by(|one, next| one.last < next.first), "blocks overlap: {keys:?}");
        }
    }
}

fn all_ranges(metrics: &[MetricId]) -> Vec<BlockRange> {
    let of = |metric: &MetricId| [RAW, MINUTE].map(|granularity| BlockRange::all(*metric, granularity));
    metrics.iter().flat_map(of).collect()
}

async fn transfer(source: Arc<dyn Movable>, target: Arc<dyn Movable>, token: u64) -> Transfer {
    let fence = Fence { token, ..Fence::EVERYTHING };
    let retries = Retries { pause: Duration::from_micros(100), timeout: Duration::from_hours(1) };
    Transfer::begin(source, target, fence, granularities, retries).await.unwrap()
}

fn no_answer() -> StoreError {
    StoreError::Unavailable("for now".to_owned())
}

#[async_trait]
impl AggregateStore for Flaky {
    async fn read_heads(&self, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>, StoreError>> {
        if self.fails() {
            vec![Err(no_answer()); metrics.len()]
        } else {
            self.store.read_heads(metrics).await
        }
    }

    async fn read_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Blocks, StoreError>> {
        let mut found = self.store.read_blocks(ranges).await;
        for (range, found) in ranges.iter().zip(&mut found) {
            let is_there =
                |lost: &Timestamp| range.granularity == MINUTE && (range.from..=range.to).contains(lost);
            if let Ok(blocks) = found
                && self.lost.as_ref().is_some_and(is_there)
            {
                blocks.damaged.push("a lost block".to_owned());
            }
        }
        found
    }

    async fn list_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Vec<BlockKey>, StoreError>> {
        self.store.list_blocks(ranges).await
    }

    async fn raise(&self, fence: Fence) -> Result<(), StoreError> {
        self.store.raise(fence).await
    }

    async fn write(&self, fence: Fence, mut writes: Vec<MetricWrite>) -> Vec<Result<(), StoreError>> {
        if let Some(writer) = &self.passes {
            let mut writer = writer.lock().await;
            for _ in 0..20 {
                writer.pass().await;
            }
        }
        let asked = writes.len();
        let fails = self.fails();
        writes.truncate(if fails { asked / 2 } else { asked });
        let written: Vec<MetricId> = writes.iter().map(|write| write.metric).collect();
        let answers = self.store.write(fence, writes).await;
        self.assert_apart(&written).await;
        if fails { vec![Err(no_answer()); asked] } else { answers }
    }

    async fn delete(&self, fence: Fence, metrics: &[MetricId]) -> Vec<Result<(), StoreError>> {
        self.store.delete(fence, metrics).await
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.store.sync().await
    }
}

#[async_trait]
impl Movable for Flaky {
    fn place(&self) -> String {
        self.store.place()
    }

    async fn identity(&self) -> Result<uuid::Uuid, StoreError> {
        self.store.identity().await
    }

    async fn state(&self) -> Result<StoreState, StoreError> {
        self.store.state().await
    }

    async fn set_state(&self, state: StoreState) -> Result<(), StoreError> {
        self.store.set_state(state).await
    }

    async fn list_metrics(&self) -> Result<Vec<MetricId>, StoreError> {
        self.store.list_metrics().await
    }
}

struct Silent;

impl Observer for Silent {
    fn tell(&mut self, report: &Report) {
        assert!(report.metrics <= report.metrics_total);
    }

    fn no_answer(&mut self, _: &StoreError) {}
}

/// As in these tests' heads.
fn granularities(head: &Bytes) -> Result<Option<Vec<Timespan>>, StoreError> {
    if head.starts_with(b"newer") {
        return Err(StoreError::Io("a newer program wrote it".to_owned()));
    }
    Ok(head.starts_with(b"head").then(|| vec![MINUTE]))
}

async fn contents(store: &MemoryAggregates) -> (Vec<Option<Bytes>>, Vec<Blocks>) {
    let metrics: Vec<MetricId> = (0..METRICS).map(metric).collect();
    let ranges = all_ranges(&metrics);
    let heads = store.read_heads(&metrics).await.into_iter().map(Result::unwrap).collect();
    (heads, store.read_blocks(&ranges).await.into_iter().map(Result::unwrap).collect())
}

struct World {
    source: Arc<MemoryAggregates>,
    target: Arc<MemoryAggregates>,
    writer: Arc<tokio::sync::Mutex<Writer>>,
}

impl World {
    async fn new(seed: u64) -> Self {
        let source = Arc::new(MemoryAggregates::default());
        let random = Random::new(seed);
        let (metrics, blocks) = (BTreeSet::new(), BTreeMap::new());
        let mut writer = Writer { store: source.clone(), random, position: 0, metrics, blocks };
        for _ in 0..1000 {
            writer.pass().await;
        }
        let writer = Arc::new(tokio::sync::Mutex::new(writer));
        World { source, target: Arc::new(MemoryAggregates::default()), writer }
    }

    async fn begin(&self, token: u64, rarely: usize, is_written: bool) -> Transfer {
        let (random, passes) = (Mutex::new(Random::new(token)), is_written.then(|| self.writer.clone()));
        let flaky = Flaky { random, rarely, passes, ..Flaky::reliable(self.target.clone()) };
        transfer(self.source.clone(), Arc::new(flaky), token).await
    }

    async fn metrics(&self) -> Vec<MetricId> {
        self.writer.lock().await.metrics.iter().copied().map(metric).collect()
    }

    async fn try_round(&self, transfer: &Transfer, depth: Depth) -> Result<Report, StoreError> {
        transfer.round(&self.metrics().await, depth, &mut Silent).await
    }

    async fn round(&self, transfer: &Transfer, depth: Depth) -> Report {
        self.try_round(transfer, depth).await.unwrap()
    }
}

#[tokio::test]
async fn both_are_equal_at_the_end() {
    for seed in 1..=10 {
        let world = World::new(seed).await;
        let mut random = Random::new(seed);
        // Some runs while the source is written, each interrupted at some time; the last has no failures.
        for token in 1..5 {
            let transfer = world.begin(token, 6, true).await;
            for depth in [Depth::Changes, Depth::Everything] {
                let cut = Duration::from_micros(random.next() % 20_000);
                let _ = tokio::time::timeout(cut, world.try_round(&transfer, depth)).await;
                world.writer.lock().await.delete().await;
            }
        }
        world.source.raise(Fence::CLOSING).await.unwrap();
        let transfer = world.begin(9, 6, false).await;
        let mut rounds = 0;
        loop {
            let report = world.round(&transfer, Depth::Everything).await;
            rounds += 1;
            if report.metrics_written + report.metrics_removed == 0 {
                break;
            }
        }
        assert!(rounds <= 3, "seed {seed}: {rounds} rounds");
        assert_eq!(contents(&world.source).await, contents(&world.target).await, "seed {seed}");
    }
}

#[tokio::test]
async fn a_round_writes_what_has_changed_only() {
    let world = World::new(5).await;
    let transfer = world.begin(1, 0, false).await;
    let count = world.metrics().await.len() as u64;
    let round = async |depth| world.round(&transfer, depth).await;
    let first = round(Depth::Changes).await;
    assert_eq!((first.metrics_written, first.metrics), (count, count));
    assert_eq!(round(Depth::Changes).await.metrics_written, 0);
    assert_eq!(round(Depth::Everything).await.metrics_compared, count);
    world.writer.lock().await.pass().await;
    let changed = round(Depth::Everything).await;
    assert_eq!((changed.metrics_written, changed.metrics_compared), (1, 0), "{changed:?}");
    let settled = round(Depth::Everything).await;
    assert_eq!((settled.metrics_written, settled.metrics_compared), (0, 1), "{settled:?}");
}

#[tokio::test]
async fn what_differs_in_the_target_is_found_and_written_again() {
    let world = World::new(6).await;
    let transfer = world.begin(1, 0, false).await;
    world.round(&transfer, Depth::Changes).await;
    let (heads, blocks) = contents(&world.source).await;
    let (key, bytes) = blocks.iter().flat_map(|blocks| &blocks.whole).next().unwrap().clone();
    let at = (0..METRICS).position(|id| metric(id) == key.metric).unwrap();
    let head = heads[at].clone().unwrap();
    let wrong = Bytes::from([b"x", &bytes[1..]].concat());
    let write = MetricWrite { metric: key.metric, blocks: vec![(key, wrong)], expired: Vec::new(), head };
    world.target.write(Fence { token: 1, ..Fence::EVERYTHING }, vec![write]).await.remove(0).unwrap();
    let found = world.round(&transfer, Depth::Everything).await;
    assert_eq!((found.metrics_written, found.blocks_written), (1, 1), "{found:?}");
    assert_eq!(contents(&world.source).await, contents(&world.target).await);
}

#[tokio::test]
async fn a_second_transfer_stops_the_first() {
    let world = World::new(7).await;
    let first = world.begin(1, 0, false).await;
    let second = world.begin(2, 0, false).await;
    let refused = world.try_round(&first, Depth::Changes).await;
    assert!(matches!(refused, Err(StoreError::Fenced { held: 2, .. })), "{refused:?}");
    world.round(&second, Depth::Changes).await;
    assert_eq!(contents(&world.source).await, contents(&world.target).await);
}

#[tokio::test]
async fn a_head_of_a_newer_program_is_no_damage() {
    let world = World::new(8).await;
    let transfer = world.begin(1, 0, false).await;
    let id = world.metrics().await[0];
    let write = MetricWrite::of_head(id, "newer");
    world.source.write(Fence::EVERYTHING, vec![write]).await.remove(0).unwrap();
    for depth in [Depth::Changes, Depth::Everything] {
        let refused = world.try_round(&transfer, depth).await;
        assert!(matches!(refused, Err(StoreError::Io(_))), "{refused:?}");
    }
}

/// A lost block before, between and behind those that are left, or the only one.
#[tokio::test]
async fn lost_blocks_without_keys_are_noticed() {
    let key = |at: i64| BlockKey {
        metric: metric(1),
        granularity: MINUTE,
        first: Timestamp::from_secs(100 * at),
        last: Timestamp::from_secs(100 * at + 60),
    };
    for (count, lost_s) in [(0, 0), (1, -500), (1, 500), (300, 25_580), (300, 25_480), (300, 90_000)] {
        let store = Arc::new(MemoryAggregates::default());
        let blocks = (0..count).map(|at| (key(at), Bytes::from_static(b"block"))).collect();
        let write =
            MetricWrite { metric: metric(1), blocks, expired: Vec::new(), head: Bytes::from_static(b"head") };
        store.write(Fence::EVERYTHING, vec![write]).await.remove(0).unwrap();
        let source = Flaky { lost: Some(Timestamp::from_secs(lost_s)), ..Flaky::reliable(store) };
        let transfer = transfer(Arc::new(source), Arc::new(MemoryAggregates::default()), 1).await;
        let report = transfer.round(&[metric(1)], Depth::Everything, &mut Silent).await.unwrap();
        assert_eq!((report.damaged, report.blocks_written), (1, count as u64), "{count}, {lost_s}");
    }
}

/// Of a metric with more blocks than are read at once, and more bytes than are written at once.
#[tokio::test]
async fn blocks_of_the_target_never_overlap() {
    let key = |first: i64, last: i64| BlockKey {
        metric: metric(1),
        granularity: MINUTE,
        first: Timestamp::from_secs(first),
        last: Timestamp::from_secs(last),
    };
    let (source, target) = (Arc::new(MemoryAggregates::default()), Arc::new(MemoryAggregates::default()));
    let transfer = transfer(source.clone(), Arc::new(Flaky::reliable(target.clone())), 1).await;
    let bytes = Bytes::from(vec![7; 20_000]);
    let whole = key(0, 60_000);
    let parts = (0..300).map(|at| (key(200 * at, 200 * at + 60), bytes.clone())).collect();
    let undivided = vec![(whole, bytes.clone())];
    for (head, blocks, expired) in [("head 1", undivided, Vec::new()), ("head 2", parts, vec![whole])] {
        let head = Bytes::from_static(head.as_bytes());
        let write = MetricWrite { metric: metric(1), blocks, expired, head };
        source.write(Fence::EVERYTHING, vec![write]).await.remove(0).unwrap();
        transfer.round(&[metric(1)], Depth::Changes, &mut Silent).await.unwrap();
        assert_eq!(contents(&source).await, contents(&target).await);
    }
}
