//! Prints a command's progress on standard error from time to time.

use std::time::{Duration, Instant};

use super::messages::note;

const STEADY_PAUSE: Duration = Duration::from_secs(5);
const SLOWING_PAUSE: Duration = Duration::from_secs(1);
const SLOWING_PAUSE_MAX: Duration = Duration::from_mins(1);

/// See the module.
pub(super) struct Progress {
    what: &'static str,
    began: Instant,
    next: Duration,
    pause: Duration,
    pause_max: Duration,
}

impl Progress {
    /// Prints every five seconds.
    pub(super) fn steady(what: &'static str) -> Self {
        Self { what, began: Instant::now(), next: STEADY_PAUSE, pause: STEADY_PAUSE, pause_max: STEADY_PAUSE }
    }

    /// Prints after a second, then ever less often, finally once a minute.
    pub(super) fn slowing(what: &'static str) -> Self {
        let (pause, pause_max) = (SLOWING_PAUSE, SLOWING_PAUSE_MAX);
        Self { what, began: Instant::now(), next: pause, pause, pause_max }
    }

    /// Time since the command began.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Prints `figures(elapsed)` if it is due.
    pub(super) fn tell(&mut self, figures: impl FnOnce(Duration) -> String) {
        if let Some(line) = self.due(figures) {
            note(line);
        }
    }

    fn due(&mut self, figures: impl FnOnce(Duration) -> String) -> Option<String> {
        let elapsed = self.elapsed();
        if elapsed < self.next {
            return None;
        }
        self.pause = (self.pause * 2).min(self.pause_max);
        self.next = elapsed + self.pause;
        Some(format!("{}: {}", self.what, figures(elapsed)))
    }
}

/// `25 of 100 metrics, 5 metrics/s, 15 s left`, without a pace before the first is done.
pub(super) fn metrics_done(done: u64, total: u64, elapsed: Duration) -> String {
    let line = format!("{done} of {total} metrics");
    if done == 0 {
        return line;
    }
    let rate = done as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let left = total.saturating_sub(done) as f64 / rate;
    format!("{line}, {rate:.0} metrics/s, {left:.0} s left")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(progress: &mut Progress) -> Option<String> {
        progress.due(|_| "figures".to_owned())
    }

    #[test]
    fn progress_is_told_ever_more_rarely() {
        let mut progress = Progress::slowing("backup");
        for pause in [2, 4, 8, 16, 32, 60, 60] {
            progress.next = Duration::ZERO;
            assert_eq!(told(&mut progress).as_deref(), Some("backup: figures"));
            assert_eq!(progress.pause, Duration::from_secs(pause));
        }
        let next = progress.next;
        assert_eq!(told(&mut progress), None);
        assert_eq!(progress.next, next, "not before its time");
    }

    #[test]
    fn progress_is_told_steadily() {
        let mut progress = Progress::steady("import");
        assert_eq!(told(&mut progress), None);
        for _ in 0..3 {
            progress.next = Duration::ZERO;
            assert!(told(&mut progress).is_some());
            assert_eq!(progress.pause, STEADY_PAUSE);
        }
    }
}
