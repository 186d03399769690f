//! Checks a data directory's measures and aggregates against each other.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use gnudi_model::MetricId;

use super::{Emit, Finding, Judge, Progress, ReadOnlyDisk};
use crate::{
    OpenError,
    aggregates::local::{
        log_dir, runs_dir,
        verify::{CheckedAggregates, check as check_aggregates},
    },
    data_dir::{AGGREGATES, INCOMING},
    incoming::{
        Position,
        log::verify::{CheckedLog, check as check_log},
    },
    segments::Location,
};

/// The result of a check; the input of a repair.
pub struct Checked {
    pub(super) log: CheckedLog,
    pub(super) aggregates: CheckedAggregates,
    /// Metrics with a processed measure, but without stored data.
    pub(super) missing: Vec<MetricId>,
    /// Whether a head has applied records beyond the log's end.
    pub(super) is_behind: bool,
}

impl Checked {
    /// Heads and blocks read, the newest of each.
    pub fn read(&self) -> (u64, u64) {
        (self.aggregates.heads, self.aggregates.blocks)
    }

    /// Values already marked as lost before.
    pub fn known_lost(&self) -> u64 {
        self.aggregates.known_lost
    }
}

/// About how many bytes [`check`] reads in `dir`.
pub fn store_bytes(dir: &Path) -> u64 {
    let aggregates = dir.join(AGGREGATES);
    let dirs: [PathBuf; 3] = [dir.join(INCOMING), log_dir(&aggregates), runs_dir(&aggregates)];
    let files = dirs.iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).filter(fs::Metadata::is_file).map(|file| file.len()).sum()
}

/// Checks measures and aggregates in `dir`, and emits all defects.
pub fn check(
    dir: &Path,
    judge: &mut dyn Judge,
    progress: &Arc<Progress>,
    emit: Emit<'_>,
) -> Result<Checked, OpenError> {
    let disk = ReadOnlyDisk::new(Arc::clone(progress));
    let (incoming, aggregates_dir) = (dir.join(INCOMING), dir.join(AGGREGATES));
    let mut log = check_log(&disk, &incoming, &aggregates_dir, emit)?;
    judge.expect(std::mem::take(&mut log.logged));
    let aggregates = check_aggregates(&disk, &aggregates_dir, judge, emit)?;
    let mut missing = Vec::new();
    for (metric, reason) in judge.missing() {
        let what = format!("the state of the metric is lost: {reason}");
        emit(Finding::of(&aggregates_dir, what, "the metric is marked as lost").of_metric(metric));
        missing.push(metric);
    }
    if judge.has_applied_others() {
        log.complete_behind = Position(u64::MAX);
    }
    let applied = Location::unpack(judge.applied_max().0).segment;
    let is_behind = applied > log.newest_segment;
    if is_behind {
        let what = format!(
            "heads have applied measures of segment {applied:x}, but the log ends before it: new measures would be taken for old ones"
        );
        emit(Finding::of(&incoming, what, "the log continues after that segment"));
        log.newest_segment = applied;
    }
    Ok(Checked { log, aggregates, missing, is_behind })
}
