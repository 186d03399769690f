//! Random numbers from a seed: all choices of a schedule are drawn from one generator.

use std::time::Duration;

use parking_lot::Mutex;

/// `SplitMix64`.
pub struct Random(Mutex<u64>);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(Mutex::new(seed))
    }

    pub fn next(&self) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = *state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn ms(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from + 1))
    }

    /// True with probability 1 / `times`.
    pub fn one_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }
}
