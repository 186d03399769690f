//! Resources whose attributes cannot be read. Listings leave them out, so that one does not fail all others; a request for
//! such a resource fails with its id.

use std::collections::HashSet;

use parking_lot::Mutex;
use uuid::Uuid;

use crate::{IndexerError, Result};

/// Further ones are neither logged nor counted.
const RESOURCES_NOTED_MAX: usize = 10_000;

/// The damaged resources that were found.
#[derive(Debug, Default)]
pub(super) struct Damage {
    noted: Mutex<HashSet<Uuid>>,
}

impl Damage {
    /// `None` for a damaged row: it is logged and counted, each resource once.
    pub(super) fn leave_out<T>(&self, decoded: Result<Option<T>>) -> Result<Option<T>> {
        let Err(error @ IndexerError::DamagedResource { id, .. }) = &decoded else { return decoded };
        let mut noted = self.noted.lock();
        if noted.len() < RESOURCES_NOTED_MAX && noted.insert(*id) {
            tracing::error!(%error, "a resource is left out of listings");
        }
        Ok(None)
    }

    /// How many were found.
    pub(super) fn count(&self) -> u64 {
        self.noted.lock().len() as u64
    }
}
