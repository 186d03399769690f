//! The backlog, as `/v1/status` shows it.
//!
//! Counting waiting metrics requires reading the backlog, so a result is cached while nothing changes; while the
//! backlog is large it is cached for a second, and for twenty times as long as the counting took. There is
//! one count at a time, and it goes on without its request: otherwise clients that give up would start one
//! after the other.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use gnudi_drivers::{
    incoming::{Append, Backlog, IncomingError},
    stopping,
};
use gnudi_model::MetricId;
use tokio::sync::Mutex;

use crate::{EngineError, Result};

/// How long the count of a large backlog is cached at least.
const CACHED_MIN: Duration = Duration::from_secs(1);
/// The count is cached at least this many times as long as it took: clients that poll must not slow down the workers.
const CACHED_TIMES: u32 = 20;
/// A backlog up to this size is counted at each request.
pub const STATUS_FRESH_BYTES_MAX: u64 = 1 << 20;

#[derive(Clone, Debug, Default)]
pub struct ProcessingStatus {
    pub metrics_waiting: u64,
    pub measures_waiting: u64,
    /// Waiting measures by metric, if requested.
    pub by_metric: Option<Arc<HashMap<MetricId, u64>>>,
}

#[derive(Debug, Default)]
pub(crate) struct StatusCache(Arc<Mutex<Option<Counted>>>);

#[derive(Debug)]
struct Counted {
    at: Instant,
    took: Duration,
    backlog: Backlog,
    by_metric: Arc<HashMap<MetricId, u64>>,
}

impl Counted {
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < CACHED_MIN.max(self.took * CACHED_TIMES)
    }
}

impl StatusCache {
    pub(crate) async fn status(&self, incoming: Arc<dyn Append>, details: bool) -> Result<ProcessingStatus> {
        let mut cached = self.0.clone().lock_owned().await;
        let backlog = incoming.backlog().await?;
        let fits = cached.as_ref().is_some_and(|counted| {
            counted.backlog == backlog && backlog.measures == 0
                || backlog.bytes > STATUS_FRESH_BYTES_MAX && counted.is_fresh()
        });
        if !fits {
            let backlog = backlog.clone();
            let counting = tokio::spawn(async move {
                *cached = Some(counted(&*incoming, backlog).await?);
                Ok::<_, EngineError>(cached)
            });
            cached = match counting.await {
                Ok(cached) => cached?,
                Err(error) => return Err(IncomingError::Unavailable(stopping(error)).into()),
            };
        }
        let by_metric = &cached.as_ref().expect("filled above").by_metric;
        Ok(ProcessingStatus {
            metrics_waiting: by_metric.len() as u64,
            measures_waiting: backlog.measures,
            by_metric: details.then(|| by_metric.clone()),
        })
    }
}

async fn counted(incoming: &dyn Append, backlog: Backlog) -> Result<Counted> {
    let began = Instant::now();
    let by_metric = match backlog.measures {
        0 => HashMap::new(),
        _ => incoming.backlog_by_metric().await?,
    };
    let (at, took) = (Instant::now(), began.elapsed());
    Ok(Counted { at, took, backlog, by_metric: by_metric.into() })
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::atomic::{AtomicU64, Ordering},
    };

    use async_trait::async_trait;
    use futures_util::FutureExt as _;
    use gnudi_drivers::incoming::Batch;
    use tokio::{sync::Semaphore, time::timeout};
    use uuid::Uuid;

    use super::*;

    /// A large backlog of one metric, which is counted once there is a permit.
    struct Slow {
        counts: AtomicU64,
        permits: Semaphore,
    }

    #[async_trait]
    impl Append for Slow {
        async fn append(&self, _: Batch) -> Result<(), IncomingError> {
            unreachable!("only the backlog is read")
        }

        async fn backlog(&self) -> Result<Backlog, IncomingError> {
            Ok(Backlog { measures: 5, bytes: 2 * STATUS_FRESH_BYTES_MAX })
        }

        async fn backlog_by_metric(&self) -> Result<HashMap<MetricId, u64>, IncomingError> {
            self.counts.fetch_add(1, Ordering::Relaxed);
            self.permits.acquire().await.unwrap().forget();
            Ok(HashMap::from([(MetricId(Uuid::from_u128(1)), 5)]))
        }
    }

    #[tokio::test]
    async fn a_count_goes_on_without_its_request() {
        let incoming = Arc::new(Slow { counts: AtomicU64::new(0), permits: Semaphore::new(0) });
        let cache = StatusCache::default();
        for _ in 0..3 {
            let given_up = timeout(Duration::from_millis(20), cache.status(incoming.clone(), false)).await;
            assert!(given_up.is_err());
        }
        incoming.permits.add_permits(1);
        let status = cache.status(incoming.clone(), true).await.unwrap();
        assert_eq!((status.metrics_waiting, status.measures_waiting), (1, 5));
        assert_eq!(incoming.counts.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_count_that_the_runtime_cancels_is_an_error() {
        let incoming = Arc::new(Slow { counts: AtomicU64::new(0), permits: Semaphore::new(0) });
        let cache = StatusCache::default();
        let mut status = pin!(cache.status(incoming, false));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        {
            let _within = runtime.enter();
            assert!(status.as_mut().now_or_never().is_none());
        }
        drop(runtime);
        assert!(status.now_or_never().unwrap().is_err());
    }
}
