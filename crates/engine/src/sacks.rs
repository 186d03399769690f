//! The sacks of this process: for each, who may process it now and how far it has come.
//!
//! A sack has one owner at a time. Within one process the lock is the ownership; leases between processes come with
//! the shared drivers.

use gnudi_drivers::incoming::Position;
use gnudi_model::{SackCount, SackId};
use tokio::sync::{Mutex, MutexGuard};

/// Up to which position a sack's records are in the aggregates. `None` until the sack's first pass has asked the driver.
#[derive(Debug, Default)]
pub struct Progress {
    pub applied: Option<Position>,
}

#[derive(Debug)]
pub struct Sacks(Vec<Mutex<Progress>>);

impl Sacks {
    pub fn new(count: SackCount) -> Self {
        Sacks(count.iter().map(|_| Mutex::default()).collect())
    }

    /// Waits until nobody else processes the sack.
    pub async fn lock(&self, sack: SackId) -> MutexGuard<'_, Progress> {
        self.0[usize::from(sack.0)].lock().await
    }
}
