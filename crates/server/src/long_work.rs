//! CPU-bound work whose duration the client decides: parsing and decompressing large bodies.
//!
//! A few threads serve all connections. Long work runs outside of them, and its concurrency is limited, so
//! that CPUs stay free for short requests.

use std::thread::available_parallelism;

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::Semaphore,
};

/// Inputs up to this size are processed on the request thread: it takes a few milliseconds.
pub const SHORT_BYTES_MAX: usize = 256 << 10;

/// Limits the concurrency of long work to half of the CPUs, at least one.
#[derive(Debug)]
pub struct LongWork(Semaphore);

impl Default for LongWork {
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        LongWork(Semaphore::new((processors / 2).max(1)))
    }
}

impl LongWork {
    /// Runs the work; beyond [`SHORT_BYTES_MAX`] bytes of input, off the request threads.
    pub async fn run<T>(&self, input_bytes: usize, work: impl FnOnce() -> T) -> T {
        if input_bytes <= SHORT_BYTES_MAX {
            return work();
        }
        let _permit = self.0.acquire().await.expect("it is never closed");
        without_blocking_tasks(work)
    }
}

/// Runs work that takes long, or waits. The other tasks of this thread go on in another one, if there are several.
pub fn without_blocking_tasks<T>(work: impl FnOnce() -> T) -> T {
    if Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, AtomicUsize, Ordering},
        },
        thread,
        time::Duration,
    };

    use super::*;

    #[test]
    fn long_work_leaves_the_threads_to_short_work() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
        let work = Arc::new(LongWork(Semaphore::new(2)));
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let is_released = Arc::new(AtomicBool::new(false));
        let long: Vec<_> = (0..6)
            .map(|_| {
                let (work, running, most) = (work.clone(), running.clone(), most.clone());
                let is_released = is_released.clone();
                runtime.spawn(async move {
                    let count = || {
                        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        while !is_released.load(Ordering::SeqCst) {
                            thread::sleep(Duration::from_millis(1));
                        }
                        running.fetch_sub(1, Ordering::SeqCst);
                    };
                    work.run(SHORT_BYTES_MAX + 1, count).await;
                })
            })
            .collect();
        for _ in 0..60_000 {
            if running.load(Ordering::SeqCst) == 2 {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        // More of it would begin now.
        thread::sleep(Duration::from_millis(50));
        let short = runtime.spawn(async move { work.run(SHORT_BYTES_MAX, || 7).await });
        let answer = runtime.block_on(async { tokio::time::timeout(Duration::from_mins(1), short).await });
        let unfinished = long.iter().filter(|task| !task.is_finished()).count();
        is_released.store(true, Ordering::SeqCst);
        assert_eq!((answer.unwrap().unwrap(), unfinished), (7, 6));
        runtime.block_on(async {
            for task in long {
                task.await.unwrap();
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 2);
    }
}
