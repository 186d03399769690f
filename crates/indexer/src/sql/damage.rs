//! Resources and metrics whose rows cannot be read. Listings leave them out, so that one does not fail all others; a
//! request for such an item fails with its id.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicU64, Ordering},
};

use gnudi_model::MetricId;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::{IndexerError, Result};

/// Further ones are neither logged nor counted.
const NOTED_MAX: usize = 10_000;

/// The damaged items that were found.
#[derive(Debug, Default)]
pub(super) struct Damage {
    noted: Mutex<HashSet<Uuid>>,
    /// How often one was left out.
    left_out: AtomicU64,
}

impl Damage {
    /// `None` for a damaged row: it is logged and counted, each item once.
    pub(super) fn leave_out<T>(&self, decoded: Result<Option<T>>) -> Result<Option<T>> {
        let Err(
            error @ (IndexerError::DamagedResource { id, .. }
            | IndexerError::DamagedMetric { id: MetricId(id), .. }),
        ) = &decoded
        else {
            return decoded;
        };
        self.left_out.fetch_add(1, Ordering::Relaxed);
        let mut noted = self.noted.lock();
        if noted.len() < NOTED_MAX && noted.insert(*id) {
            tracing::error!(%error, "left out of listings");
        }
        Ok(None)
    }

    /// How many were found.
    pub(super) fn count(&self) -> u64 {
        self.noted.lock().len() as u64
    }

    /// How often one was left out.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }
}

/// The first `limit` items of a part of a listing. `fetch` reads up to a number of rows, and returns their items and how
/// many rows it left out. Reads more rows in place of these: a page with fewer items than its limit would pass for the
/// last one.
pub(super) async fn full_page<T, F>(limit: usize, fetch: impl Fn(usize) -> F) -> Result<Vec<T>>
where
    F: Future<Output = Result<(Vec<T>, usize)>>,
{
    let mut rows_max = limit;
    loop {
        let (mut found, left_out) = fetch(rows_max).await?;
        let is_all = found.len() + left_out < rows_max;
        if left_out == 0 || is_all || found.len() >= limit {
            found.truncate(limit);
            return Ok(found);
        }
        // Twice as many as were left out, so that a few statements skip many damaged rows.
        rows_max = limit.saturating_add(2 * left_out);
    }
}
