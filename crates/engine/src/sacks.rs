//! The units of this process: for each, who may process it now and how far its sacks have come.
//!
//! A unit has one owner at a time. Within one process the lock is the ownership.

use std::collections::HashMap;

use gnudi_drivers::incoming::Position;
use gnudi_model::{Sack, SackCount, SackId};
use tokio::sync::{Mutex, MutexGuard};

/// Up to which position the records of a unit's sacks are in the aggregates. Without an entry until the sack's first pass has
/// asked the driver.
#[derive(Debug, Default)]
pub struct Progress {
    pub applied: HashMap<Sack, Position>,
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
