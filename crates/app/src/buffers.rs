//! Vectors that are used again, so that a request allocates none of its own.

use gnudi_model::Measure;
use parking_lot::Mutex;

/// How many vectors wait for their next use.
const KEPT_MAX: usize = 16;
/// The longest vector that is kept, in measures.
const KEPT_MEASURES_MAX: usize = 64 << 10;

/// Vectors of measures.
#[derive(Debug, Default)]
pub struct MeasureBuffers(Mutex<Vec<Vec<Measure>>>);

impl MeasureBuffers {
    /// An empty vector.
    pub fn take(&self) -> Vec<Measure> {
        self.0.lock().pop().unwrap_or_default()
    }

    /// Gives a vector back.
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
