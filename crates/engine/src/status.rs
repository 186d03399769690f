//! The backlog, as `/v1/status` shows it.
//!
//! Counting waiting metrics requires reading the backlog, so a result is cached while nothing changes; while the
//! backlog is large it is cached for a second, and for twenty times as long as the counting took.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use gnudi_drivers::incoming::{Append, Backlog};
use gnudi_model::MetricId;
use tokio::sync::Mutex;

use crate::Result;

/// How long a large backlog's count is used at least.
pub const STATUS_AGE_MAX: Duration = Duration::from_secs(1);
/// And for so many times as long as the counting took: who asks all the time must not slow down the workers.
const STATUS_AGE_SHARE: u32 = 20;
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
pub(crate) struct StatusCache(Mutex<Option<Counted>>);

#[derive(Debug)]
struct Counted {
    at: Instant,
    took: Duration,
    backlog: Backlog,
    by_metric: Arc<HashMap<MetricId, u64>>,
}

impl Counted {
    fn age_max(&self) -> Duration {
        STATUS_AGE_MAX.max(self.took * STATUS_AGE_SHARE)
    }
}

impl StatusCache {
    pub(crate) async fn status(&self, incoming: &dyn Append, details: bool) -> Result<ProcessingStatus> {
        let mut cached = self.0.lock().await;
        let backlog = incoming.backlog().await?;
        let fits = cached.as_ref().is_some_and(|counted| {
            counted.backlog == backlog && backlog.measures == 0
                || backlog.bytes > STATUS_FRESH_BYTES_MAX && counted.at.elapsed() < counted.age_max()
        });
        if !fits {
            let began = Instant::now();
            let by_metric = match backlog.measures {
                0 => HashMap::new(),
                _ => incoming.backlog_by_metric().await?,
            };
            let (at, took) = (Instant::now(), began.elapsed());
            *cached = Some(Counted { at, took, backlog: backlog.clone(), by_metric: by_metric.into() });
        }
        let by_metric = &cached.as_ref().expect("filled above").by_metric;
        Ok(ProcessingStatus {
            metrics_waiting: by_metric.len() as u64,
            measures_waiting: backlog.measures,
            by_metric: details.then(|| by_metric.clone()),
        })
    }
}
