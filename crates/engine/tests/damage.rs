//! Damaged aggregates: a read is right, or fails with the metric's name. It never returns older data, and
//! returns the same after a restart.

#[path = "../../drivers/tests/support/random.rs"]
mod random;
mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use gnudi_drivers::{
    aggregates::{
        AggregateStore,
        local::{LocalAggregates, LocalAggregatesOptions},
    },
    incoming::{Batch, memory::MemoryIncoming},
};
use gnudi_engine::{Engine, EngineError, OnDamage};
use gnudi_indexer::MemoryIndexer;
use gnudi_model::{ArchivePolicy, Measure, MetricId, Statistic, Timestamp};
use random::Random;
use support::{indexer_of_sums, point, sacks};

const METRICS: usize = 12;
/// The points in each pass for each metric, a second apart; three passes seal a block.
const POINTS: i64 = 25;
/// When the damage is found.
const FOUND_S: i64 = 1_000_000;

type Series = BTreeMap<i64, f64>;

struct World {
    folder: tempfile::TempDir,
    recent_bytes_max: u64,
    indexer: Arc<MemoryIndexer>,
    incoming: Arc<MemoryIncoming>,
    policy: ArchivePolicy,
    /// The measures sent: value by second.
    expected: Vec<Series>,
}

struct Open {
    store: Arc<LocalAggregates>,
    engine: Engine,
}

fn metric(number: usize) -> MetricId {
    support::metric(number as u128)
}

impl World {
    async fn new(recent_bytes_max: u64) -> Self {
        let (indexer, policy) = indexer_of_sums(METRICS as u128, 10_000_000).await;
        World {
            folder: tempfile::tempdir().unwrap(),
            recent_bytes_max,
            indexer,
            incoming: Arc::new(MemoryIncoming::new(sacks(1), u64::MAX)),
            policy,
            expected: vec![Series::new(); METRICS],
        }
    }

    fn open(&self, on_damage: OnDamage) -> Open {
        let options = LocalAggregatesOptions {
            segment_bytes: 1 << 16,
            recent_bytes_max: self.recent_bytes_max,
            unreadable_max: Duration::ZERO,
            ..LocalAggregatesOptions::default()
        };
        let store = LocalAggregates::open(self.folder.path(), &options).unwrap();
        let engine = Engine::new(self.indexer.clone(), self.incoming.clone(), store.clone(), || {
            Timestamp::from_secs(FOUND_S)
        });
        Open { store, engine: engine.on_damage(on_damage) }
    }

    /// Passes over two metrics. Returns where the log ended after each.
    async fn passes(&mut self, open: &Open, count: i64) -> Vec<usize> {
        let mut ends = Vec::new();
        for pass in 0..count {
            self.pass(open, 0..2, pass * POINTS).await;
            ends.push(used(&self.newest(".log")));
        }
        ends
    }

    /// A pass over some metrics, each with new points from a second on. Durable at the end.
    async fn pass(&mut self, open: &Open, metrics: impl Iterator<Item = usize>, from: i64) {
        let mut batch = Batch::default();
        let mut ids = Vec::new();
        for number in metrics {
            let points: Vec<Measure> = (from..from + POINTS)
                .map(|second| {
                    let value = (number * 7) as f64 + second as f64;
                    self.expected[number].insert(second, value);
                    point(second, value)
                })
                .collect();
            batch.push(metric(number), POINTS as u32, |out| gnudi_series::points::encode(&points, out));
            ids.push(metric(number));
        }
        open.engine.append(batch).await.unwrap();
        open.engine.refresh(&ids, Duration::from_mins(1)).await.unwrap();
        open.store.sync().await.unwrap();
    }

    async fn read(&self, open: &Open, number: usize, from: Option<i64>) -> Result<Series, String> {
        let (metric, start) = (metric(number), from.map(Timestamp::from_secs));
        match support::read(&open.engine, &self.policy, metric, Statistic::Sum, 1, start).await {
            Ok(series) => Ok(series.into_iter().map(|(time, value)| (time.secs(), value)).collect()),
            Err(error @ EngineError::Damaged { .. }) => {
                let text = error.to_string();
                assert!(text.contains(&metric.to_string()), "it names the metric: {text}");
                Err(text)
            }
            Err(error) => panic!("neither right nor damaged: {error}"),
        }
    }

    /// Reads each metric, whole and in parts; no answer may be wrong. Returns the metrics whose reads failed,
    /// and for how many of these the newest points were readable.
    async fn refused(&self, open: &Open, what: &str) -> (BTreeSet<usize>, usize) {
        let mut refused = BTreeSet::new();
        let mut newest_answered = 0;
        for (number, expected) in self.expected.iter().enumerate() {
            match self.read(open, number, None).await {
                Ok(found) => assert_eq!(found, *expected, "{what}: metric {number}"),
                Err(_) => drop(refused.insert(number)),
            }
            let last = expected.keys().last().copied().unwrap_or(0);
            // Not before 1970, where a read without a start begins.
            for from in [(last - 200).max(0), (last - 60).max(0), FOUND_S, last] {
                let part: Series = expected.range(from..).map(|(second, value)| (*second, *value)).collect();
                match self.read(open, number, Some(from)).await {
                    Ok(found) => {
                        assert_eq!(found, part, "{what}: metric {number} from {from}");
                        newest_answered += usize::from(from == last && refused.contains(&number));
                    }
                    Err(_) => {
                        assert!(refused.contains(&number), "{what}: a part is refused, the whole is not");
                    }
                }
            }
        }
        (refused, newest_answered)
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = ["log", "runs"]
            .iter()
            .flat_map(|dir| std::fs::read_dir(self.folder.path().join(dir)).unwrap())
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end != "spare") && used(path) > 0)
            .collect();
        files.sort();
        files
    }

    fn newest(&self, end: &str) -> PathBuf {
        let mut files = self.files().into_iter();
        files.rfind(|path| path.to_str().unwrap().ends_with(end) && used(path) > 100).unwrap()
    }
}

/// The length without the zeros at the end.
fn used(path: &Path) -> usize {
    std::fs::read(path).unwrap().iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1)
}

fn edit(path: &Path, edit: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    edit(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip,
    Zero,
    Cut,
}

fn inflict(path: &Path, damage: Damage, random: &mut Random) {
    let at = random.below(used(path));
    let length = if random.one_in(2) { 4096 } else { 16 };
    edit(path, |bytes| {
        let end = (at + length).min(bytes.len());
        match damage {
            Damage::Flip => bytes[at..end.min(at + 16)].iter_mut().for_each(|byte| *byte ^= 0xff),
            Damage::Zero => bytes[at..end].fill(0),
            Damage::Cut => bytes.truncate(at),
        }
    });
}

/// Any file of the store is damaged: answers are right before and after a restart, and after more measures.
/// `GNUDI_DAMAGE_SEEDS` is the number of stores. Their files differ with the machine's load, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_losses() {
    let seeds = std::env::var("GNUDI_DAMAGE_SEEDS").map_or(90, |text| text.parse().expect("a number"));
    let (mut refused_in_all, mut answered_after) = ([0; 3], 0);
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        // All in the log; or most in runs; or in merged runs.
        let mut world = World::new([1 << 20, 30_000, 4000][seed as usize % 3]).await;
        let open = world.open(OnDamage::Refuse);
        for pass in 0..12 {
            let metrics: Vec<usize> = (0..METRICS).filter(|_| !random.one_in(3)).collect();
            world.pass(&open, metrics.into_iter(), pass * POINTS).await;
        }
        assert_eq!(world.refused(&open, "undamaged").await.0, BTreeSet::new());
        drop(open);
        let files = world.files();
        let file = &files[random.below(files.len())];
        let damage = [Damage::Flip, Damage::Zero, Damage::Cut][seed as usize / 3 % 3];
        inflict(file, damage, &mut random);
        let what = format!("seed {seed}: {damage:?} of {}", file.display());

        let open = world.open(OnDamage::Refuse);
        let (refused, _) = world.refused(&open, &what).await;
        if matches!(damage, Damage::Flip) {
            assert!(refused.len() <= 4, "{what}: {refused:?}");
        }
        drop(open);
        let open = world.open(OnDamage::Refuse);
        assert_eq!(world.refused(&open, &format!("{what}, restarted")).await.0, refused, "{what}, restarted");
        refused_in_all[damage as usize] += refused.len();
        for pass in 0..4 {
            world.pass(&open, 0..METRICS, FOUND_S + pass * POINTS).await;
        }
        let (refused, answered) = world.refused(&open, &format!("{what}, going on")).await;
        answered_after += answered;
        drop(open);
        let open = world.open(OnDamage::Refuse);
        assert_eq!(world.refused(&open, &format!("{what}, gone on")).await.0, refused, "{what}, gone on");
    }
    let [flips, zeros, cuts] = refused_in_all;
    assert!(flips > 0 && zeros > 20 && cuts > 40, "the damage hits little: {refused_in_all:?}");
    assert!(answered_after > 20, "what came after the damage is answered: {answered_after}");
}

/// The newest file of the log lost its end: the lost passes are detected, though older heads are intact.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_lost_its_end_serves_no_older_heads() {
    let mut world = World::new(1 << 20).await;
    let open = world.open(OnDamage::Refuse);
    world.pass(&open, 0..METRICS, 0).await;
    let end = used(&world.newest(".log"));
    world.pass(&open, 3..6, POINTS).await;
    drop(open);
    edit(&world.newest(".log"), |bytes| bytes.truncate(end));
    for _ in 0..2 {
        let open = world.open(OnDamage::Refuse);
        assert_eq!(world.refused(&open, "cut").await.0, (3..6).collect());
    }
    // A new head is valid, also after a restart.
    let open = world.open(OnDamage::Refuse);
    world.pass(&open, 3..4, FOUND_S).await;
    drop(open);
    let open = world.open(OnDamage::Refuse);
    assert_eq!(world.read(&open, 3, Some(FOUND_S)).await.unwrap().len(), POINTS as usize);
    assert!(world.read(&open, 3, None).await.is_err());
}

/// The pass that sealed a block is lost and a later head is intact: the missing block is still detected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_blocks() {
    for sealed_in in [false, true] {
        let mut world = World::new(1 << 20).await;
        let open = world.open(OnDamage::Refuse);
        let ends = world.passes(&open, 5).await;
        drop(open);
        // The third pass adds the sixtieth row.
        let lost = if sealed_in { ends[1]..ends[2] } else { ends[0]..ends[1] };
        edit(&world.newest(".log"), |bytes| bytes[lost].fill(0));
        for _ in 0..2 {
            let open = world.open(OnDamage::Refuse);
            let refused = world.refused(&open, "a hole").await.0;
            assert_eq!(refused.len(), if sealed_in { 2 } else { 0 }, "{refused:?}");
        }
    }
}

/// The status counts what a start or a read has found, also if no pass has met it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_counts_damage_that_no_pass_has_met() {
    let mut world = World::new(1 << 20).await;
    let open = world.open(OnDamage::Refuse);
    let ends = world.passes(&open, 3).await;
    assert_eq!(open.engine.cluster().await.unwrap().damaged, 0);
    drop(open);
    edit(&world.newest(".log"), |bytes| bytes[usize::midpoint(ends[0], ends[1])] ^= 0xff);
    let open = world.open(OnDamage::Refuse);
    assert_eq!(open.engine.figures().damaged.load(Relaxed), 0);
    let found = open.store.figures().damaged;
    assert!(found > 0);
    assert_eq!(open.engine.cluster().await.unwrap().damaged, found);
}

/// With `OnDamage::Serve` reads of a metric whose head is lost return its blocks, and later data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn remaining_data_is_served_if_configured() {
    let mut world = World::new(1 << 20).await;
    let open = world.open(OnDamage::Refuse);
    for pass in 0..4 {
        world.pass(&open, 0..2, pass * POINTS).await;
    }
    let end = used(&world.newest(".log"));
    world.pass(&open, 0..1, 4 * POINTS).await;
    drop(open);
    edit(&world.newest(".log"), |bytes| bytes.truncate(end));
    let sealed: Series = (0..60).map(|second| (second, second as f64)).collect();
    let open = world.open(OnDamage::Serve);
    let left = world.read(&open, 0, None).await.unwrap();
    assert!(left.len() >= 60 && sealed.iter().all(|(second, value)| left[second] == *value), "{left:?}");
    assert_eq!(world.read(&open, 1, None).await.unwrap(), world.expected[1]);
    world.pass(&open, 0..1, FOUND_S).await;
    let after = world.read(&open, 0, None).await.unwrap();
    assert_eq!(after.len(), left.len() + POINTS as usize);
    drop(open);
    // The option affects reads only, and can be reverted.
    let open = world.open(OnDamage::Refuse);
    let refused = world.read(&open, 0, None).await.unwrap_err();
    assert!(refused.contains("damaged_metrics"), "it says what can be done: {refused}");
    assert!(world.read(&open, 0, Some(FOUND_S)).await.is_ok());
}
