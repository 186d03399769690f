//! Work on the processor whose length the client decides: reading and inflating large bodies.
//!
//! What answers requests are a few threads for all connections. Work on much input leaves them to the others meanwhile, and
//! only some of it runs at a time, so that processors stay for requests that ask for little.

use std::thread::available_parallelism;

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::Semaphore,
};

/// Work on less is done at once: it takes a few milliseconds.
pub const SHORT_BYTES_MAX: usize = 256 << 10;

/// Bounds how much of such work runs at a time: half as many as there are processors, and one at least.
#[derive(Debug)]
pub struct LongWork(Semaphore);

impl Default for LongWork {
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        LongWork(Semaphore::new((processors / 2).max(1)))
    }
}

impl LongWork {
    /// What the work on so many bytes of input gives.
    pub async fn run<T>(&self, input_bytes: usize, work: impl FnOnce() -> T) -> T {
        if input_bytes <= SHORT_BYTES_MAX {
            return work();
        }
        let _permit = self.0.acquire().await.expect("it is never closed");
        if Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
            tokio::task::block_in_place(work)
        } else {
            work()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        thread,
        time::Duration,
    };

    use super::*;

    #[test]
    fn long_work_leaves_the_threads_to_short_work() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let work = Arc::new(LongWork(Semaphore::new(2)));
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let long: Vec<_> = (0..6)
            .map(|_| {
                let (work, running, most) = (work.clone(), running.clone(), most.clone());
                runtime.spawn(async move {
                    let count = || {
                        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::sleep(Duration::from_millis(200));
                        running.fetch_sub(1, Ordering::SeqCst);
                    };
                    work.run(SHORT_BYTES_MAX + 1, count).await;
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(50));
        let short = runtime.spawn(async move { work.run(SHORT_BYTES_MAX, || 7).await });
        assert_eq!(runtime.block_on(short).unwrap(), 7);
        assert!(long.iter().any(|task| !task.is_finished()));
        runtime.block_on(async {
            for task in long {
                task.await.unwrap();
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 2);
    }
}
