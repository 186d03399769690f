//! Time by two clocks, for protocols that must notice that a machine was suspended or its clock set.

use std::{
    sync::OnceLock,
    time::{Duration, Instant, SystemTime},
};

/// A moment by two clocks: the roughly synchronised wall clock, and a monotonic one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since 1970.
    pub wall_ms: u64,
    /// Milliseconds of the monotonic clock.
    pub running_ms: u64,
}

impl Moment {
    pub fn now() -> Self {
        static START: OnceLock<Instant> = OnceLock::new();
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            wall_ms: wall.as_millis() as u64,
            running_ms: START.get_or_init(Instant::now).elapsed().as_millis() as u64,
        }
    }

    /// Milliseconds since `earlier`: the larger of both clocks' values. The wall clock may be set back; the
    /// monotonic one stands still while a machine is suspended.
    pub fn since_ms(self, earlier: Moment) -> u64 {
        let wall_ms = self.wall_ms.saturating_sub(earlier.wall_ms);
        wall_ms.max(self.running_ms.saturating_sub(earlier.running_ms))
    }

    pub fn elapsed(self) -> Duration {
        Duration::from_millis(Self::now().since_ms(self))
    }
}

/// Time as an argument, which tests control.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Moment;
}

/// The machine's clocks.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment::now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_clock_shows_that_time_has_passed() {
        let at = |wall_ms, running_ms| Moment { wall_ms, running_ms };
        assert_eq!(at(5000, 2).since_ms(at(1000, 1)), 4000, "the machine was suspended");
        assert_eq!(at(1000, 3000).since_ms(at(5000, 1000)), 2000, "the clock was set back");
    }
}
