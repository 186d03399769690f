//! Polls work while it runs, waits until a server has processed its backlog, and prints the progress of a load once a second
//! and at the end, as gnocchiclient does: `120/1000, total: 1.00 seconds, rate: 120.00 create/second`.

use std::{
    io::Write as _,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

const LINE_DELAY: Duration = Duration::from_secs(1);

/// Runs the work and prints its progress, at last once it is done: `done` of `total` steps, which `verb` names (`create`).
pub fn show<T>(done: &AtomicU64, total: u64, verb: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    watch(LINE_DELAY, work, || {
        let line = line(done.load(Ordering::Relaxed), total, verb, start.elapsed());
        // A failure to print must not end the work.
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    })
}

fn line(done: u64, total: u64, verb: &str, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    let rate = if seconds > 0.0 { done as f64 / seconds } else { 0.0 };
    format!("{done}/{total}, total: {seconds:.2} seconds, rate: {rate:.2} {verb}/second")
}

/// Waits until a server has no backlog, and returns the time. `look` is called with the number of waiting measures. The wait
/// fails if `look` fails, or if the backlog has not shrunk for a minute.
pub fn until_processed(
    left: impl Fn() -> Result<u64>,
    mut look: impl FnMut(u64) -> Result<()>,
) -> Result<Duration> {
    const POLL_INTERVAL: Duration = Duration::from_millis(10);
    const STALL_MAX: Duration = Duration::from_mins(1);
    let start = Instant::now();
    let (mut least, mut shrunk) = (u64::MAX, start);
    loop {
        let waiting = left()?;
        if waiting == 0 {
            return Ok(start.elapsed());
        }
        if waiting < least {
            (least, shrunk) = (waiting, Instant::now());
        }
        look(waiting)?;
        let is_stalled = shrunk.elapsed() >= STALL_MAX;
        ensure!(
            !is_stalled,
            "nobody has processed any for a minute: {waiting} measures still wait to be processed"
        );
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Runs the work; another thread looks at it after each interval, and once at the end.
pub fn watch<T>(interval: Duration, work: impl FnOnce() -> T, mut look: impl FnMut() + Send) -> T {
    let (working, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                look();
            }
            look();
        });
        // Dropped when the work ends, even by a panic: that ends the thread.
        let _working = working;
        work()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watching_ends_with_the_work() {
        let shown = line(5, 1, "show", Duration::from_secs(2));
        assert_eq!(shown, "5/1, total: 2.00 seconds, rate: 2.50 show/second");
        // Again where the machine stood still for as long.
        let is_quick = (0..5).any(|_| {
            let start = Instant::now();
            assert_eq!(show(&AtomicU64::new(5), 1, "show", || 7), 7);
            start.elapsed() < LINE_DELAY
        });
        assert!(is_quick);
    }
}
