//! Opens the store: first the runs, then the log's entries that are in no run, then the threads.

use std::{
    path::Path,
    sync::{Arc, OnceLock, atomic::AtomicU64},
};

use parking_lot::{Condvar, Mutex, RwLock};
use tokio::sync::Notify;

use super::{
    Counters, LocalAggregates, LocalAggregatesOptions, Log, Shared, State, Work, flush, log_dir, merge,
    recent::Layer,
    room::Waiting,
    roster::Roster,
    run::{self, Run},
    runs_dir,
};
use crate::{
    OpenError,
    disk::{Disk, LocalDisk},
    fence::Fences,
    quarantine::Quarantine,
    segments::{self, OwnerState, SegmentLog, SegmentOptions, Tear},
};

impl LocalAggregates {
    /// Opens the store in `dir`, creating it if missing. Damage is reported and copied to `dir/quarantine`.
    pub fn open(dir: &Path, options: &LocalAggregatesOptions) -> Result<Arc<Self>, OpenError> {
        Self::open_on(Arc::new(LocalDisk), dir, options)
    }

    /// Like [`LocalAggregates::open`], on another disk.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: &LocalAggregatesOptions,
    ) -> Result<Arc<Self>, OpenError> {
        assert!(
            (1 << 16..=1 << 30).contains(&options.segment_bytes),
            "segments of {}",
            options.segment_bytes
        );
        disk.create_dir(dir).map_err(OpenError::io(dir))?;
        let quarantine = Quarantine::new(Arc::clone(&disk), dir.join("quarantine"));
        let quarantine = Arc::new(quarantine.giving_up_after(options.unreadable_max));
        let runs_dir = runs_dir(dir);
        let runs = open_runs(&*disk, &runs_dir, &quarantine)?;
        let segment_options = SegmentOptions {
            segment_bytes: options.segment_bytes,
            spares_max: options.spare_segments_max,
            sync_full: true,
            tear: Tear::Cut,
        };
        // Do not replay from the log what a run has: perhaps only an older part of it is left there.
        let done = runs.last().map_or(0, |run| run.range.high);
        let (mut log, active, bytes) = open_log(&disk, &log_dir(dir), segment_options, done, &quarantine)?;
        log.log.set_reserve(options.reserve.clone());
        let shared = Arc::new(Shared {
            disk,
            runs_dir,
            options: options.clone(),
            segments: Arc::clone(log.log.segments()),
            log: Mutex::new(log),
            recent_bytes: AtomicU64::new(bytes),
            state: RwLock::new(State { active, frozen: None, frozen_before: 0, runs }),
            quarantine,
            poisoned: OnceLock::new(),
            stuck: Mutex::new(None),
            syncing: Mutex::new(()),
            flushed: Notify::new(),
            settled: Condvar::new(),
            work: Work::default(),
            counters: Counters::default(),
            reserve: options.reserve.clone(),
            waiting: Waiting::default(),
        });
        shared.work.want(|wanted| wanted.merge = true);
        shared.flush_if_due();
        let spawn = |name: &str, run: fn(&Shared)| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(name.into())
                .spawn(move || run(&shared))
                .map_err(OpenError::io(dir))
        };
        let threads = vec![spawn("gnudi-flush", flush::run)?, spawn("gnudi-merge", merge::run)?];
        Ok(Arc::new(Self { shared, fences: Fences::default(), threads }))
    }
}

/// Opens the log in `dir`; also returns its contents and their size in bytes.
fn open_log(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    options: SegmentOptions,
    done: u32,
    quarantine: &Quarantine,
) -> Result<(Log, Layer, u64), OpenError> {
    disk.create_dir(dir).map_err(OpenError::io(dir))?;
    let (mut roster, mut expected) = Roster::open(Arc::clone(disk), dir, done).map_err(OpenError::io(dir))?;
    let used = expected.last_segment().unwrap_or(0);
    let (mut active, mut bytes) = (Layer::default(), 0);
    let mut lost = Vec::new();
    let log = SegmentLog::open(
        Arc::clone(disk),
        dir,
        options,
        quarantine,
        OwnerState { used, done, ..OwnerState::default() },
        &mut |frame| {
            bytes += frame.bytes.len() as u64;
            // Entries listed before this frame but not found are lost; this frame may supersede them.
            lost.extend(expected.before(frame.at).into_iter().inspect(|gone| active.lose(gone)));
            let listed = expected.within(frame.at, frame.bytes.len());
            let is_new = listed.is_empty();
            let found = active.recover(&frame, &listed);
            if is_new {
                roster.add(found);
            }
        },
    )?;
    lost.extend(expected.rest().into_iter().inspect(|gone| active.lose(gone)));
    if let Some(first) = lost.first() {
        let path = dir.join(segments::file_name(first.at.segment));
        quarantine.report(
            &format!("log: {} values are missing", lost.len()),
            &path,
            first.at.offset.into(),
            &[],
        );
    }
    // Recovered frames are durable: the next sync lists them.
    Ok((Log { log, roster, is_unsynced: false }, active, bytes))
}

/// The runs in `dir`, oldest first. Removes unfinished files, and runs that were merged into another.
pub(super) fn open_runs(
    disk: &dyn Disk,
    dir: &Path,
    quarantine: &Arc<Quarantine>,
) -> Result<Vec<Arc<Run>>, OpenError> {
    disk.create_dir(dir).map_err(OpenError::io(dir))?;
    // Runs and log files that a run replaces are removed below. First make the run's name durable: its writer
    // may have crashed before.
    disk.sync_dir(dir).map_err(OpenError::io(dir))?;
    let mut ranges = Vec::new();
    let remove = |name: &str| disk.remove(&dir.join(name)).map_err(OpenError::io(dir.join(name)));
    for name in disk.list(dir).map_err(OpenError::io(dir))? {
        if let Some(range) = run::range_of(&name) {
            ranges.push(range);
        } else if name.ends_with(".run.tmp") {
            remove(&name)?;
        }
    }
    ranges.sort_unstable();
    let (gone, kept): (Vec<run::Range>, Vec<run::Range>) = ranges
        .iter()
        .partition(|range| ranges.iter().any(|other| other != *range && other.contains(**range)));
    for range in gone {
        remove(&run::file_name(range))?;
    }
    kept.into_iter().map(|range| Run::open(disk, dir, range, quarantine).map(Arc::new)).collect()
}
