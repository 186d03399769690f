//! Verifies the aggregates: reads every entry of all runs and of the log once, merged in key order, and
//! passes the newest of each key to a [`Judge`].

use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use gnudi_model::MetricId;

use super::{
    log_dir,
    opening::{last_segment, open_runs},
    recent::{Layer, Recent},
    roster::Roster,
    run::{
        Range, Run, RunName,
        verify::{Gap, Reading},
    },
    runs_dir,
};
use crate::{
    OpenError,
    aggregates::{
        key::{KEY_BYTES, Key},
        table::{Found, levels::Level, merge::Deleted},
    },
    incoming::log::verify::{finding_of, observed, unreadable_segments},
    quarantine::Report,
    reserve::Reserve,
    segments::{
        self, OwnerState, Segment, Tear,
        frame::{ITEM_HEADER_BYTES, open_item},
    },
    verify::{Emit, Finding, Judge, ReadOnlyDisk, Verdict},
};

/// The result of [`check`]; the input of a repair.
#[derive(Default)]
pub(crate) struct CheckedAggregates {
    /// Of all levels, each oldest first.
    pub runs: Vec<CheckedRun>,
    /// The log's segments that `layer` refers to.
    pub segments: BTreeMap<u32, Arc<Segment>>,
    pub layer: Layer,
    /// Whether the log itself is damaged.
    pub is_log_damaged: bool,
    /// The last segment of which the roster lists something, though its file may be lost; 0 for none.
    pub listed_segment: u32,
    pub missing: Vec<RunName>,
    /// Metrics and blocks whose newest value is invalid although its checksum matches.
    pub wrong_heads: Vec<MetricId>,
    pub wrong_blocks: Vec<Key>,
    /// Metrics that lost a newest block.
    pub lost_blocks: Vec<MetricId>,
    /// Metrics that are not in the index.
    pub orphans: Vec<MetricId>,
    /// Metrics whose newest head is lost.
    pub lost_heads: Vec<MetricId>,
    /// Values that earlier repairs or copies had marked as lost.
    pub known_lost: u64,
    pub heads: u64,
    pub blocks: u64,
}

/// A run and its damage.
pub(crate) struct CheckedRun {
    pub run: Arc<Run>,
    pub gaps: Vec<Gap>,
    /// Whether the file must be rewritten.
    pub is_damaged: bool,
}

impl CheckedAggregates {
    /// Whether blocks, or unknown entries, are lost.
    pub fn has_lost(&self) -> bool {
        self.is_log_damaged
            || !self.missing.is_empty()
            || !self.lost_blocks.is_empty()
            || self.runs.iter().any(|run| !run.gaps.is_empty())
    }
}

const LOST_HEAD: &str = "the newest state of the metric is lost";
const REPAIR_VALUE: &str = "the file is copied to the quarantine and rewritten; the value is marked as lost, so that no older one replaces it";
const REPAIR_LOG: &str = "the log is copied to the quarantine; what is whole is written to a run";

/// Checks the store in `dir`.
pub(crate) fn check(
    disk: &ReadOnlyDisk,
    dir: &Path,
    judge: &mut dyn Judge,
    emit: Emit<'_>,
) -> Result<CheckedAggregates, OpenError> {
    let (quarantine, reports) = observed(Arc::new(disk.clone()), None);
    let quarantine = Arc::new(quarantine);
    let runs = open_runs(disk, &runs_dir(dir), &quarantine)?;
    let missing = missing_runs(&runs.all().map(|run| run.name).collect::<Vec<_>>());
    let mut checked = CheckedAggregates { missing, ..CheckedAggregates::default() };
    let reports: Vec<Report> = std::mem::take(&mut *reports.lock());
    let done = last_segment(&runs);
    for run in runs.all().cloned() {
        let mut is_damaged = false;
        for report in reports.iter().filter(|report| report.file == run.path()) {
            is_damaged = true;
            let what = format!("damaged {}: no entry is lost by it", report.what);
            let repair = "the file is copied to the quarantine and rewritten";
            emit(Finding::of(run.path(), what, repair).at(report.offset));
        }
        checked.runs.push(CheckedRun { run, gaps: Vec::new(), is_damaged });
    }
    for name in &checked.missing {
        let what = match name.level {
            Level::Blocks => "a run is missing: every metric may have lost blocks",
            Level::New | Level::Heads => {
                "a run is missing: every metric without a newer state may have lost its newest one"
            }
        };
        let repair = "such metrics are marked as lost";
        emit(Finding::of(&runs_dir(dir).join(name.file()), what, repair));
    }
    check_log(disk, dir, done, &mut checked, emit)?;
    walk(&mut checked, judge, emit);
    Ok(checked)
}

/// Runs that must have been there: heads and blocks cover the same segments, new runs those behind. `names`: oldest
/// first in each level.
pub(super) fn missing_runs(names: &[RunName]) -> Vec<RunName> {
    let of_level = |level| names.iter().filter(move |name| name.level == level).map(|name| name.range);
    let last_of = |level| of_level(level).map(|range| range.high).max().unwrap_or(0);
    let separated = last_of(Level::Heads).max(last_of(Level::Blocks));
    let mut missing = Vec::new();
    for (level, first, last) in [
        (Level::Heads, 1, separated),
        (Level::Blocks, 1, separated),
        (Level::New, separated.saturating_add(1), last_of(Level::New)),
    ] {
        let mut next = first;
        let behind = Range { low: last.saturating_add(1), high: last };
        for Range { low, high } in of_level(level).chain([behind]) {
            if low > next {
                missing.push(RunName { level, range: Range { low: next, high: low - 1 } });
            }
            next = next.max(high.saturating_add(1));
        }
    }
    missing
}

/// Reads the log into the layer.
fn check_log(
    disk: &ReadOnlyDisk,
    dir: &Path,
    done: u32,
    checked: &mut CheckedAggregates,
    emit: Emit<'_>,
) -> Result<(), OpenError> {
    let (quarantine, reports) = observed(Arc::new(disk.clone()), None);
    let layer = &mut checked.layer;
    let log = log_dir(dir);
    let roster = Roster::open(Arc::new(disk.clone()), &log, done);
    let (_, mut expected) = roster.map_err(OpenError::io(&log))?;
    checked.listed_segment = expected.last().map_or(0, |frame| frame.segment);
    let known = OwnerState { done, durable: expected.last(), ..OwnerState::default() };
    let mut gone = Vec::new();
    let none = Reserve::default();
    let recovered = segments::recover(&none, disk, &log, Tear::Cut, known, &quarantine, &mut |frame| {
        gone.extend(expected.before(frame.at).into_iter().inspect(|gone| layer.lose(gone)));
        let listed = expected.within(frame.at, frame.bytes.len());
        layer.recover(&frame, &listed);
    })?;
    gone.extend(expected.rest().into_iter().inspect(|gone| layer.lose(gone)));
    if let Some(first) = gone.first() {
        checked.is_log_damaged = true;
        let path = log.join(segments::file_name(first.at.segment));
        let what = format!("{} values that were written to the log are not in it", gone.len());
        emit(Finding::of(&path, what, REPAIR_LOG).at(first.at.offset.into()));
    }
    checked.is_log_damaged |= !unreadable_segments(disk, &log, REPAIR_LOG, emit).is_empty();
    for report in reports.lock().drain(..).filter(|report| !report.is_expected) {
        checked.is_log_damaged = true;
        emit(Finding { repair: REPAIR_LOG.to_owned(), ..finding_of(&report) });
    }
    let mut next = done + 1;
    for number in recovered.segments.keys() {
        if *number > next {
            checked.is_log_damaged = true;
            let path = log_dir(dir).join(segments::file_name(next));
            let what = "a segment of the log is missing: what was written to it is lost";
            emit(Finding::of(&path, what, REPAIR_LOG));
        }
        next = number + 1;
    }
    checked.segments = recovered.segments;
    Ok(())
}

/// A run or the log, with its next entry.
struct Source<'a> {
    /// The log has what new runs have.
    level: Level,
    reader: Reader<'a>,
    next: Option<Next>,
    gaps: Vec<Gap>,
    is_damaged: bool,
}

enum Reader<'a> {
    Run(Box<Reading<'a>>),
    Layer(VecDeque<(Key, Recent)>, &'a BTreeMap<u32, Arc<Segment>>),
}

struct Next {
    key: Key,
    state: State,
    /// File and offset.
    at: (PathBuf, u64),
}

enum State {
    Value(Bytes),
    Gone,
    Lost,
    LostBefore,
}

impl Source<'_> {
    fn advance(&mut self, emit: Emit<'_>) {
        self.next = match &mut self.reader {
            Reader::Run(reading) => {
                let path = reading.run.path();
                let next = reading.next().map(|entry| Next {
                    key: entry.key,
                    state: match entry.found {
                        Found::Value(bytes) => State::Value(bytes),
                        Found::Tombstone => State::Gone,
                        Found::Damaged(_) if entry.was_known => State::LostBefore,
                        Found::Damaged(_) => State::Lost,
                    },
                    at: (path.to_owned(), entry.offset),
                });
                for gap in reading.take_gaps() {
                    emit(gap_finding(reading.run, &gap));
                    self.gaps.push(gap);
                }
                next
            }
            Reader::Layer(entries, segments) => entries.pop_front().map(|(key, recent)| {
                let (at, state) = recent_state(&key, recent, segments);
                Next { key, state, at }
            }),
        };
    }
}

/// The state of an entry of the log, and its file and offset.
fn recent_state(
    key: &Key,
    recent: Recent,
    segments: &BTreeMap<u32, Arc<Segment>>,
) -> ((PathBuf, u64), State) {
    let path = |number: u32| segments.get(&number).map(|segment| segment.path.clone()).unwrap_or_default();
    match recent {
        Recent::Dirty(_) => unreachable!("a layer made from files has no dirty heads"),
        Recent::Tombstone => ((PathBuf::new(), 0), State::Gone),
        Recent::Damaged(at) => ((path(at.segment), at.offset.into()), State::Lost),
        Recent::Value(at, length) => {
            let value = read_value(segments, key, recent);
            let place = (path(at.segment), at.offset.into());
            debug_assert!(length as usize >= KEY_BYTES);
            (place, value.map_or(State::Lost, State::Value))
        }
    }
}

/// A value in the log; `None` if it is damaged.
pub(super) fn read_value(segments: &BTreeMap<u32, Arc<Segment>>, key: &Key, recent: Recent) -> Option<Bytes> {
    let Recent::Value(at, length) = recent else { return None };
    let item = Bytes::from(segments.get(&at.segment)?.read_item(at.offset, length).ok()?);
    let (_, payload) = open_item(&item)?;
    payload.starts_with(key.bytes()).then(|| item.slice(ITEM_HEADER_BYTES + KEY_BYTES..))
}

/// Reads all entries in key order, newest first for each key, and reports damage.
fn walk(checked: &mut CheckedAggregates, judge: &mut dyn Judge, emit: Emit<'_>) {
    let runs: Vec<Arc<Run>> = checked.runs.iter().map(|checked| Arc::clone(&checked.run)).collect();
    let segments = checked.segments.clone();
    let layer = Reader::Layer(checked.layer.sorted().into(), &segments);
    let readers = runs.iter().map(|run| (run.name.level, Reader::Run(Box::new(Reading::new(run)))));
    let source = |(level, reader)| Source { level, reader, next: None, gaps: Vec::new(), is_damaged: false };
    let mut sources: Vec<Source<'_>> = readers.chain([(Level::New, layer)]).map(source).collect();
    for source in &mut sources {
        source.advance(emit);
    }
    let mut deleted = Deleted::default();
    let smallest = |sources: &[Source<'_>]| {
        sources.iter().filter_map(|source| source.next.as_ref()).map(|next| next.key).min()
    };
    while let Some(key) = smallest(&sources) {
        if key.is_deletion() {
            let marks = sources.iter().map(|source| source.next.as_ref().is_some_and(|next| next.key == key));
            let levels = sources.iter().map(|source| source.level);
            deleted = Deleted::by(key.metric(), &marks.zip(levels).collect::<Vec<_>>());
        }
        let mut newest = None;
        for (age, source) in sources.iter_mut().enumerate().rev() {
            if source.next.as_ref().is_some_and(|next| next.key == key) {
                let next = source.next.take().expect("just seen");
                if matches!(next.state, State::Lost) {
                    source.is_damaged = true;
                    emit(lost(&next, newest.is_some()));
                }
                newest = newest.or(Some((age, next)));
                source.advance(emit);
            }
        }
        let (age, next) = newest.expect("some source has the smallest key");
        if !deleted.voids(&key, age) {
            judge_entry(checked, judge, &next, emit);
        }
    }
    checked.is_log_damaged |= sources.last().is_some_and(|layer| layer.is_damaged);
    for (source, run) in sources.into_iter().zip(&mut checked.runs) {
        if let Reader::Run(reading) = &source.reader
            && reading.is_index_wrong()
            && !run.is_damaged
        {
            let what = "index or filter do not fit the entries";
            emit(Finding::of(reading.run.path(), what, "the file is rewritten"));
            run.is_damaged = true;
        }
        run.is_damaged |= source.is_damaged || !source.gaps.is_empty();
        run.gaps = source.gaps;
    }
}

/// The finding for a value whose checksum is wrong.
fn lost(next: &Next, is_hidden: bool) -> Finding {
    let what = match next.key.as_block() {
        _ if is_hidden => "a value is damaged; a newer one is there".to_owned(),
        Some(block) => format!(
            "the block of {} s from {} to {} is lost",
            block.granularity.0 as f64 / 1e9,
            block.first.to_iso_micros(),
            block.last.to_iso_micros()
        ),
        None if next.key.is_loss() => "blocks of the metric are lost".to_owned(),
        None => LOST_HEAD.to_owned(),
    };
    Finding::of(&next.at.0, what, REPAIR_VALUE).at(next.at.1).of_metric(next.key.metric())
}

fn judge_entry(checked: &mut CheckedAggregates, judge: &mut dyn Judge, next: &Next, emit: Emit<'_>) {
    let (key, metric) = (&next.key, next.key.metric());
    let finding =
        |what: String, repair: &str| Finding::of(&next.at.0, what, repair).at(next.at.1).of_metric(metric);
    match (&next.state, key.as_block()) {
        (State::Gone, _) => {}
        (State::Lost, block) if block.is_some() || key.is_loss() => checked.lost_blocks.push(metric),
        (State::Lost, _) => {
            checked.lost_heads.push(metric);
            judge.lost_head(metric);
        }
        (State::LostBefore, _) => {
            checked.known_lost += 1;
            if key.is_head() {
                checked.lost_heads.push(metric);
                judge.lost_head(metric);
            }
        }
        (State::Value(_), None) if key.is_mark() => {}
        (State::Value(bytes), None) => {
            checked.heads += 1;
            match judge.head(metric, bytes) {
                Verdict::Right => {}
                Verdict::NoMetric => {
                    checked.orphans.push(metric);
                    let what = "the index does not know the metric of this state".to_owned();
                    emit(finding(what, "it is deleted").left_over());
                }
                Verdict::Wrong(reason) => {
                    checked.wrong_heads.push(metric);
                    emit(finding(format!("{LOST_HEAD}: {reason}"), "the metric is marked as lost"));
                }
            }
        }
        (State::Value(bytes), Some(block)) => {
            checked.blocks += 1;
            if let Err(reason) = judge.block(&block, bytes) {
                checked.wrong_blocks.push(*key);
                checked.lost_blocks.push(metric);
                emit(finding(format!("a block is lost: {reason}"), "it is marked as lost"));
            }
        }
    }
}

fn gap_finding(run: &Run, gap: &Gap) -> Finding {
    let around = |key: Option<Key>| key.map_or("the end".to_owned(), |key| key.metric().to_string());
    let what = format!(
        "{} damaged bytes: the states and blocks that were in them are lost, of metrics from {} to {} in the order of the file",
        gap.end - gap.start,
        around(gap.after),
        around(gap.before)
    );
    Finding::of(run.path(), what, REPAIR_GAP).at(gap.start)
}

const REPAIR_GAP: &str =
    "the file is copied to the quarantine and rewritten; metrics without anything newer are marked as lost";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gap_is_a_missing_run() {
        let check = |there: &[&str], missing: &[&str]| {
            let names: Vec<RunName> = there.iter().map(|file| RunName::of_file(file).unwrap()).collect();
            let found: Vec<String> = missing_runs(&names).into_iter().map(RunName::file).collect();
            assert_eq!(found, missing, "{there:?}");
        };
        check(&[], &[]);
        check(&["00000001-00000004.run", "00000005-00000005.run"], &[]);
        check(
            &["00000003-00000004.run", "00000006-00000006.run"],
            &["00000001-00000002.run", "00000005-00000005.run"],
        );
        let (heads, blocks) = ("00000001-00000004.heads.run", "00000001-00000004.blocks.run");
        check(&[heads, blocks], &[]);
        check(&[heads, blocks, "00000005-00000006.run"], &[]);
        check(&[heads, blocks, "00000006-00000006.run"], &["00000005-00000005.run"]);
        check(&[heads], &[blocks]);
        check(&[blocks], &[heads]);
        check(&["00000001-00000002.heads.run", blocks], &["00000003-00000004.heads.run"]);
    }
}
