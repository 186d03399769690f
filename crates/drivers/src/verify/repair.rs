//! The order of a repair. Each step can be interrupted and repeated; after each, a server that starts would
//! find no new defect.
//!
//! 1. The small files.
//! 2. The log of measures: damaged places are covered; if exact, the whole log is marked to be applied
//!    again.
//! 3. The aggregates: losses are marked, runs rewritten.
//! 4. The store is opened like by a server, and states of metrics that the index does not have are deleted.

use std::{
    fs,
    io::{self, ErrorKind},
    path::Path,
};

use gnudi_model::{MetricId, SackCount};
use uuid::Uuid;

use super::{Checked, Judge, PlainFiles};
use crate::{
    OpenError,
    aggregates::{
        AggregateStore as _, Fence,
        local::{
            LocalAggregates, LocalAggregatesOptions,
            repair::{Assumptions, repair as repair_aggregates},
        },
    },
    data_dir::{AGGREGATES, INCOMING},
    disk::{Disk as _, LocalDisk, copy_file, is_same_file},
    incoming::{
        Position,
        log::{LocalIncoming, LocalIncomingOptions, verify::repair as repair_log},
    },
};

/// Metrics deleted at once.
const DELETED_MAX: usize = 1000;

/// The result of a repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Metrics whose newest state is lost and whose measures are all in the log: they are applied again.
    pub replayed: usize,
    /// Metrics marked as lost.
    pub lost: usize,
    /// Deleted metrics that the index does not have.
    pub deleted: usize,
}

/// Repairs the store in `dir`; `index` is its index's id. `judge` must have checked it. `sacks`: the sack
/// count of a new log.
pub async fn repair(
    dir: &Path,
    plain: PlainFiles,
    index: Option<Uuid>,
    checked: Checked,
    judge: &dyn Judge,
    sacks: SackCount,
) -> Result<Repaired, OpenError> {
    plain.repair(dir, index)?;
    let (incoming, aggregates) = (dir.join(INCOMING), dir.join(AGGREGATES));
    let lost =
        checked.aggregates.lost_heads.len() + checked.aggregates.wrong_heads.len() + checked.missing.len();
    let is_replayed =
        (lost > 0 || checked.aggregates.has_lost()) && checked.log.complete_behind == Position(0);
    let Checked { log, aggregates: found, missing, .. } = checked;
    if log.is_damaged || checked.is_behind || is_replayed {
        repair_log(&incoming, &aggregates, &log, is_replayed, sacks)?;
    }
    let assumptions = Assumptions { metrics: judge.metrics(), missing: &missing, is_replayed };
    repair_aggregates(&aggregates, &found, &assumptions)?;
    let orphans = found.orphans.clone();
    drop(found);
    open(&incoming, &aggregates, &orphans, sacks).await?;
    let (replayed, lost) = if is_replayed { (lost, 0) } else { (0, lost) };
    Ok(Repaired { replayed, lost, deleted: orphans.len() })
}

/// Opens the store, deletes the orphans, and closes it.
async fn open(
    incoming: &Path,
    aggregates: &Path,
    orphans: &[MetricId],
    sacks: SackCount,
) -> Result<(), OpenError> {
    let options = LocalIncomingOptions {
        sack_count: sacks,
        followed_in: Some(aggregates.to_owned()),
        ..LocalIncomingOptions::default()
    };
    drop(LocalIncoming::open(incoming, &options)?);
    let store = LocalAggregates::open(aggregates, &LocalAggregatesOptions::default())?;
    let failed = |error: crate::aggregates::StoreError| OpenError::Io {
        path: aggregates.to_owned(),
        source: io::Error::other(error.to_string()),
    };
    for metrics in orphans.chunks(DELETED_MAX) {
        for deleted in store.delete(Fence::EVERYTHING, metrics).await {
            deleted.map_err(failed)?;
        }
    }
    store.sync().await.map_err(failed)
}

/// Links or copies `file` into the folder `quarantine` of `dir`, under a unique name. Idempotent for the same
/// file.
pub fn keep_copy(dir: &Path, file: &Path) -> io::Result<()> {
    let quarantine = dir.join("quarantine");
    LocalDisk.create_dir(&quarantine)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for number in 0_u32.. {
        let kept = quarantine.join(format!("{name}.whole-{number}"));
        match fs::hard_link(file, &kept) {
            Ok(()) => break,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if is_same_file(file, &kept)? {
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(error),
            // A file system without links.
            Err(_) => {
                copy_file(file, &kept)?;
                break;
            }
        }
    }
    LocalDisk.sync_dir(&quarantine)
}
