//! One schedule: clients append, processes start, stop, resume and die, stores fail, sacks split. Then faults
//! end, and the state is verified.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use gnudi_drivers::incoming::{Append as _, Consume as _, Topology as _};
use gnudi_indexer::{Indexer, MemoryIndexer};
use gnudi_model::{Measure, MetricId, Statistic, Timestamp};
use parking_lot::Mutex;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    gate::Gate,
    link::{Inbox, Link, STOP_MS_MAX},
    process::Process,
    support::{self, batch_of, point, sacks},
    world::{self, World},
};

const METRICS: u64 = 6;
const CLIENTS: u64 = 2;
const PROCESSES_MAX: usize = 4;
/// After the last fault each unit has an owner again within this time: a lease and one round.
const OWNED_WITHIN: Duration = Duration::from_millis(1000 + 334 + 150);
/// After the last fault all measures are processed within this time.
const DONE_WITHIN: Duration = Duration::from_secs(10);

/// The events of schedules, to check that they occur.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub passes: u64,
    /// Rejected writes of former owners.
    pub refused: u64,
    pub splits: u64,
    pub kills: u64,
    pub stops: u64,
}

impl Counts {
    pub fn add(&mut self, other: Counts) {
        self.passes += other.passes;
        self.refused += other.refused;
        self.splits += other.splits;
        self.kills += other.kills;
        self.stops += other.stops;
    }
}

fn metric(number: u64) -> MetricId {
    support::metric(number.into())
}

/// The index is read-only, so all schedules share one.
async fn indexer() -> Arc<dyn Indexer> {
    static INDEXER: OnceLock<Arc<MemoryIndexer>> = OnceLock::new();
    if let Some(indexer) = INDEXER.get() {
        return indexer.clone();
    }
    let indexer = support::indexer(METRICS.into(), "low").await;
    INDEXER.get_or_init(|| indexer).clone()
}

/// A client's own connection to the store, with its own faults.
fn api(world: &Arc<World>) -> Arc<Link> {
    Link::new(world.clone(), "client", Gate::new(), Arc::new(Inbox::default()))
}

/// Appends to the client's metrics, one request after the other; retries a failed one until it succeeds.
async fn client(
    world: Arc<World>,
    own: u64,
    accepted: Arc<Mutex<BTreeMap<MetricId, Vec<Measure>>>>,
    rounds: u64,
) {
    let api = api(&world);
    for round in 0..rounds {
        sleep(world.random.ms(0, 300)).await;
        let mut points = Vec::new();
        for number in (0..METRICS).filter(|number| number % CLIENTS == own) {
            if world.random.one_in(2) {
                // Three in a bucket, so that what comes too late is refused by the next.
                points.push((metric(number), [point(round as i64 * 100, (round + 1) as f64)]));
            }
        }
        loop {
            let batch = batch_of(points.iter().map(|(metric, points)| (*metric, &points[..])));
            if api.append(batch).await.is_ok() {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        for (metric, points) in points {
            accepted.lock().entry(metric).or_default().extend(points);
        }
    }
}

/// The processes and the events that affect them.
struct Stage {
    world: Arc<World>,
    indexer: Arc<dyn Indexer>,
    processes: Vec<Process>,
    leaving: Vec<JoinHandle<()>>,
    splitting: Vec<JoinHandle<()>>,
    started: usize,
    counts: Counts,
}

impl Stage {
    fn start(&mut self, name: Option<String>) {
        let number = self.started;
        self.started += 1;
        let name = name.unwrap_or_else(|| format!("p{number}"));
        self.processes.push(Process::start(&self.world, &self.indexer, number, name));
    }

    fn take(&mut self) -> Option<Process> {
        if self.processes.is_empty() {
            return None;
        }
        let place = self.world.random.below(self.processes.len() as u64) as usize;
        let process = self.processes.swap_remove(place);
        self.counts.passes += process.engine.figures().passes.load(std::sync::atomic::Ordering::Relaxed);
        Some(process)
    }

    fn happen(&mut self) {
        let world = self.world.clone();
        let random = &world.random;
        let kind = random.below(10);
        world.trace(|| format!("event {kind}, {} processes", self.processes.len()));
        match kind {
            0 | 1 => {
                self.counts.kills += 1;
                let name = self.take().map(|process| {
                    let name = process.name.clone();
                    process.kill();
                    name
                });
                // Maybe at once, as a restart of the same process.
                match random.below(3) {
                    0 => self.start(name),
                    1 => self.start(None),
                    _ => {}
                }
            }
            2 | 3 if !self.processes.is_empty() => {
                self.counts.stops += 1;
                let place = random.below(self.processes.len() as u64) as usize;
                self.processes[place].gate.stop(random.ms(10, STOP_MS_MAX));
            }
            4 if self.processes.len() < PROCESSES_MAX => self.start(None),
            5 => {
                if let Some(process) = self.take() {
                    self.leaving.push(tokio::spawn(process.leave()));
                }
            }
            6 => world.fail_for(world::Engine::Coordinator, random.ms(10, 1500)),
            7 => world.fail_for(world::Engine::Store, random.ms(10, 800)),
            8 => world.fail_for(world::Engine::Incoming, random.ms(10, 800)),
            _ if self.splitting.len() < 2 => {
                self.counts.splits += 1;
                let api = api(&world);
                self.splitting.push(tokio::spawn(async move {
                    while api.split().await.is_err() {
                        sleep(Duration::from_millis(20)).await;
                    }
                }));
            }
            _ => {}
        }
    }

    /// Whether each unit is owned by exactly one process.
    fn all_owned(&self) -> Result<(), String> {
        let numbering = self.world.incoming.numbering();
        let mut owners = vec![0; usize::from(numbering.units().get())];
        for fence in self.processes.iter().flat_map(|process| process.engine.owned()) {
            if fence.sack.count == numbering.units() {
                owners[usize::from(fence.sack.id.0)] += 1;
            }
        }
        if owners.iter().all(|owners| *owners == 1) {
            return Ok(());
        }
        Err(format!("owners of the units of {numbering:?}: {owners:?}"))
    }

    /// Waits until `holds` is true; restarts the time limit when the sacks are renumbered.
    async fn wait(
        &self,
        limit: Duration,
        holds: impl AsyncFn(&Self) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut numbering = self.world.incoming.numbering();
        let mut until = Instant::now() + limit;
        while let Err(why) = holds(self).await {
            let now = self.world.incoming.numbering();
            if now != numbering {
                (numbering, until) = (now, Instant::now() + limit);
            }
            if Instant::now() > until {
                return Err(why);
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

/// Runs the schedule of a seed.
pub async fn play(seed: u64, verbose: bool) -> Result<Counts, String> {
    let sacks = sacks(1 + (seed % 3) as u16);
    let world = World::new(seed, sacks, verbose);
    let mut stage = Stage {
        world: world.clone(),
        indexer: indexer().await,
        processes: Vec::new(),
        leaving: Vec::new(),
        splitting: Vec::new(),
        started: 0,
        counts: Counts::default(),
    };
    for _ in 0..=world.random.below(3) {
        stage.start(None);
    }
    let accepted = Arc::new(Mutex::new(BTreeMap::new()));
    let rounds = 2 + world.random.below(6);
    let clients: Vec<_> =
        (0..CLIENTS).map(|own| tokio::spawn(client(world.clone(), own, accepted.clone(), rounds))).collect();
    for _ in 0..2 + world.random.below(7) {
        sleep(world.random.ms(0, 600)).await;
        stage.happen();
    }
    if stage.processes.is_empty() {
        stage.start(None);
    }
    world.calm_down();
    world.trace(|| "calm".to_owned());
    let last = stage.processes.iter().map(|process| process.gate.until()).max();
    tokio::time::sleep_until(last.expect("there is a process")).await;
    let calm = finish(&mut stage, clients).await;
    // Report a violated invariant first: it explains more than a timeout.
    world.violation().map_or(Ok(()), Err)?;
    calm?;
    let accepted = accepted.lock().clone();
    compare(&stage, &accepted).await?;
    while stage.take().map(Process::kill).is_some() {}
    stage.counts.refused = world.refused.load(std::sync::atomic::Ordering::Relaxed);
    Ok(stage.counts)
}

async fn finish(stage: &mut Stage, clients: Vec<JoinHandle<()>>) -> Result<(), String> {
    let world = stage.world.clone();
    for task in clients.into_iter().chain(stage.splitting.drain(..)).chain(stage.leaving.drain(..)) {
        task.await.map_err(|error| error.to_string())?;
    }
    stage.wait(OWNED_WITHIN, async |stage| stage.all_owned()).await?;
    let done = async |_: &Stage| {
        let backlog = world.incoming.backlog().await.unwrap();
        let numbering = world.incoming.numbering();
        if backlog.measures == 0 && !numbering.draining {
            return Ok(());
        }
        Err(format!("{} measures are left in the sacks of {numbering:?}", backlog.measures))
    };
    stage.wait(DONE_WITHIN, done).await?;
    stage.wait(OWNED_WITHIN, async |stage| stage.all_owned()).await?;
    if stage.processes.iter().any(Process::has_failed) {
        return Err("a task ended".to_owned());
    }
    Ok(())
}

/// Whether each metric contains exactly the accepted measures.
async fn compare(stage: &Stage, accepted: &BTreeMap<MetricId, Vec<Measure>>) -> Result<(), String> {
    let policy = stage.indexer.archive_policy("low").await.unwrap().unwrap();
    for number in 0..METRICS {
        let metric = metric(number);
        let mut expected: BTreeMap<Timestamp, (f64, f64)> = BTreeMap::new();
        for point in accepted.get(&metric).into_iter().flatten() {
            let bucket = Timestamp(point.timestamp.0 - point.timestamp.0 % 300_000_000_000);
            let (count, sum) = expected.entry(bucket).or_default();
            *count += 1.0;
            *sum += point.value;
        }
        let engine = &stage.processes[0].engine;
        let read = async |statistic| {
            let read = support::read(engine, &policy, metric, statistic, 300, None).await;
            read.map_err(|error| error.to_string())
        };
        let (counts, sums) = (read(Statistic::Count).await?, read(Statistic::Sum).await?);
        let found: BTreeMap<Timestamp, (f64, f64)> =
            counts.into_iter().zip(sums.into_values()).map(|((at, count), sum)| (at, (count, sum))).collect();
        if found != expected {
            return Err(format!("{metric} holds {found:?}, accepted was {expected:?}"));
        }
    }
    Ok(())
}
