//! The units that this process may process now, and how far each has come.
//!
//! A unit has one owner at a time. Within one process its lock is the ownership. Where processes share a store, `metricd::ownership`
//! opens units once they are leased and fenced, and closes them; nobody else does. A unit that was closed is never opened again: what
//! takes its place has a token and a progress of its own.

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

/// How far the sacks of a unit have come.
#[derive(Debug, Default)]
pub struct Progress {
    /// Up to which position their records are in the aggregates. Without an entry until the sack's first pass has asked the driver.
    pub applied: HashMap<Sack, Position>,
    /// Sacks that are sealed and worked off: nothing will ever wait in them.
    pub drained: HashSet<Sack>,
}

#[derive(Debug)]
pub struct Unit {
    /// With it the unit's passes write.
    pub fence: Fence,
    closed: AtomicBool,
    progress: Mutex<Progress>,
    /// Passes that failed in a row.
    failures: AtomicU32,
}

impl Unit {
    fn new(fence: Fence) -> Arc<Self> {
        let (closed, progress, failures) = Default::default();
        Arc::new(Unit { fence, closed, progress, failures })
    }

    /// Waits until nobody else processes the unit; `None` where it was closed meanwhile.
    pub async fn lock(&self) -> Option<MutexGuard<'_, Progress>> {
        let progress = self.progress.lock().await;
        (!self.closed.load(Relaxed)).then_some(progress)
    }

    /// Waits until the pass that runs has ended.
    pub async fn rest(&self) {
        drop(self.progress.lock().await);
    }

    /// Whether no pass runs.
    pub fn rests(&self) -> bool {
        self.progress.try_lock().is_ok()
    }

    /// Counts a failed pass; returns how many there were in a row.
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
    /// Rung when a unit was lost to another owner.
    pub lost: Notify,
}

#[derive(Debug)]
struct Table {
    count: SackCount,
    open: Vec<Option<Arc<Unit>>>,
    /// Until when the leases are good, by this process's clock; `None` where there are no leases.
    valid_until: Option<Instant>,
}

impl Table {
    fn is_valid(&self) -> bool {
        self.valid_until.is_none_or(|until| Instant::now() < until)
    }
}

impl Units {
    /// Of a store that nobody shares: all are open, with token 0.
    pub fn everything(count: SackCount) -> Self {
        let open = count.sacks().map(|sack| Some(Unit::new(Fence { sack, token: 0 }))).collect();
        Units { table: RwLock::new(Table { count, open, valid_until: None }), lost: Notify::new() }
    }

    /// Of a shared store, before anything is leased.
    pub fn nothing(count: SackCount) -> Self {
        let table =
            Table { count, open: vec![None; usize::from(count.get())], valid_until: Some(Instant::now()) };
        Units { table: RwLock::new(table), lost: Notify::new() }
    }

    /// The unit, where it is open and the lease on it is good.
    pub fn get(&self, unit: Sack) -> Option<Arc<Unit>> {
        let table = self.table.read();
        let open = table.open.get(usize::from(unit.id.0)).filter(|_| table.count == unit.count)?;
        open.as_ref().filter(|_| table.is_valid()).cloned()
    }

    /// Whether the unit is open, however good the lease on it is.
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

    /// How many are open.
    pub fn len(&self) -> usize {
        let table = self.table.read();
        if table.is_valid() { table.open.iter().flatten().count() } else { 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Opens a leased and fenced unit. Its count is that of the last [`Units::renumber`].
    pub(crate) fn insert(&self, fence: Fence) {
        let mut table = self.table.write();
        assert_eq!(table.count, fence.sack.count, "units are of one count");
        table.open[usize::from(fence.sack.id.0)] = Some(Unit::new(fence));
    }

    /// Closes a unit: no pass over it begins any more. One may still run.
    pub(crate) fn close(&self, unit: Sack) -> Option<Arc<Unit>> {
        let mut table = self.table.write();
        let same_count = table.count == unit.count;
        let closed = table.open.get_mut(usize::from(unit.id.0)).filter(|_| same_count)?.take()?;
        closed.closed.store(true, Relaxed);
        Some(closed)
    }

    /// Closes a unit that another process has taken, and rings for it.
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

    /// Closes all; from now on there are so many.
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

    /// Until when the leases are good.
    pub(crate) fn extend(&self, valid_until: Instant) {
        self.table.write().valid_until = Some(valid_until);
    }
}
