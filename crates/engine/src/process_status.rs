//! What a process publishes about itself through the coordinator.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use gnudi_drivers::coordination::Member;
use gnudi_model::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Engine, figures::Figures};

/// The role of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessKind {
    /// Serves requests, and owns no sacks.
    Api,
    /// Has workers.
    Metricd,
    /// Unknown role of another version.
    #[default]
    #[serde(other)]
    Other,
}

/// JSON in [`gnudi_drivers::coordination::Member::about`]. Fields that another version omits are zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessStatus {
    pub kind: ProcessKind,
    /// Sacks processed concurrently.
    pub workers: usize,
    /// Units that it owns and processes.
    pub units: usize,
    pub passes_per_second: f64,
    pub measures_per_second: f64,
    /// Measures set aside since its start because folding them panicked.
    pub measures_set_aside: u64,
    /// Damaged places found in the stores and the index since its start.
    pub damaged: u64,
    /// The whole cluster's backlog, as last seen.
    pub backlog_measures: u64,
    pub backlog_bytes: u64,
    /// When it first joined, in Unix seconds.
    pub since: i64,
}

impl ProcessStatus {
    /// Parses a member's information; all zero if it is invalid.
    pub fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    pub fn write(&self) -> String {
        serde_json::to_string(self).expect("figures are JSON")
    }
}

/// The names of the members with workers.
pub(crate) fn workers(members: Vec<Member>) -> Vec<String> {
    let has_workers = |member: &Member| ProcessStatus::read(&member.about).kind == ProcessKind::Metricd;
    members.into_iter().filter(has_workers).map(|member| member.name).collect()
}

/// Computes an engine's rates between two calls.
#[derive(Debug)]
pub(crate) struct Observer {
    status: ProcessStatus,
    seen: Option<(tokio::time::Instant, u64, u64)>,
}

impl Observer {
    pub(crate) fn new(kind: ProcessKind, workers: usize, now: Timestamp) -> Self {
        let since = now.secs();
        Observer { status: ProcessStatus { kind, workers, since, ..ProcessStatus::default() }, seen: None }
    }

    /// The current information; rates are since the last call. Waits for the store at most for `limit`.
    pub(crate) async fn look(&mut self, engine: &Engine, limit: Duration) -> String {
        let now = tokio::time::Instant::now();
        let Figures { passes, measures_folded, .. } = engine.figures();
        let (passes, measures) = (passes.load(Relaxed), measures_folded.load(Relaxed));
        if let Some((at, passes_then, measures_then)) = self.seen.replace((now, passes, measures)) {
            let seconds = (now - at).max(Duration::from_millis(1)).as_secs_f64();
            self.status.passes_per_second = (passes - passes_then) as f64 / seconds;
            self.status.measures_per_second = (measures - measures_then) as f64 / seconds;
        }
        self.status.units = engine.units.len();
        self.status.measures_set_aside = engine.figures().measures_set_aside.load(Relaxed);
        self.status.damaged = engine.damaged();
        // An outage of the store must not end the membership.
        let asked = tokio::time::timeout(limit, engine.backlog());
        if let Ok(Ok(backlog)) = asked.await {
            (self.status.backlog_measures, self.status.backlog_bytes) = (backlog.measures, backlog.bytes);
        }
        self.status.write()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let status = ProcessStatus {
            kind: ProcessKind::Metricd,
            workers: 3,
            units: 7,
            passes_per_second: 0.5,
            ..ProcessStatus::default()
        };
        assert_eq!(ProcessStatus::read(&status.write()), status);
    }

    #[test]
    fn other_versions_are_read_as_far_as_they_go() {
        assert_eq!(ProcessStatus::read(r#"{"kind":"api","colour":"green"}"#).kind, ProcessKind::Api);
        assert_eq!(
            ProcessStatus::read(r#"{"kind":"oracle","units":4}"#),
            ProcessStatus { units: 4, ..ProcessStatus::default() }
        );
        assert_eq!(ProcessStatus::read("nonsense"), ProcessStatus::default());
    }
}
