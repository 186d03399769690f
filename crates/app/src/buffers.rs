//! A pool of vectors, so that requests do not allocate.

use gnudi_model::Measure;
use parking_lot::Mutex;

/// How many vectors the pool keeps.
const KEPT_MAX: usize = 16;
/// The largest capacity that the pool keeps, in measures.
const KEPT_MEASURES_MAX: usize = 64 << 10;

/// A pool of vectors of measures.
#[derive(Debug, Default)]
pub struct MeasureBuffers(Mutex<Vec<Vec<Measure>>>);

impl MeasureBuffers {
    /// An empty vector from the pool, or a new one.
    pub fn take(&self) -> Vec<Measure> {
        self.0.lock().pop().unwrap_or_default()
    }

    /// Returns a vector to the pool.
    pub fn put(&self, mut buffer: Vec<Measure>) {
        if buffer.capacity() <= KEPT_MEASURES_MAX {
            buffer.clear();
            let mut kept = self.0.lock();
            if kept.len() < KEPT_MAX {
                kept.push(buffer);
            }
        }
    }
}
