//! Shares a listing that reads all names, whatever prefix is wanted, between its callers.
//!
//! Where the store has no index of names, such a scan may take longer than any caller waits. So a scan goes on after its
//! caller has given up, and the result of a slow one is also used for callers that arrive while it runs, or soon after:
//! a caller that retries gets it in the end. Such a result may be outdated, which [`Objects::list`](super::Objects::list)
//! allows. The result of a quick scan is never outdated.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use futures_util::future::{BoxFuture, FutureExt as _, Shared};
use parking_lot::Mutex;

/// A scan that takes longer is slow.
const SLOW: Duration = Duration::from_secs(1);

type Names<E> = Shared<BoxFuture<'static, Result<Arc<Vec<String>>, E>>>;

pub struct SharedScan<E> {
    slow: Duration,
    /// The scan that began last, while it runs or may be used.
    last: Mutex<Option<Scan<E>>>,
}

struct Scan<E> {
    began: Instant,
    ended: Arc<OnceLock<Ended>>,
    names: Names<E>,
}

struct Ended {
    took: Duration,
    has_failed: bool,
}

impl<E: Clone + Send + Sync + 'static> SharedScan<E> {
    pub fn new() -> Self {
        Self::with(SLOW)
    }

    fn with(slow: Duration) -> Self {
        Self { slow, last: Mutex::new(None) }
    }

    /// All names, sorted. `scan` blocks; it is not called if the result of another caller's scan can be used.
    pub async fn names(
        &self,
        scan: impl FnOnce() -> Result<Vec<String>, E> + Send + 'static,
    ) -> Result<Arc<Vec<String>>, E> {
        let arrived = Instant::now();
        let running = self.last.lock().as_ref().filter(|scan| scan.is_running()).cloned();
        if let Some(running) = running {
            // Wait until it has ended, or counts as slow.
            let rest = self.slow.saturating_sub(running.began.elapsed());
            let _ = tokio::time::timeout(rest, running.names).await;
        }
        let names = {
            let mut last = self.last.lock();
            match &*last {
                Some(known) if known.serves(arrived, self.slow) => known.names.clone(),
                _ => last.insert(Scan::begin(scan)).names.clone(),
            }
        };
        let names = names.await;
        // The names need not stay in memory.
        let now = Instant::now();
        self.last.lock().take_if(|scan| !scan.is_running() && !scan.serves(now, self.slow));
        names
    }
}

impl<E: Clone + Send + Sync + 'static> Scan<E> {
    fn begin(scan: impl FnOnce() -> Result<Vec<String>, E> + Send + 'static) -> Self {
        let began = Instant::now();
        let ended: Arc<OnceLock<Ended>> = Arc::default();
        let end = Arc::clone(&ended);
        let scanning = tokio::task::spawn_blocking(move || {
            let names = scan().map(|mut names| {
                names.sort_unstable();
                Arc::new(names)
            });
            end.get_or_init(|| Ended { took: began.elapsed(), has_failed: names.is_err() });
            names
        });
        let names = async move { scanning.await.expect("listing does not panic") };
        Self { began, ended, names: names.boxed().shared() }
    }

    fn is_running(&self) -> bool {
        self.ended.get().is_none()
    }

    /// Whether a caller that arrived at this time can use the result.
    fn serves(&self, arrived: Instant, slow: Duration) -> bool {
        let age = self.began.elapsed();
        match self.ended.get() {
            _ if self.began >= arrived => true,
            None => age >= slow,
            Some(ended) => !ended.has_failed && ended.took >= slow && age < 2 * ended.took,
        }
    }
}

impl<E> Clone for Scan<E> {
    fn clone(&self) -> Self {
        Self { began: self.began, ended: Arc::clone(&self.ended), names: self.names.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts the scans of a store with the names `a` and `b`.
    #[derive(Clone, Default)]
    struct Store(Arc<AtomicUsize>);

    impl Store {
        fn scan(&self, millis: u64) -> impl FnOnce() -> Result<Vec<String>, &'static str> + Send + use<> {
            let scans = Arc::clone(&self.0);
            move || {
                scans.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(millis));
                Ok(vec!["b".to_owned(), "a".to_owned()])
            }
        }

        fn scans(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    /// Whether a slow scan goes on without its caller, and serves the next ones.
    async fn is_shared(store: &Store, shared: &SharedScan<&'static str>) -> bool {
        let given_up = tokio::time::timeout(Duration::from_millis(200), shared.names(store.scan(500))).await;
        for _ in 0..2 {
            assert_eq!(*shared.names(store.scan(0)).await.unwrap(), ["a", "b"]);
        }
        given_up.is_err() && store.scans() == 1
    }

    #[tokio::test]
    async fn a_slow_scan_goes_on_without_its_caller_and_serves_the_next_ones() {
        const TRIES_MAX: usize = 5;
        let mut tries = 0;
        let (store, shared) = loop {
            let (store, shared) = (Store::default(), SharedScan::with(Duration::from_millis(100)));
            if is_shared(&store, &shared).await {
                break (store, shared);
            }
            // If the machine stands still, the names are too old.
            tries += 1;
            assert!(tries < TRIES_MAX, "{} scans", store.scans());
        };
        tokio::time::sleep(Duration::from_millis(1500)).await;
        shared.names(store.scan(0)).await.unwrap();
        assert_eq!(store.scans(), 2, "it is too old");
    }

    #[tokio::test]
    async fn a_quick_scan_serves_nobody_who_comes_after_its_begin() {
        // None is slow, even on a busy machine.
        let (store, shared) = (Store::default(), SharedScan::with(Duration::from_mins(1)));
        for scans in 1..4 {
            shared.names(store.scan(0)).await.unwrap();
            assert_eq!(store.scans(), scans);
        }
        // The first begins one; the others wait for it, and share the next one.
        let all = (0..20).map(|_| shared.names(store.scan(100)));
        assert!(futures_util::future::join_all(all).await.iter().all(Result::is_ok));
        assert_eq!(store.scans(), 5);
    }

    #[tokio::test]
    async fn a_failure_is_of_those_who_waited_for_it() {
        let (store, shared) = (Store::default(), SharedScan::with(Duration::ZERO));
        assert_eq!(shared.names(|| Err("down")).await, Err("down"));
        assert_eq!(*shared.names(store.scan(0)).await.unwrap(), ["a", "b"]);
    }
}
