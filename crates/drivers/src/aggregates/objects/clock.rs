//! Time, as an argument.

use std::{
    sync::OnceLock,
    time::{Instant, SystemTime},
};

/// A moment by two clocks: one that everybody shares, more or less, and one that never jumps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since 1970.
    pub wall_ms: u64,
    /// Milliseconds since some time before.
    pub running_ms: u64,
}

impl Moment {
    /// Milliseconds from an earlier moment: the larger of what the two clocks say. The one may be set back, the other stands
    /// still while a machine is suspended.
    pub fn since_ms(self, earlier: Moment) -> u64 {
        let wall_ms = self.wall_ms.saturating_sub(earlier.wall_ms);
        wall_ms.max(self.running_ms.saturating_sub(earlier.running_ms))
    }
}

pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Moment;
}

/// The machine's own.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        static START: OnceLock<Instant> = OnceLock::new();
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Moment {
            wall_ms: wall.as_millis() as u64,
            running_ms: START.get_or_init(Instant::now).elapsed().as_millis() as u64,
        }
    }
}
