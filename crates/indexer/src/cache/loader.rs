//! Loads cache misses: ids missed while one query runs are collected for the next one, each id once.

use std::sync::Arc;

use gnudi_model::{Metric, MetricId};
use tokio::sync::{mpsc, oneshot};

use super::caches::Caches;
use crate::{Indexer, IndexerError, Result};

/// Maximum queued calls; further ones wait.
const CALLS_WAITING_MAX: usize = 1024;
/// Maximum metrics per query, except for a single larger call.
const METRICS_LOADED_MAX: usize = 16_384;

struct Request {
    ids: Vec<MetricId>,
    answer: oneshot::Sender<Result<Vec<Option<Arc<Metric>>>>>,
}

#[derive(Debug)]
pub(super) struct Loader {
    requests: mpsc::Sender<Request>,
}

impl Loader {
    /// Starts the loading task; it ends with the loader.
    pub(super) fn start<I: Indexer>(index: Arc<I>, caches: Arc<Caches>) -> Self {
        let (requests, waiting) = mpsc::channel(CALLS_WAITING_MAX);
        tokio::spawn(load_groups(index, caches, waiting));
        Loader { requests }
    }

    /// Whether the task has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.requests.is_closed()
    }

    /// Metrics by id, one result each, in order.
    pub(super) async fn load(&self, ids: Vec<MetricId>) -> Result<Vec<Option<Arc<Metric>>>> {
        let stopped = || IndexerError::Database("the index's loader has stopped".to_owned());
        let (answer, answered) = oneshot::channel();
        self.requests.send(Request { ids, answer }).await.map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }
}

async fn load_groups<I: Indexer>(index: Arc<I>, caches: Arc<Caches>, mut waiting: mpsc::Receiver<Request>) {
    while let Some(first) = waiting.recv().await {
        let mut ids = first.ids.clone();
        let mut requests = vec![first];
        while ids.len() < METRICS_LOADED_MAX
            && let Ok(request) = waiting.try_recv()
        {
            ids.extend_from_slice(&request.ids);
            requests.push(request);
        }
        ids.sort_unstable();
        ids.dedup();
        let loaded = load(&*index, &caches, &ids).await;
        if matches!(loaded, Err(IndexerError::DamagedMetric { .. })) && requests.len() > 1 {
            // It fails the requests for this metric, not those beside them.
            for Request { ids, answer } in requests {
                answer.send(load(&*index, &caches, &ids).await).ok();
            }
            continue;
        }
        for Request { ids: wanted, answer } in requests {
            let found = loaded.as_ref().map_err(Clone::clone).map(|metrics| {
                let find = |id| metrics[ids.binary_search(id).expect("every wanted id was loaded")].clone();
                wanted.iter().map(find).collect()
            });
            // The caller may be gone.
            answer.send(found).ok();
        }
    }
}

async fn load<I: Indexer>(index: &I, caches: &Caches, ids: &[MetricId]) -> Result<Vec<Option<Arc<Metric>>>> {
    let epochs: Vec<_> = ids.iter().map(|id| caches.metrics.by_id.epoch(*id)).collect();
    let metrics = index.metrics(ids).await?;
    for (metric, epoch) in metrics.iter().zip(epochs) {
        if let Some(metric) = metric {
            caches.metrics.insert(metric, epoch);
        }
    }
    Ok(metrics)
}
