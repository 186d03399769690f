//! Random numbers from a seed: all choices of a schedule are drawn from one generator.

use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;

pub struct Random(Mutex<Rng>);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(Mutex::new(Rng::with_seed(seed)))
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.0.lock().u64(..bound)
    }

    pub fn ms(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from + 1))
    }

    /// True with probability 1 / `times`.
    pub fn one_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }
}
