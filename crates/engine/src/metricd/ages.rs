//! Which ages are real: if the system's clock is set forward, everything becomes older at once by that step.

use std::time::Duration;

use gnudi_model::{Timespan, Timestamp};

use crate::retention::ClockTimes;

/// Less is no step: the two clocks are read one after the other.
const STEP_MIN: Timespan = Timespan::from_secs(1);

/// What is due once it ended some time ago. After a step of the clock nothing is due until as much time has passed as the clock
/// skipped, or until the age itself has passed, whichever is less: by then even what ended just before the step is old enough.
/// A step before the start of the process is not known.
#[derive(Debug)]
pub(super) struct Ages {
    /// What is deleted, for the log.
    what: &'static str,
    age: Timespan,
    last: ClockTimes,
    /// Nothing is due before this time, by the clock that cannot be set.
    not_before: Duration,
}

impl Ages {
    pub(super) fn new(what: &'static str, age: Timespan, now: ClockTimes) -> Self {
        Ages { what, age, last: now, not_before: now.up }
    }

    /// What ended before this time is due; `None` if nothing is, after a step. Must be called often, since a step counts from
    /// the first call after it.
    pub(super) fn due_before(&mut self, now: ClockTimes) -> Option<Timestamp> {
        let step = now.step_since(self.last);
        self.last = now;
        if step >= STEP_MIN {
            let age = Duration::from_nanos(self.age.0.unsigned_abs());
            let step = Duration::from_nanos(step.0.unsigned_abs());
            let wait = (self.not_before.saturating_sub(now.up) + step).min(age);
            self.not_before = now.up + wait;
            tracing::warn!(
                step_seconds = step.as_secs(),
                wait_seconds = wait.as_secs(),
                "the clock was set forward, or the machine was suspended: {} are kept until that time has passed",
                self.what
            );
        }
        (now.up >= self.not_before).then(|| now.at.saturating_sub(self.age))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Timespan = Timespan::from_secs(3600);

    fn moment(seconds: i64, up_seconds: u64) -> ClockTimes {
        ClockTimes { at: Timestamp::from_secs(seconds), up: Duration::from_secs(up_seconds) }
    }

    fn begin(seconds: i64) -> Ages {
        Ages::new("resources", HOUR, moment(seconds, 0))
    }

    #[test]
    fn without_a_step_everything_old_enough_is_due() {
        let mut ages = begin(10_000);
        assert_eq!(ages.due_before(moment(10_000, 0)), Some(Timestamp::from_secs(6_400)));
        assert_eq!(ages.due_before(moment(10_300, 300)), Some(Timestamp::from_secs(6_700)));
        // The clock is set back: things become younger.
        assert_eq!(ages.due_before(moment(9_000, 600)), Some(Timestamp::from_secs(5_400)));
    }

    #[test]
    fn a_step_postpones_by_its_length() {
        let mut ages = begin(10_000);
        assert_eq!(ages.due_before(moment(10_900, 300)), None, "600 seconds were skipped");
        assert_eq!(ages.due_before(moment(11_499, 899)), None);
        assert_eq!(ages.due_before(moment(11_500, 900)), Some(Timestamp::from_secs(7_900)));
    }

    #[test]
    fn steps_add_up() {
        let mut ages = begin(10_000);
        assert_eq!(ages.due_before(moment(10_600, 0)), None);
        assert_eq!(ages.due_before(moment(11_200, 0)), None);
        assert_eq!(ages.due_before(moment(12_399, 1_199)), None);
        assert!(ages.due_before(moment(12_400, 1_200)).is_some());
    }

    /// As a machine without a battery, whose clock begins in 1970.
    #[test]
    fn a_long_step_postpones_by_the_age() {
        let mut ages = begin(0);
        assert_eq!(ages.due_before(moment(1_700_000_000, 0)), None);
        assert_eq!(ages.due_before(moment(1_700_003_599, 3_599)), None);
        assert_eq!(ages.due_before(moment(1_700_003_600, 3_600)), Some(Timestamp::from_secs(1_700_000_000)));
    }
}
