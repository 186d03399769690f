//! Verification of an embedded store that nobody has open, or of a backup: reads all of it, compares its parts with each other, and
//! changes nothing. Repair sets aside what is damaged, so that everything else is served as before.
//!
//! The checks lie where the formats are: `incoming::log::verify`, `aggregates::local::verify`. This module has what they share, and
//! the order of a repair ([`repair()`]). It does not decode heads and blocks: a [`Judge`] does. The index is its owner's.

mod disk;
mod plain;
mod repair;
mod store;

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use gnudi_model::MetricId;

pub(crate) use self::{disk::ReadOnlyDisk, repair::keep_copy};
pub use self::{
    plain::{PlainFiles, check as check_plain_files},
    repair::{Repaired, keep_copy as keep, repair},
    store::{Checked, check, store_bytes},
};
use crate::{aggregates::BlockKey, incoming::Position};

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub file: PathBuf,
    pub offset: Option<u64>,
    pub metric: Option<MetricId>,
    /// What is wrong, and what it means.
    pub what: String,
    /// What a repair does about it.
    pub repair: String,
    /// Whether nothing is lost by it: something is left over.
    pub is_leftover: bool,
}

impl Finding {
    /// Of the file as a whole.
    pub fn of(file: &Path, what: impl Into<String>, repair: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            offset: None,
            metric: None,
            what: what.into(),
            repair: repair.into(),
            is_leftover: false,
        }
    }

    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self { offset: Some(offset), ..self }
    }

    #[must_use]
    pub fn of_metric(self, metric: MetricId) -> Self {
        Self { metric: Some(metric), ..self }
    }

    /// As an object of JSON, on one line.
    pub fn to_json(&self) -> String {
        serde_json::json!({
            "file": self.file.to_string_lossy(),
            "offset": self.offset,
            "metric": self.metric.map(|metric| metric.0.to_string()),
            "what": self.what,
            "repair": self.repair,
            "left_over": self.is_leftover,
        })
        .to_string()
    }

    #[must_use]
    pub fn left_over(self) -> Self {
        Self { is_leftover: true, ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.file.display())?;
        if let Some(offset) = self.offset {
            write!(formatter, " at {offset}")?;
        }
        if let Some(metric) = self.metric {
            write!(formatter, ": metric {metric}")?;
        }
        write!(formatter, ": {} [repair: {}]", self.what, self.repair)
    }
}

/// Where findings go.
pub type Tell<'a> = &'a mut dyn FnMut(Finding);

/// How far a verification has come; read by another thread.
#[derive(Debug, Default)]
pub struct Progress {
    bytes: AtomicU64,
    files: AtomicU64,
}

impl Progress {
    /// Bytes read and files opened so far.
    pub fn so_far(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.files.load(Ordering::Relaxed))
    }

    /// Counts what was read by other means.
    pub fn add(&self, files: u64, bytes: u64) {
        self.files.fetch_add(files, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Where a metric's records are in the log of measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// The newest that is in the aggregates, as the log says.
    pub applied: Position,
    /// The newest of all.
    pub newest: Position,
}

/// What a [`Judge`] says of a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Right,
    /// It is not what was stored last: says why.
    Wrong(String),
    /// The index does not know its metric.
    NoMetric,
}

/// Who can read heads and blocks and knows the metrics. Heads and blocks come metric by metric, the head first.
pub trait Judge {
    /// A metric's newest head.
    fn head(&mut self, metric: MetricId, bytes: &Bytes) -> Verdict;
    /// The metric's newest head is lost.
    fn lost_head(&mut self, metric: MetricId);
    /// A block, the newest of its name; says what is wrong with it.
    fn block(&mut self, key: &BlockKey, bytes: &Bytes) -> Result<(), String>;
    /// What the log of measures tells of each metric that it has records of.
    fn expect(&mut self, logged: HashMap<MetricId, Logged>);
    /// Whether a head has applied records that are not in the log any more.
    fn has_applied_others(&self) -> bool;
    /// After the last one: metrics of the index that should have had a head, and why.
    fn missing(&mut self) -> Vec<(MetricId, String)>;
    /// The newest position that a head has applied.
    fn applied_max(&self) -> Position;
    /// All metrics of the index, in the order of their ids.
    fn metrics(&self) -> &[MetricId];
}
