//! Opens the store: first the runs, then the log's entries that are in no run, then the threads.
//!
//! Together the runs and the log have all segments since the first. A gap is a lost run: it counts as a run that has lost all
//! of its entries, so that no older run's entries come back.

use std::{
    path::Path,
    sync::{Arc, OnceLock, atomic::AtomicU64},
};

use gnudi_model::MetricId;
use parking_lot::{Condvar, Mutex, RwLock};
use tokio::sync::Notify;

use super::{
    Counters, LocalAggregates, LocalAggregatesOptions, Log, Shared, State, Work, flush,
    free_space::Waiting,
    log_dir, merge,
    recent::Layer,
    roster::Roster,
    run::{Range, Run, RunName},
    runs_dir,
    verify::missing_runs,
};
use crate::{
    OpenError,
    aggregates::table::levels::{Level, Levels},
    disk::{Disk, LocalDisk},
    fence::Fences,
    quarantine::Quarantine,
    segments::{self, OwnerState, Patience, SegmentLog, SegmentOptions, Tear},
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
        let (log_dir, runs_dir) = (log_dir(dir), runs_dir(dir));
        let mut runs = open_runs(&*disk, &runs_dir, &quarantine)?;
        let names: Vec<RunName> = runs.all().map(|run| run.name).collect();
        for name in missing_runs(&names) {
            let lost = Run::lost(&runs_dir, name, &quarantine, known(&runs));
            insert(&mut runs, lost);
        }
        let segment_options = SegmentOptions {
            segment_bytes: options.segment_bytes,
            spares_max: options.spare_segments_max,
            sync_full: true,
            tear: Tear::Cut,
            reserve: options.reserve.clone(),
        };
        // Do not replay from the log what a run has: perhaps only an older part of it is left there.
        let done = last_segment(&runs);
        let OpenedLog { log, active, bytes, flushed } =
            open_log(&disk, &log_dir, segment_options, done, &quarantine)?;
        if let Some(range) = flushed {
            let known = known(&runs).chain(active.sorted().into_iter().map(|(key, _)| key.metric()));
            let lost = Run::lost(&runs_dir, RunName::new(range), &quarantine, known);
            insert(&mut runs, lost);
        }
        let shared = Arc::new(Shared {
            disk,
            log_dir,
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
            merging_blocks: Mutex::default(),
        });
        shared.work.want(|wanted| (wanted.merge, wanted.merge_blocks) = (true, true));
        shared.flush_if_due();
        let spawn = |name: &str, run: fn(&Shared)| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(name.into())
                .spawn(move || run(&shared))
                .map_err(OpenError::io(dir))
        };
        let threads = vec![
            spawn("gnudi-flush", flush::run)?,
            spawn("gnudi-merge", merge::run)?,
            spawn("gnudi-blocks", merge::run_blocks)?,
        ];
        Ok(Arc::new(Self { shared, fences: Fences::default(), threads }))
    }
}

/// Some metrics of the runs: those with which a page begins.
fn known(runs: &Levels<Arc<Run>>) -> impl Iterator<Item = MetricId> {
    runs.all().flat_map(|run| run.table.index.pages.iter().map(|(first, _)| first.metric()))
}

/// Inserts a run at its place in its level.
fn insert(runs: &mut Levels<Arc<Run>>, run: Run) {
    let level = runs.get_mut(run.name.level);
    let at = level.partition_point(|other| other.name.range < run.name.range);
    level.insert(at, Arc::new(run));
}

struct OpenedLog {
    log: Log,
    /// Its contents, and their size in bytes.
    active: Layer,
    bytes: u64,
    /// Segments that were flushed, though no run has them: the newest run is lost.
    flushed: Option<Range>,
}

/// Opens the log in `dir`. The runs have its segments up to `done`.
fn open_log(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    options: SegmentOptions,
    done: u32,
    quarantine: &Quarantine,
) -> Result<OpenedLog, OpenError> {
    disk.create_dir(dir).map_err(OpenError::io(dir))?;
    let (mut roster, mut expected) = Roster::open(Arc::clone(disk), dir, done).map_err(OpenError::io(dir))?;
    let (listed, durable) = (expected.first(), expected.last());
    let used = durable.map_or(0, |frame| frame.segment);
    let (mut active, mut bytes) = (Layer::default(), 0);
    let mut lost = Vec::new();
    let log = SegmentLog::open(
        Arc::clone(disk),
        dir,
        options,
        quarantine,
        OwnerState { used, done, durable, ..OwnerState::default() },
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
    // Segments follow one another, and only a flush removes any. A lost file of the log itself is listed.
    let (next, first) = (done.saturating_add(1), log.segments().read().keys().next().copied().unwrap_or(0));
    let is_listed = listed.is_some_and(|frame| frame.segment < first);
    let flushed = (first > next && !is_listed).then(|| Range { low: next, high: first - 1 });
    // Recovered frames are durable: the next sync lists them.
    Ok(OpenedLog { log: Log { log, roster, is_unsynced: false }, active, bytes, flushed })
}

/// The last segment of the log that is in a run; 0 if there is none.
pub(super) fn last_segment(runs: &Levels<Arc<Run>>) -> u32 {
    runs.all().map(|run| run.name.range.high).max().unwrap_or(0)
}

/// The runs in `dir`. Removes unfinished files, and runs that were merged into another.
pub(super) fn open_runs(
    disk: &dyn Disk,
    dir: &Path,
    quarantine: &Arc<Quarantine>,
) -> Result<Levels<Arc<Run>>, OpenError> {
    disk.create_dir(dir).map_err(OpenError::io(dir))?;
    // Runs and log files that a run replaces are removed below. First make the run's name durable: its writer
    // may have crashed before.
    disk.sync_dir(dir).map_err(OpenError::io(dir))?;
    let mut names = Vec::new();
    let remove = |name: &str| disk.remove(&dir.join(name)).map_err(OpenError::io(dir.join(name)));
    for file in disk.list(dir).map_err(OpenError::io(dir))? {
        if let Some(name) = RunName::of_file(&file) {
            names.push(name);
        } else if file.ends_with(".run.tmp") {
            remove(&file)?;
        }
    }
    let patience = Arc::new(Patience::new(quarantine.unreadable_max()));
    let mut runs = Levels::default();
    for name in valid(names, &mut |name| remove(&name.file()))? {
        let run = Run::open_patiently(disk, dir, name, quarantine, &patience)?;
        runs.get_mut(name.level).push(Arc::new(run));
    }
    Ok(runs)
}

/// The names of valid runs, oldest first in each level; the others are removed.
fn valid(
    names: Vec<RunName>,
    remove: &mut dyn FnMut(RunName) -> Result<(), OpenError>,
) -> Result<Vec<RunName>, OpenError> {
    let (mut kept, mut gone) = (names, Vec::new());
    kept.sort_unstable();
    let mut drop_if = |is_gone: &dyn Fn(&RunName, &[RunName]) -> bool| {
        let known = kept.clone();
        gone.extend(kept.extract_if(.., |name| is_gone(name, &known)));
    };
    // A merge was interrupted before its heads had their name, which blocks get first: all that it read is there.
    drop_if(&|name, known| {
        let is_input = |other: &RunName| {
            other != name && other.level != Level::Heads && name.range.contains(other.range)
        };
        name.level == Level::Blocks
            && !covers(known, name.range, |other| other.level == Level::Heads)
            && covers(known, name.range, is_input)
    });
    // A merge was interrupted before it had removed what it read.
    drop_if(&|name, known| {
        let is_wider = |other: &RunName| other.level == name.level && other.range.contains(name.range);
        known.iter().any(|other| other != name && is_wider(other))
    });
    drop_if(&|name, known| {
        let is_covered = |level| covers(known, name.range, |other| other.level == level);
        name.level == Level::New && is_covered(Level::Heads) && is_covered(Level::Blocks)
    });
    gone.into_iter().try_for_each(remove)?;
    Ok(kept)
}

/// Whether the chosen runs have all segments of `range`.
fn covers(names: &[RunName], range: Range, is_chosen: impl Fn(&RunName) -> bool) -> bool {
    let mut chosen: Vec<Range> = names.iter().filter(|name| is_chosen(name)).map(|name| name.range).collect();
    chosen.sort_unstable();
    let behind = |next: u32, Range { low, high }| {
        if low <= next { next.max(high.saturating_add(1)) } else { next }
    };
    chosen.into_iter().fold(range.low, behind) > range.high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &[&str]) -> Vec<RunName> {
        files.iter().map(|file| RunName::of_file(file).unwrap()).collect()
    }

    #[test]
    fn what_a_crash_leaves_is_removed() {
        let check = |files: &[&str], kept: &[&str]| {
            let mut gone = Vec::new();
            let found = valid(names(files), &mut |name| {
                gone.push(name);
                Ok(())
            });
            assert_eq!(found.unwrap(), names(kept));
            assert_eq!(gone.len(), files.len() - kept.len());
        };
        let (one, two, four) = ("00000001-00000001.run", "00000002-00000002.run", "00000003-00000004.run");
        check(&[two, one], &[one, two]);
        check(&[one, two, "00000001-00000002.run"], &["00000001-00000002.run"]);
        let (heads, blocks) = ("00000001-00000002.heads.run", "00000001-00000002.blocks.run");
        // Before the heads have their name, before the new runs are removed, and afterwards.
        check(&[one, two, four, blocks], &[one, two, four]);
        check(&[one, two, four, heads, blocks], &[four, heads, blocks]);
        check(&[two, four, heads, blocks], &[four, heads, blocks]);
        // A merge for room reads runs of all levels.
        let (wide_heads, wide) = ("00000001-00000004.heads.run", "00000001-00000004.blocks.run");
        check(&[four, heads, blocks, wide], &[four, heads, blocks]);
        check(&[four, heads, blocks, wide_heads, wide], &[wide_heads, wide]);
        check(&[one, two, four, heads, blocks, wide], &[four, heads, blocks]);
        // A run that is missing is no reason to remove others.
        check(&[four, blocks], &[four, blocks]);
        check(&[one, two, heads], &[one, two, heads]);
        assert_eq!(RunName::of_file("00000001-00000002.other.run"), None);
        assert_eq!(RunName::of_file("1-2.run"), None);
    }
}
