//! Metrics that were admitted and may not be in the index yet. A count of the index is too low by those that
//! requests in progress create, so they are added to it.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::Quotas;

/// By project, while it has requests in progress that create metrics.
pub(super) type CreatingProjects = Mutex<HashMap<String, Creating>>;

/// The metrics admitted since the project's requests in progress began to overlap.
#[derive(Debug, Default)]
pub(super) struct Creating {
    requests: usize,
    admitted: u64,
    /// Of these, by requests that have ended.
    done: u64,
    /// Locked by the request that counts metrics, for those that need a count, too.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// Admitted metrics of a request in progress. Dropped once they are created: from then on the index counts
/// them.
#[derive(Debug)]
pub struct MetricsAdmission {
    quotas: Arc<Quotas>,
    project: String,
    metrics: u64,
}

impl MetricsAdmission {
    pub(super) fn begin(quotas: &Arc<Quotas>, project: &str) -> Self {
        quotas.creating.lock().entry(project.to_owned()).or_default().requests += 1;
        MetricsAdmission { quotas: quotas.clone(), project: project.to_owned(), metrics: 0 }
    }

    pub(super) fn admit(&mut self, metrics: u64) {
        self.metrics += metrics;
        self.with(|creating| creating.admitted += metrics);
    }

    pub(super) fn turn(&self) -> Arc<tokio::sync::Mutex<()>> {
        self.with(|creating| creating.turn.clone())
    }

    /// The number of metrics of requests that have ended: a count of the index that begins now includes them.
    pub(super) fn done(&self) -> u64 {
        self.with(|creating| creating.done)
    }

    /// The number of metrics that may be missing in a count of the index that began when [`MetricsAdmission::done`] was
    /// `done`.
    pub(super) fn uncounted(&self, done: u64) -> u64 {
        self.with(|creating| creating.admitted - done)
    }

    /// Takes back up to this many metrics, which were not created after all; returns how many.
    pub fn take_back(&mut self, metrics: u64) -> u64 {
        let metrics = metrics.min(self.metrics);
        let mut projects = self.quotas.projects.lock();
        if let Some(count) = projects.get_mut(&self.project).and_then(|usage| usage.metrics.as_mut()) {
            count.metrics = count.metrics.saturating_sub(metrics);
        }
        self.metrics -= metrics;
        self.with(|creating| creating.admitted -= metrics);
        metrics
    }

    fn with<T>(&self, work: impl FnOnce(&mut Creating) -> T) -> T {
        let mut projects = self.quotas.creating.lock();
        work(projects.get_mut(&self.project).expect("this request is in progress"))
    }
}

impl Drop for MetricsAdmission {
    fn drop(&mut self) {
        let mut projects = self.quotas.creating.lock();
        let Some(creating) = projects.get_mut(&self.project) else { return };
        creating.done += self.metrics;
        creating.requests -= 1;
        if creating.requests == 0 {
            projects.remove(&self.project);
        }
    }
}
