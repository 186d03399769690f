//! Simulates a stream of single measures and its workers in virtual time. The orders `shared` and ring use the engine's
//! code, everything else is a model. Deterministic for a seed.
//!
//! The model: measures arrive at a constant rate, metric after metric, round after round. A pass processes its sack's
//! whole backlog, with a fixed cost, a cost per metric and a cost per measure. Two workers at one sack wait for each
//! other.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
    time::Duration,
};

use gnudi_bench::random::splitmix;
use gnudi_engine::metricd::waiting::Next;
use gnudi_model::{MetricId, SackCount, SackId};
use uuid::Uuid;

use super::orders::{Order, Waiting, Wake};

/// Interval at which measures arrive, as by requests.
const TICK: Duration = Duration::from_millis(10);
/// Maximum points of a line.
const POINTS_MAX: usize = 240;

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub metrics: u32,
    /// Measures per metric.
    pub rounds: u32,
    /// Measures per second, over all metrics.
    pub rate: u32,
    pub seed: u64,
    /// Costs of a pass, of a metric in it, and of a measure.
    pub pass: Duration,
    pub metric: Duration,
    pub measure: Duration,
    pub order: Order,
    pub workers: usize,
    pub sacks: SackCount,
    /// How long a sack gathers measures before it may be processed.
    pub gather: Duration,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// (seconds, measures in the backlog), until it is empty.
    pub backlog: Vec<(f64, f64)>,
    pub peak: u64,
    /// From the last measure until the backlog was empty.
    pub drained_after: Duration,
    /// Longest time from a measure's arrival to the end of the pass that processed it.
    pub longest_wait: Duration,
    /// Mean over all measures.
    pub mean_wait: Duration,
    /// Metrics not processed once when the last measure arrived.
    pub never_reached: usize,
    pub passes: u64,
}

impl Setup {
    fn measures(&self) -> u64 {
        u64::from(self.metrics) * u64::from(self.rounds)
    }

    /// Number of measures that have arrived by then.
    fn by(&self, now: Duration) -> u64 {
        let come = u128::from(self.rate) * now.as_nanos() / 1_000_000_000;
        u64::try_from(come).unwrap_or(u64::MAX).min(self.measures())
    }

    /// The sack of each metric, in the order in which metrics get measures.
    fn sack_of_metrics(&self) -> Vec<SackId> {
        let mut state = self.seed;
        let mut id = || MetricId(Uuid::from_u64_pair(splitmix(&mut state), splitmix(&mut state)));
        (0..self.metrics).map(|_| self.sacks.sack_of(id())).collect()
    }
}

/// A sack's backlog, and how long a worker holds it.
#[derive(Clone, Debug, Default)]
struct Sack {
    measures: u64,
    /// Metrics with a backlog.
    metrics: Vec<u32>,
    /// Arrival of the oldest measure in the backlog.
    since: Duration,
    busy_until: Duration,
}

/// The state of a worker.
#[derive(Clone, Copy, Debug, Default)]
enum Worker {
    /// Idle until woken.
    #[default]
    Idle,
    /// Has a sack, and waits for the other worker at it.
    Blocked(SackId),
    /// Processes this number of measures, the oldest of which arrived at `since`.
    Busy { measures: u64, since: Duration },
}

struct Simulation {
    setup: Setup,
    waiting: Waiting,
    sack_of: Vec<SackId>,
    sacks: Vec<Sack>,
    /// Whether the metric has a backlog, and whether it was ever processed.
    metrics: Vec<(bool, bool)>,
    workers: Vec<Worker>,
    /// When each worker is to be woken next. Other entries of `wakes` are stale.
    wake_at: Vec<Option<Duration>>,
    wakes: BinaryHeap<Reverse<(Duration, usize)>>,
    arrived: u64,
    backlog: u64,
    outcome: Outcome,
}

/// Runs the stream, and until the backlog is empty.
pub fn run(setup: Setup) -> Outcome {
    let Setup { metrics, workers, sacks, .. } = setup;
    assert!(setup.rate > 0 && metrics > 0 && workers > 0);
    let simulation = Simulation {
        waiting: Waiting::new(setup.order, workers, sacks),
        sack_of: setup.sack_of_metrics(),
        sacks: vec![Sack::default(); usize::from(sacks.get())],
        metrics: vec![(false, false); metrics as usize],
        workers: vec![Worker::Idle; workers],
        wake_at: vec![None; workers],
        wakes: BinaryHeap::new(),
        arrived: 0,
        backlog: 0,
        outcome: Outcome::default(),
        setup,
    };
    simulation.run()
}

impl Simulation {
    fn run(mut self) -> Outcome {
        let (mut now, mut waited, mut ended) = (Duration::ZERO, 0.0, None);
        while self.arrived < self.setup.measures() || self.backlog > 0 {
            now += TICK;
            self.work_until(now);
            self.arrive(now);
            waited += self.backlog as f64 * TICK.as_secs_f64();
            self.outcome.peak = self.outcome.peak.max(self.backlog);
            self.outcome.backlog.push((now.as_secs_f64(), self.backlog as f64));
            if self.arrived == self.setup.measures() && ended.is_none() {
                ended = Some(now);
                self.outcome.never_reached = self.metrics.iter().filter(|(_, reached)| !reached).count();
            }
        }
        self.outcome.drained_after = now.saturating_sub(ended.unwrap_or(now));
        self.outcome.mean_wait = Duration::from_secs_f64(waited / self.setup.measures() as f64);
        thin(&mut self.outcome.backlog);
        self.outcome
    }

    /// Adds the measures that have arrived since the last call.
    fn arrive(&mut self, now: Duration) {
        let mut woken = BTreeSet::new();
        let mut all = false;
        for measure in self.arrived..self.setup.by(now) {
            let metric = (measure % u64::from(self.setup.metrics)) as usize;
            let id = self.sack_of[metric];
            let sack = &mut self.sacks[usize::from(id.0)];
            if sack.measures == 0 {
                sack.since = now;
            }
            sack.measures += 1;
            if !std::mem::replace(&mut self.metrics[metric].0, true) {
                sack.metrics.push(metric as u32);
            }
            match self.waiting.push(id, now, now + self.setup.gather) {
                Wake::One(worker) => {
                    woken.insert(worker);
                }
                Wake::All => all = true,
                Wake::None => {}
            }
            self.backlog += 1;
        }
        self.arrived = self.setup.by(now);
        for worker in 0..self.workers.len() {
            let idle = matches!(self.workers[worker], Worker::Idle);
            if idle && (all || woken.contains(&worker)) {
                self.wake(worker, now);
            }
        }
    }

    fn wake(&mut self, worker: usize, at: Duration) {
        self.wake_at[worker] = Some(at);
        self.wakes.push(Reverse((at, worker)));
    }

    /// Runs the workers up to `end`.
    fn work_until(&mut self, end: Duration) {
        while let Some(&Reverse((now, worker))) = self.wakes.peek() {
            if now >= end {
                break;
            }
            self.wakes.pop();
            if self.wake_at[worker] == Some(now) {
                self.wake_at[worker] = None;
                self.step(worker, now);
            }
        }
    }

    fn step(&mut self, worker: usize, now: Duration) {
        match std::mem::take(&mut self.workers[worker]) {
            Worker::Blocked(sack) => return self.begin(worker, sack, now),
            Worker::Busy { measures, since } => {
                self.backlog -= measures;
                self.outcome.longest_wait = self.outcome.longest_wait.max(now.saturating_sub(since));
            }
            Worker::Idle => {}
        }
        match self.waiting.pop(worker, now) {
            Next::Pass { sack, .. } => self.begin(worker, sack, now),
            Next::Wait(delay) => self.wake(worker, now + delay),
            Next::Nothing => {}
        }
    }

    /// Starts a pass over the sack, once no other worker holds it.
    fn begin(&mut self, worker: usize, id: SackId, now: Duration) {
        let sack = &mut self.sacks[usize::from(id.0)];
        if sack.busy_until > now {
            self.workers[worker] = Worker::Blocked(id);
            let until = sack.busy_until;
            return self.wake(worker, until);
        }
        let (measures, since) = (std::mem::take(&mut sack.measures), sack.since);
        let mut cost = Duration::ZERO;
        if measures > 0 {
            self.outcome.passes += 1;
            let measures = u32::try_from(measures).unwrap_or(u32::MAX);
            cost = self.setup.pass
                + self.setup.metric * sack.metrics.len() as u32
                + self.setup.measure * measures;
        }
        for metric in sack.metrics.drain(..) {
            self.metrics[metric as usize] = (false, true);
        }
        sack.busy_until = now + cost;
        self.workers[worker] = Worker::Busy { measures, since };
        self.wake(worker, now + cost);
    }
}

/// Keeps the highest point of each interval, and the last point.
fn thin(points: &mut Vec<(f64, f64)>) {
    let stretch = points.len().div_ceil(POINTS_MAX).max(1);
    let Some(last) = points.last().copied() else { return };
    let highest = |points: &[(f64, f64)]| points.iter().copied().reduce(|a, b| if b.1 > a.1 { b } else { a });
    *points = points.chunks(stretch).filter_map(highest).collect();
    if points.last() != Some(&last) {
        points.push(last);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    fn setup(order: Order, workers: usize) -> Setup {
        Setup {
            metrics: 2_000,
            rounds: 20,
            rate: 10_000,
            seed: 1,
            pass: Duration::from_millis(2),
            metric: Duration::from_micros(5),
            measure: Duration::from_nanos(200),
            order,
            workers,
            sacks: SackCount(NonZeroU16::MAX),
            gather: Duration::from_millis(50),
        }
    }

    #[test]
    fn one_worker_does_one_pass_after_the_other() {
        // One metric per sack, so rare that each measure gets its own pass.
        let setup = setup(Order::Shared, 1);
        let outcome = run(Setup { metrics: 10, rounds: 3, rate: 10, gather: Duration::ZERO, ..setup });
        assert_eq!((outcome.passes, outcome.never_reached), (30, 0));
        assert_eq!(outcome.longest_wait, setup.pass + setup.metric + setup.measure);
        assert_eq!(outcome.peak, 1);
    }

    #[test]
    fn the_tail_starves_at_the_front_and_nowhere_else() {
        // A worker makes 500 passes a second, while 2,000 metrics get five measures a second each.
        for workers in [1, 2] {
            let front = run(setup(Order::Front, workers));
            assert!(front.never_reached > 1_000, "{}", front.never_reached);
            for order in [Order::Shared, Order::Ring] {
                let fair = run(setup(order, workers));
                assert!(fair.never_reached <= 400, "{order:?}: {}", fair.never_reached);
                assert!(fair.peak < front.peak && fair.mean_wait < front.mean_wait, "{order:?}");
            }
        }
        // With enough workers there is no starvation.
        let enough = run(setup(Order::Front, 64));
        assert!(enough.never_reached == 0 && enough.longest_wait < Duration::from_secs(1), "{enough:?}");
    }

    #[test]
    fn thinning_keeps_the_peak_and_the_end() {
        let mut points: Vec<(f64, f64)> = (0..10_001).map(|x| (f64::from(x), f64::from(x % 5_000))).collect();
        thin(&mut points);
        assert!(points.len() <= POINTS_MAX + 1);
        assert!(points.contains(&(4_999.0, 4_999.0)));
        assert_eq!(points.last(), Some(&(10_000.0, 0.0)));
    }
}
