//! The state shared by the processes of a schedule: the stores, the injected faults, and the invariants.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use gnudi_drivers::{
    aggregates::{Fence, MetricWrite, memory::MemoryAggregates},
    coordination::memory::MemoryCoordinator,
    incoming::{Consume as _, Position, memory::MemoryIncoming},
};
use gnudi_model::{MetricId, Sack, SackCount};
use gnudi_series::head::Head;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{link::Inbox, random::Random};

/// A store that may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Incoming,
    Store,
    Coordinator,
}

/// The fate of a call without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The call was not executed.
    Request,
    /// The call was executed.
    Answer,
}

pub struct World {
    pub random: Random,
    began: Instant,
    /// Whether to print a trace.
    verbose: bool,
    pub incoming: MemoryIncoming,
    pub store: MemoryAggregates,
    pub coordinator: MemoryCoordinator,
    /// No more faults: everything must recover.
    calm: AtomicBool,
    outages: Mutex<[Instant; 3]>,
    /// By process: sacks with measures that it has not been notified of.
    pub inboxes: Mutex<BTreeMap<usize, Arc<Inbox>>>,
    /// Writes of former owners that the fence rejected.
    pub refused: AtomicU64,
    seen: Mutex<Seen>,
}

/// The writes that the stores accepted.
#[derive(Default)]
struct Seen {
    raised: Vec<Fence>,
    /// The last position that each metric's head has applied.
    applied: HashMap<MetricId, Position>,
    violation: Option<String>,
}

impl World {
    pub fn new(seed: u64, sacks: SackCount, verbose: bool) -> Arc<Self> {
        let began = Instant::now();
        Arc::new(World {
            random: Random::new(seed),
            began,
            verbose,
            incoming: MemoryIncoming::new(sacks, u64::MAX),
            store: MemoryAggregates::default(),
            coordinator: MemoryCoordinator::new(move || began.elapsed()),
            calm: AtomicBool::new(false),
            outages: Mutex::new([began; 3]),
            inboxes: Mutex::default(),
            refused: AtomicU64::new(0),
            seen: Mutex::default(),
        })
    }

    /// Prints an event if a single schedule is run.
    pub fn trace(&self, what: impl FnOnce() -> String) {
        if self.verbose {
            println!("{:>8.3} s  {}", self.began.elapsed().as_secs_f64(), what());
        }
    }

    pub fn calm_down(&self) {
        self.calm.store(true, Relaxed);
    }

    pub fn is_calm(&self) -> bool {
        self.calm.load(Relaxed)
    }

    pub fn fail_for(&self, engine: Engine, span: Duration) {
        self.outages.lock()[engine as usize] = Instant::now() + span;
    }

    /// Whether and how a call to the engine is lost.
    pub fn loses(&self, engine: Engine) -> Option<Lost> {
        if self.is_calm() {
            return None;
        }
        let out = self.outages.lock()[engine as usize] > Instant::now();
        (out || self.random.one_in(60))
            .then(|| if self.random.one_in(3) { Lost::Answer } else { Lost::Request })
    }

    pub fn violation(&self) -> Option<String> {
        self.seen.lock().violation.clone()
    }

    fn violated(seen: &mut Seen, what: String) {
        seen.violation.get_or_insert(what);
    }

    pub fn raised(&self, fence: Fence) {
        let mut seen = self.seen.lock();
        if let Some(held) = fence.held_by(seen.raised.iter().copied()) {
            Self::violated(&mut seen, format!("{fence:?} was raised though {held} was"));
        }
        seen.raised.push(fence);
    }

    /// Checks heads that the store accepted.
    pub fn written(&self, fence: Fence, writes: &[MetricWrite]) {
        let mut seen = self.seen.lock();
        if let Some(held) = fence.held_by(seen.raised.iter().copied()) {
            Self::violated(&mut seen, format!("a write with {fence:?} was taken though {held} was raised"));
        }
        if !seen.raised.contains(&fence) {
            Self::violated(&mut seen, format!("a write with {fence:?} came before its fence was raised"));
        }
        for write in writes {
            let now = Position(Head::decode(&write.head).expect("a head").applied());
            let before = seen.applied.insert(write.metric, now).unwrap_or_default();
            if now < before {
                Self::violated(
                    &mut seen,
                    format!("the head of {} went from {before:?} to {now:?}", write.metric),
                );
            }
            if !fence.sack.contains(write.metric) {
                Self::violated(&mut seen, format!("{} was written with {fence:?}", write.metric));
            }
        }
    }

    /// Checks an acknowledgement before it is executed: all of it must be in the heads.
    pub async fn acknowledged(&self, sack: Sack, up_to: Position) {
        let waiting = self.incoming.pending(sack, Position(0), usize::MAX).await.expect("it is in memory");
        let mut seen = self.seen.lock();
        for record in waiting.records.iter().filter(|record| record.position <= up_to) {
            let applied = seen.applied.get(&record.metric).copied().unwrap_or_default();
            if applied < record.position {
                let (metric, position) = (record.metric, record.position);
                let what =
                    format!("{position:?} of {metric} was acknowledged, its head stands at {applied:?}");
                Self::violated(&mut seen, what);
            }
        }
    }
}
