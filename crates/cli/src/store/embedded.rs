//! The embedded store: index, log and aggregates in one directory, owned by one process.
//!
//! Measures are useless without the index of their metrics, so a store whose index is missing is not opened. The
//! directory records that an index was completed (`DataDir::index_id`). Without that record (an older program, or an
//! interrupted first start), existing measures imply an index.

use std::{path::Path, sync::Arc};

use anyhow::{Context as _, Result, bail};
use gnudi_drivers::{
    aggregates::local::{LocalAggregates, LocalAggregatesOptions},
    data_dir::DataDir,
    disk::{Disk as _, LocalDisk},
    incoming::log::{LocalIncoming, LocalIncomingOptions},
    reserve::Reserve,
};
use gnudi_engine::Engine;
use gnudi_indexer::SqlIndexer;
use gnudi_sql::{DiskSpace, SqliteOptions};

use super::{Journaling, Local, Store, cached, durability, on_damage, sack_count};
use crate::config::Config;

pub async fn open(path: &Path, config: &Config, journaling: Journaling) -> Result<Store> {
    let dir = DataDir::open(path)?;
    let mut known = dir.index_id()?;
    if known.is_some() {
        if dir.parts()?.is_empty() {
            // Measures and aggregates were moved away, so another index is no error.
            dir.set_index_id(None)?;
            known = None;
        } else {
            check_index(&dir)?;
        }
    }
    let reserved_bytes = config.size("storage", "disk_reserve_bytes") as u64;
    let reserve = Reserve::open(Arc::new(LocalDisk), path, reserved_bytes)?;
    let segment_bytes = segment_bytes(path);
    let incoming = LocalIncoming::open(
        &dir.incoming(),
        &LocalIncomingOptions {
            sack_count: sack_count(config),
            durability: durability(config),
            segment_bytes,
            followed_in: Some(dir.aggregates()),
            reserve: reserve.clone(),
            backlog_bytes_max: config.size("incoming", "backlog_bytes_max") as u64,
            hold: Some(dir.hold()),
            ..LocalIncomingOptions::default()
        },
    )?;
    let aggregates = LocalAggregates::open(
        &dir.aggregates(),
        &LocalAggregatesOptions {
            segment_bytes,
            recent_bytes_max: config.size("storage", "recent_bytes_max") as u64,
            dirty_bytes_max: config.size("storage", "dirty_bytes_max") as u64,
            reserve: reserve.clone(),
            hold: Some(dir.hold()),
            ..LocalAggregatesOptions::default()
        },
    )?;
    let figures = aggregates.figures();
    if known.is_none() && (incoming.has_had_records() || figures.runs + figures.recent_entries > 0) {
        check_index(&dir)?;
    }
    SqlIndexer::write_log_again(&dir.indexer()).with_context(|| dir.indexer().display().to_string())?;
    let space: Option<Arc<dyn DiskSpace>> = Some(Arc::new(Space(reserve.clone())));
    let timeout = config.seconds("indexer", "timeout");
    let sqlite = SqliteOptions { space, timeout, ..SqliteOptions::new(dir.indexer()) };
    let sql = SqlIndexer::open(&sqlite).await?;
    match known {
        Some(known) if known != sql.cluster_id() => {
            bail!(
                "{} is another index than the one that the measures beside it belong to (it has the id {}, the other {known}): {}",
                dir.indexer().display(),
                sql.cluster_id(),
                what_to_do(&dir)?
            );
        }
        Some(_) => {}
        None => dir.set_index_id(Some(sql.cluster_id()))?,
    }
    let journaled = journaling.over(incoming.clone(), config, sql.cluster_id(), reserve.clone())?;
    let (indexer, warming) = cached(sql, config);
    let engine = Engine::new(indexer.clone(), journaled.clone(), aggregates.clone(), crate::commands::now);
    let engine = Arc::new(engine.on_damage(on_damage(config)));
    Ok(Store {
        engine,
        indexer,
        incoming: journaled,
        aggregates: aggregates.clone(),
        local: Some(Local { incoming, aggregates, reserve, dir }),
        warming,
    })
}

/// How the index frees space from the disk reserve.
#[derive(Debug)]
struct Space(Reserve);

impl DiskSpace for Space {
    fn is_short(&self) -> bool {
        self.0.is_short()
    }

    fn make_room(&self) {
        self.0.release();
    }
}

/// The size of log files: smaller on a small file system, which two logs with a few files each must not fill.
pub(super) fn segment_bytes(dir: &Path) -> u32 {
    const BYTES_MIN: u64 = 1 << 20;
    const BYTES_MAX: u64 = 64 << 20;
    const PART_MAX: u64 = 16;
    // The directory of a journal may not exist yet.
    let space = dir.ancestors().find_map(|dir| LocalDisk.space(dir).ok());
    let total = space.map_or(u64::MAX, |space| space.total_bytes);
    ((total / PART_MAX).clamp(BYTES_MIN, BYTES_MAX) >> 20 << 20) as u32
}

/// Refuses to open if the index, or a part of it, is missing.
fn check_index(dir: &DataDir) -> Result<()> {
    let index = dir.indexer();
    let fault = SqlIndexer::file_fault(&index).with_context(|| index.display().to_string())?;
    match fault {
        Some(fault) => bail!("the index {} {fault}: {}", index.display(), what_to_do(dir)?),
        None => Ok(()),
    }
}

fn what_to_do(dir: &DataDir) -> Result<String> {
    let parts = dir.parts()?.join(" and ");
    Ok(format!(
        "without it the metrics of the measures in {parts} are unknown. Restore it from a backup of this store, or \
         move {parts} away to start with an empty store"
    ))
}
