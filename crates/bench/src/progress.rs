//! How far a load has come, told while it runs: a bar where somebody looks, lines where they are kept.
//!
//! The lines are gnocchiclient's: `120/1000, total: 1.00 seconds, rate: 120.00 create/second`, once a second and at the end.

use std::{
    io::Write as _,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

const LINE_DELAY: Duration = Duration::from_secs(1);
const BAR_DELAY: Duration = Duration::from_millis(100);
/// Characters between the bar's ends.
const BAR_WIDTH: u64 = 30;

/// Where to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Nowhere,
    Lines,
    Bar,
}

/// A piece of work whose steps are counted.
#[derive(Debug)]
pub struct Progress {
    pub done: AtomicU64,
    total: u64,
    /// What a step is called: `create`.
    verb: &'static str,
    place: Place,
}

impl Progress {
    pub fn new(verb: &'static str, total: u64, place: Place) -> Self {
        Progress { done: AtomicU64::new(0), total, verb, place }
    }

    /// Does the work and tells of it from another thread; the last step is always told.
    pub fn watch<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.place == Place::Nowhere {
            return work();
        }
        let (ended, end) = (Mutex::new(false), Condvar::new());
        let lock = || -> MutexGuard<bool> { ended.lock().unwrap_or_else(PoisonError::into_inner) };
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let delay = if self.place == Place::Bar { BAR_DELAY } else { LINE_DELAY };
                let mut guard = lock();
                loop {
                    if !*guard {
                        guard = end.wait_timeout(guard, delay).unwrap_or_else(PoisonError::into_inner).0;
                    }
                    self.tell(start.elapsed(), *guard);
                    if *guard {
                        break;
                    }
                }
            });
            // Ends the watch also where the work panics.
            let _ended = OnDrop(|| {
                *lock() = true;
                end.notify_all();
            });
            work()
        })
    }

    /// A lost line is no reason to end the work.
    fn tell(&self, elapsed: Duration, last: bool) {
        let mut text = self.line(elapsed);
        match self.place {
            Place::Bar => {
                text = format!("\r{} {text}\x1b[K", self.bar());
                if last {
                    text.push('\n');
                }
            }
            Place::Lines | Place::Nowhere => text.push('\n'),
        }
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }

    fn line(&self, elapsed: Duration) -> String {
        let (done, seconds) = (self.done.load(Ordering::Relaxed), elapsed.as_secs_f64());
        let rate = if seconds > 0.0 { done as f64 / seconds } else { 0.0 };
        let Progress { total, verb, .. } = self;
        format!("{done}/{total}, total: {seconds:.2} seconds, rate: {rate:.2} {verb}/second")
    }

    fn bar(&self) -> String {
        let done = self.done.load(Ordering::Relaxed).min(self.total);
        let filled = (done * BAR_WIDTH).checked_div(self.total).unwrap_or(BAR_WIDTH) as usize;
        format!("[{}{}]", "#".repeat(filled), ".".repeat(BAR_WIDTH as usize - filled))
    }
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_clients() {
        let progress = Progress::new("create", 1000, Place::Lines);
        progress.done.store(120, Ordering::Relaxed);
        let line = progress.line(Duration::from_millis(1500));
        assert_eq!(line, "120/1000, total: 1.50 seconds, rate: 80.00 create/second");
        assert!(progress.line(Duration::ZERO).contains("rate: 0.00"));
    }

    #[test]
    fn the_bar_fills() {
        let progress = Progress::new("push", 10, Place::Bar);
        assert_eq!(progress.bar(), format!("[{}]", ".".repeat(30)));
        progress.done.store(5, Ordering::Relaxed);
        assert_eq!(progress.bar(), format!("[{}{}]", "#".repeat(15), ".".repeat(15)));
        progress.done.store(99, Ordering::Relaxed);
        assert_eq!(progress.bar(), format!("[{}]", "#".repeat(30)));
    }

    #[test]
    fn watching_ends_with_the_work() {
        let progress = Progress::new("show", 1, Place::Lines);
        let start = Instant::now();
        assert_eq!(progress.watch(|| 7), 7);
        assert!(start.elapsed() < LINE_DELAY);
    }
}
