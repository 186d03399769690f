//! The units that this process may process now, and their progress.
//!
//! A unit has one owner at a time. Within one process its lock is the ownership. If processes share a store,
//! only `metricd::ownership` opens units, once they are leased and fenced, and closes them. A closed unit is
//! never reopened: its replacement has a token and a progress of its own.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
};

use gnudi_drivers::{aggregates::Fence, incoming::Position};
use gnudi_model::{Sack, SackCount};
use parking_lot::RwLock;
use tokio::{
    sync::{Mutex, MutexGuard, Notify},
    time::Instant,
};

use crate::deferred::{Deferred, Gauge, Size};

/// The progress of a unit's sacks.
#[derive(Debug, Default)]
pub struct Progress {
    /// What passes have taken up and not folded.
    pub deferred: Deferred,
    /// The position up to which each sack is folded or deferred. No entry until the sack's first pass has read it from
    /// the driver.
    pub taken: HashMap<Sack, Position>,
    /// Sacks that are sealed and drained: nothing will ever wait in them.
    pub drained: HashSet<Sack>,
}

#[derive(Debug)]
pub struct Unit {
    /// Used by the unit's writes.
    pub fence: Fence,
    closed: AtomicBool,
    progress: Mutex<Progress>,
    /// The size of what is deferred.
    pub deferred_size: Gauge,
    /// Consecutive failed passes.
    failures: AtomicU32,
}

impl Unit {
    fn new(fence: Fence) -> Arc<Self> {
        let progress = Progress::default();
        let deferred_size = progress.deferred.gauge();
        let (closed, failures) = Default::default();
        Arc::new(Unit { fence, closed, progress: Mutex::new(progress), deferred_size, failures })
    }

    /// Waits until no other pass runs; `None` if the unit was closed meanwhile.
    pub async fn lock(&self) -> Option<MutexGuard<'_, Progress>> {
        let progress = self.progress.lock().await;
        (!self.closed.load(Relaxed)).then_some(progress)
    }

    /// Waits for the running pass to end.
    pub async fn rest(&self) {
        drop(self.progress.lock().await);
    }

    /// Whether no pass runs.
    pub fn rests(&self) -> bool {
        self.progress.try_lock().is_ok()
    }

    /// Counts a failed pass; returns the number of consecutive failures.
    pub fn failed(&self) -> u32 {
        self.failures.fetch_add(1, Relaxed) + 1
    }

    pub fn succeeded(&self) {
        if self.failures.load(Relaxed) > 0 {
            self.failures.store(0, Relaxed);
        }
    }
}

/// All units; those of this process are open.
#[derive(Debug)]
pub struct Units {
    table: RwLock<Table>,
    /// Notified when a unit was lost to another owner.
    pub lost: Notify,
}

#[derive(Debug)]
struct Table {
    count: SackCount,
    open: Vec<Option<Arc<Unit>>>,
    /// End of the leases' validity, by this process's clock; `None` without leases.
    valid_until: Option<Instant>,
}

impl Table {
    fn is_valid(&self) -> bool {
        self.valid_until.is_none_or(|until| Instant::now() < until)
    }
}

impl Units {
    /// For an unshared store: all units are open, with token 0.
    pub fn everything(count: SackCount) -> Self {
        let open = count.sacks().map(|sack| Some(Unit::new(Fence { sack, token: 0 }))).collect();
        Units { table: RwLock::new(Table { count, open, valid_until: None }), lost: Notify::new() }
    }

    /// For a shared store, before anything is leased.
    pub fn nothing(count: SackCount) -> Self {
        let table =
            Table { count, open: vec![None; usize::from(count.get())], valid_until: Some(Instant::now()) };
        Units { table: RwLock::new(table), lost: Notify::new() }
    }

    /// The unit, if it is open and its lease valid.
    pub fn get(&self, unit: Sack) -> Option<Arc<Unit>> {
        let table = self.table.read();
        let open = table.open.get(usize::from(unit.id.0)).filter(|_| table.count == unit.count)?;
        open.as_ref().filter(|_| table.is_valid()).cloned()
    }

    /// Whether the unit is open, whether its lease is valid or not.
    pub(crate) fn is_open(&self, unit: Sack) -> bool {
        let table = self.table.read();
        table.count == unit.count && table.open.get(usize::from(unit.id.0)).is_some_and(Option::is_some)
    }

    /// The open units.
    pub fn open(&self) -> Vec<Arc<Unit>> {
        let table = self.table.read();
        if !table.is_valid() {
            return Vec::new();
        }
        table.open.iter().flatten().cloned().collect()
    }

    /// Whether units are leased, and other processes may own them.
    pub fn are_leased(&self) -> bool {
        self.table.read().valid_until.is_some()
    }

    /// The size of what the open units have deferred.
    pub fn deferred_size(&self) -> Size {
        self.table.read().open.iter().flatten().map(|unit| unit.deferred_size.get()).sum()
    }

    /// The number of open units.
    pub fn len(&self) -> usize {
        let table = self.table.read();
        if table.is_valid() { table.open.iter().flatten().count() } else { 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Opens a leased and fenced unit. Its count must be that of the last [`Units::renumber`].
    pub(crate) fn insert(&self, fence: Fence) {
        let mut table = self.table.write();
        assert_eq!(table.count, fence.sack.count, "units are of one count");
        table.open[usize::from(fence.sack.id.0)] = Some(Unit::new(fence));
    }

    /// Closes a unit: no new pass over it begins. One may still be running.
    pub(crate) fn close(&self, unit: Sack) -> Option<Arc<Unit>> {
        let mut table = self.table.write();
        let same_count = table.count == unit.count;
        let closed = table.open.get_mut(usize::from(unit.id.0)).filter(|_| same_count)?.take()?;
        closed.closed.store(true, Relaxed);
        Some(closed)
    }

    /// Closes a unit that another process has taken, and notifies `lost`.
    pub(crate) fn lose(&self, unit: &Arc<Unit>) {
        unit.closed.store(true, Relaxed);
        let mut table = self.table.write();
        if let Some(open) = table.open.get_mut(usize::from(unit.fence.sack.id.0))
            && open.as_ref().is_some_and(|open| Arc::ptr_eq(open, unit))
        {
            *open = None;
        }
        drop(table);
        self.lost.notify_one();
    }

    /// Closes all units and changes their count.
    pub(crate) fn renumber(&self, count: SackCount) -> Vec<Arc<Unit>> {
        let mut table = self.table.write();
        table.count = count;
        let open = std::mem::replace(&mut table.open, vec![None; usize::from(count.get())]);
        let closed: Vec<_> = open.into_iter().flatten().collect();
        for unit in &closed {
            unit.closed.store(true, Relaxed);
        }
        closed
    }

    /// Sets the end of the leases' validity.
    pub(crate) fn extend(&self, valid_until: Instant) {
        self.table.write().valid_until = Some(valid_until);
    }
}
