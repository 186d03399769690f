//! Verifies an embedded store that is not open, or a backup: reads all of it, cross-checks its parts, and
//! changes nothing. Repair quarantines damage, so that everything else is served as before.
//!
//! The checks are beside the formats: `incoming::log::verify`, `aggregates::local::verify`. This module has
//! what they share, and the order of a repair ([`repair()`]). A [`Judge`] decodes heads and blocks. The index
//! is checked by its owner.

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

pub(crate) use self::disk::ReadOnlyDisk;
pub use self::{
    plain::{PlainFiles, check as check_plain_files},
    repair::{Repaired, keep_copy, repair},
    store::{Checked, check, store_bytes},
};
use crate::{aggregates::BlockKey, incoming::Position};

/// A defect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub file: PathBuf,
    pub offset: Option<u64>,
    pub metric: Option<MetricId>,
    /// What is wrong, and what that means.
    pub what: String,
    /// What a repair does about it.
    pub repair: String,
    /// Whether it is a leftover that loses nothing.
    pub is_leftover: bool,
}

impl Finding {
    /// About the whole file.
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

    /// A JSON object on one line.
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

/// Receives findings.
pub type Emit<'a> = &'a mut dyn FnMut(Finding);

/// Progress of a verification; read by another thread.
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

    /// Adds files and bytes that were read by other means.
    pub fn add(&self, files: u64, bytes: u64) {
        self.files.fetch_add(files, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A metric's records in the log of measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// The newest record that is in the aggregates, according to the log.
    pub applied: Position,
    /// The newest record.
    pub newest: Position,
}

/// A [`Judge`]'s result for a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Right,
    /// It is not what was stored last; gives the reason.
    Wrong(String),
    /// The index does not have its metric.
    NoMetric,
}

/// Decodes heads and blocks, and knows the metrics. Is called metric by metric, with the head first.
pub trait Judge {
    /// A metric's newest head.
    fn head(&mut self, metric: MetricId, bytes: &Bytes) -> Verdict;
    /// The metric's newest head is lost.
    fn lost_head(&mut self, metric: MetricId);
    /// A metric's newest block of a key; an error says what is wrong with it.
    fn block(&mut self, key: &BlockKey, bytes: &Bytes) -> Result<(), String>;
    /// Passes the records that the log of measures has, by metric.
    fn expect(&mut self, logged: HashMap<MetricId, Logged>);
    /// Whether a head has applied records that are no longer in the log.
    fn has_applied_others(&self) -> bool;
    /// Called last: metrics of the index that lack their head, and why.
    fn missing(&mut self) -> Vec<(MetricId, String)>;
    /// The newest position that a head has applied.
    fn applied_max(&self) -> Position;
    /// All metrics of the index, sorted by id.
    fn metrics(&self) -> &[MetricId];
}
