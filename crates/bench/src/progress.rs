//! The progress of a load: a bar on a terminal, lines in a log.
//!
//! The lines are gnocchiclient's: `120/1000, total: 1.00 seconds, rate: 120.00 create/second`, once a second and at the end.

use std::{
    io::{IsTerminal as _, Write as _},
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

const LINE_DELAY: Duration = Duration::from_secs(1);
const BAR_DELAY: Duration = Duration::from_millis(100);
/// Characters between the bar's ends.
const BAR_WIDTH: u64 = 30;

/// How to show progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Display {
    Hidden,
    Lines,
    Bar,
}

/// Work with countable steps.
#[derive(Debug)]
pub struct Progress {
    pub done: AtomicU64,
    total: u64,
    /// The name of a step: `create`.
    verb: &'static str,
    display: Display,
}

impl Progress {
    /// Shown if it is `verbose`: on a terminal as a bar, else as lines.
    pub fn new(verb: &'static str, total: u64, verbose: bool) -> Self {
        let display = match (verbose, std::io::stderr().is_terminal()) {
            (false, _) => Display::Hidden,
            (true, true) => Display::Bar,
            (true, false) => Display::Lines,
        };
        Progress { done: AtomicU64::new(0), total, verb, display }
    }

    /// Runs the work and shows its progress from another thread; the last step is always shown.
    pub fn watch<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.display == Display::Hidden {
            return work();
        }
        let start = Instant::now();
        let delay = if self.display == Display::Bar { BAR_DELAY } else { LINE_DELAY };
        let (working, ended) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while ended.recv_timeout(delay) == Err(RecvTimeoutError::Timeout) {
                    self.show(start.elapsed(), false);
                }
                self.show(start.elapsed(), true);
            });
            // Dropped when the work ends, even by a panic: that ends the thread.
            let _working = working;
            work()
        })
    }

    /// A failure to print must not end the work.
    fn show(&self, elapsed: Duration, last: bool) {
        let mut text = self.line(elapsed);
        match self.display {
            Display::Bar => {
                text = format!("\r{} {text}\x1b[K", self.bar());
                if last {
                    text.push('\n');
                }
            }
            Display::Lines | Display::Hidden => text.push('\n'),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills() {
        let progress = Progress::new("push", 10, true);
        assert_eq!(progress.bar(), format!("[{}]", ".".repeat(30)));
        progress.done.store(5, Ordering::Relaxed);
        assert_eq!(progress.bar(), format!("[{}{}]", "#".repeat(15), ".".repeat(15)));
        progress.done.store(99, Ordering::Relaxed);
        assert_eq!(progress.bar(), format!("[{}]", "#".repeat(30)));
    }

    #[test]
    fn watching_ends_with_the_work() {
        let progress = Progress::new("show", 1, true);
        let start = Instant::now();
        assert_eq!(progress.watch(|| 7), 7);
        assert!(start.elapsed() < LINE_DELAY);
    }
}
