//! Verification and repair of the incoming log.
//!
//! Checks the segments with all their frames and items, the checkpoint, the log's identity, and the
//! aggregates' record of the log. A repair keeps every whole record at its position.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use gnudi_model::{MetricId, SackCount};
use parking_lot::Mutex;
use uuid::Uuid;

use super::{
    checkpoint,
    entries::{self, SackExtent},
    followed::{Followed, IDENTITY, identify, identity, place},
};
use crate::{
    OpenError,
    disk::{Disk, LocalDisk, read_file, replace_file},
    incoming::Position,
    quarantine::{Quarantine, Report},
    reserve::Reserve,
    segments::{
        Location, OwnerState, RecoveredFrame, SEGMENT_HEADER_BYTES, SegmentHeader, Tear,
        frame::FRAME_HEADER_BYTES,
        recover,
        repair::{Hole, LeftItem, cover},
    },
    verify::{Emit, Finding, Logged, ReadOnlyDisk},
};

/// Length of the frame that marks a lost end: longer than a sync mark.
const LOST_END_BYTES: u32 = 64;
/// Maximum length of a segment without records: its header and some marks.
const EMPTY_SEGMENT_END: u32 = SEGMENT_HEADER_BYTES + 512;

/// The log's contents, for comparison with the heads.
pub(crate) struct CheckedLog {
    pub logged: HashMap<MetricId, Logged>,
    /// No record behind this position is lost.
    pub complete_behind: Position,
    /// The newest segment whose records a head may have applied, as far as is known.
    pub newest_segment: u32,
    /// Whether anything is damaged.
    pub is_damaged: bool,
    /// Segments of which something cannot be read.
    pub unreadable: Vec<PathBuf>,
}

type Reports = Arc<Mutex<Vec<Report>>>;

/// A quarantine that collects its reports, and copies damaged bytes to `dir` if given.
pub(crate) fn observed(disk: Arc<dyn Disk>, dir: Option<PathBuf>) -> (Quarantine, Reports) {
    let reports = Reports::default();
    let collected = Arc::clone(&reports);
    (Quarantine::observed(disk, dir, Box::new(move |report| collected.lock().push(report))), reports)
}

/// Checks the log in `dir`, which the aggregates in `followed_in` follow.
pub(crate) fn check(
    disk: &ReadOnlyDisk,
    dir: &Path,
    followed_in: &Path,
    emit: Emit<'_>,
) -> Result<CheckedLog, OpenError> {
    let mut damaged = false;
    let emit: Emit<'_> = &mut |finding: Finding| {
        damaged |= !finding.is_leftover;
        emit(finding);
    };
    let (quarantine, reports) = observed(Arc::new(disk.clone()), None);
    let trimmed = checkpoint::read(disk, dir, &quarantine)?;
    let followed = Followed::read(disk, followed_in, &quarantine)?;
    for report in reports.lock().drain(..) {
        let repair = "it is quarantined; all records in the log are applied again, which changes nothing";
        emit(Finding::of(&report.file, format!("damaged {}", report.what), repair));
    }
    let found = match identity(disk, dir) {
        Ok(found) => found,
        Err(OpenError::Invalid { path, reason }) => {
            emit(Finding::of(&path, reason, "it is quarantined and rewritten"));
            None
        }
        Err(error) => return Err(error),
    };
    let mut newest = trimmed.iter().flatten().copied().max().unwrap_or_default();
    let mut logged: HashMap<MetricId, Logged> = HashMap::new();
    let mut holes = HashSet::new();
    let (mut records_damaged, mut records) = (Vec::new(), Vec::new());
    let none = Reserve::default();
    let unknown = OwnerState::default();
    let recovered = recover(&none, disk, dir, Tear::KeepWhole, unknown, &quarantine, &mut |frame| {
        // A repair has put this frame in the place of lost ones.
        if frame.items.is_empty() && frame.bytes.len() > FRAME_HEADER_BYTES {
            holes.insert(frame.at.segment);
        }
        for item in frame.items {
            let part = SackExtent::of_item(item);
            let at = Location { offset: frame.at.offset + item.offset, ..frame.at };
            let payload = Bytes::copy_from_slice(item.payload(frame.bytes));
            records.clear();
            if entries::decode(&payload, Position(at.pack()), &mut records).is_none() {
                records_damaged.push(at);
            }
            let is_trimmed = trimmed.as_ref().and_then(|trimmed| trimmed.get(usize::from(part.sack.0)));
            let is_trimmed = is_trimmed.is_some_and(|trimmed| trimmed.0 >= at.pack());
            for record in &records {
                let logged = logged.entry(record.metric).or_default();
                logged.newest = record.position;
                // Records without measures write nothing.
                if is_trimmed && record.measures > 0 {
                    logged.applied = record.position;
                }
            }
            if records.iter().all(|record| record.metric.0.is_nil()) {
                holes.insert(frame.at.segment);
            }
        }
    })?;
    for at in records_damaged {
        let path = dir.join(crate::segments::file_name(at.segment));
        emit(Finding::of(&path, "a record of unknown form", "it is quarantined").at(at.offset.into()));
    }
    let repair = "the file is kept in the quarantine, and replaced by a copy with zeros in their place";
    let unreadable = unreadable_segments(disk, dir, repair, emit);
    holes.extend(unreadable.iter().filter_map(|file| segment_of(file)));
    for report in reports.lock().drain(..).filter(|report| !report.is_expected) {
        holes.extend(segment_of(&report.file));
        emit(finding_of(&report));
    }
    let (last, end) = recovered.last.unwrap_or_default();
    let lost = lost_segments(&recovered.headers, trimmed.is_some().then_some(newest));
    for number in &lost {
        let path = dir.join(crate::segments::file_name(*number));
        let what =
            "a segment is missing, and its measures with it: none of them were in the aggregates for certain";
        emit(Finding::of(&path, what, "the log continues without it"));
    }
    newest.0 = newest.0.max(followed.map_or(0, |followed| followed.position.0));
    let end = Location { segment: last, offset: end };
    let is_whole = check_end(dir, followed, found, end, newest, emit);
    let first_whole = recovered.headers.keys().rev().take_while(|number| !holes.contains(*number));
    let complete_behind =
        if is_whole { complete_behind(&recovered.headers, first_whole.copied()) } else { Position(u64::MAX) };
    let newest_segment =
        last.max(Location::unpack(newest.0).segment).max(followed.map_or(0, |followed| followed.segment));
    Ok(CheckedLog { logged, complete_behind, newest_segment, is_damaged: damaged, unreadable })
}

/// Emits what cannot be read of the segments in `dir`, and returns those segments' files. At a log's end it would
/// pass for torn.
pub(crate) fn unreadable_segments(
    disk: &ReadOnlyDisk,
    dir: &Path,
    repair: &str,
    emit: Emit<'_>,
) -> Vec<PathBuf> {
    let unreadable = disk.unreadable(|file| file.parent() == Some(dir) && segment_of(file).is_some());
    for (file, ranges) in &unreadable {
        for bytes in ranges {
            let what = format!("{} bytes cannot be read: what is in them is lost", bytes.end - bytes.start);
            emit(Finding::of(file, what, repair).at(bytes.start));
        }
    }
    unreadable.into_keys().collect()
}

/// The number of a segment's file.
fn segment_of(file: &Path) -> Option<u32> {
    crate::segments::number_of(file.file_name()?.to_str()?)
}

/// The finding for a report of the recovery.
pub(crate) fn finding_of(report: &Report) -> Finding {
    let (what, repair) = match report.what.as_str() {
        "frame" => (
            format!("{} damaged bytes: what was in them is lost", report.length),
            "they are quarantined, and their neighbours stay",
        ),
        "segment header" => ("damaged header of a segment".to_owned(), "it is rewritten"),
        other => (format!("damaged {other}"), "what is left stays"),
    };
    Finding::of(&report.file, what, repair).at(report.offset)
}

/// Untrimmed segments with records that are missing although a later one names them as its predecessor.
fn lost_segments(headers: &BTreeMap<u32, Option<SegmentHeader>>, trimmed: Option<Position>) -> Vec<u32> {
    let Some(trimmed) = trimmed else { return Vec::new() };
    let is_lost = |header: &&SegmentHeader| {
        header.previous > Location::unpack(trimmed.0).segment
            && header.previous_end > EMPTY_SEGMENT_END
            && !headers.contains_key(&header.previous)
    };
    headers.values().flatten().filter(is_lost).map(|header| header.previous).collect()
}

/// Compares the log's end with the progress recorded at the aggregates; false if records behind it are lost.
fn check_end(
    dir: &Path,
    followed: Option<Followed>,
    found: Option<Uuid>,
    end: Location,
    newest: Position,
    emit: Emit<'_>,
) -> bool {
    let repair = "the log continues after all applied positions";
    if let (Some(followed), Some(found)) = (followed, found)
        && followed.log != found
    {
        let what = format!(
            "another log ({found}) than the one that the aggregates follow ({}): measures that were accepted and not yet processed are lost",
            followed.log
        );
        emit(Finding::of(&dir.join(IDENTITY), what, repair));
        false
    } else if end.pack() < newest.0 {
        let (end, newest) = (place(end), place(Location::unpack(newest.0)));
        let what = format!(
            "the log ends at position {end}, but was processed up to {newest}: its end is lost, and with it measures that were not yet processed"
        );
        emit(Finding::of(dir, what, repair));
        false
    } else {
        true
    }
}

/// Given the undamaged segments at the end of the log, newest first: the place behind which nothing is
/// missing.
fn complete_behind(
    headers: &BTreeMap<u32, Option<SegmentHeader>>,
    whole: impl Iterator<Item = u32>,
) -> Position {
    let mut complete = Position(u64::MAX);
    let mut wanted = None;
    for number in whole {
        if wanted.is_some_and(|wanted| wanted != number) {
            break;
        }
        let Some(Some(header)) = headers.get(&number) else { break };
        complete = Position(Location { segment: number, offset: 0 }.pack());
        if header.previous == 0 {
            // A log that replaced another begins with a higher number.
            return if number == 1 { Position(0) } else { complete };
        }
        wanted = Some(header.previous);
    }
    complete
}

/// Repairs the log in `dir`, after [`check`]. `forget_trimmed`: apply everything in the log again. `sacks`: the
/// sack count, if it is unknown otherwise.
pub(crate) fn repair(
    dir: &Path,
    followed_in: &Path,
    found: &CheckedLog,
    forget_trimmed: bool,
    sacks: SackCount,
) -> Result<(), OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
    let quarantine_dir = dir.join("quarantine");
    disk.create_dir(dir).map_err(OpenError::io(dir))?;
    disk.create_dir(followed_in).map_err(OpenError::io(followed_in))?;
    let (quarantine, reports) = observed(Arc::clone(&disk), Some(quarantine_dir));
    let trimmed = checkpoint::read(&*disk, dir, &quarantine)?;
    let newest = trimmed.as_ref().map(|trimmed| trimmed.iter().copied().max().unwrap_or_default());
    let sacks = trimmed.as_ref().map_or(u64::from(sacks.get()), |trimmed| trimmed.len() as u64);
    let followed = Followed::read(&*disk, followed_in, &quarantine)?;
    let processed = followed.map(|followed| followed.position).max(newest);
    for file in &found.unreadable {
        make_readable(dir, file).map_err(OpenError::io(file))?;
    }
    // What could not be read may have been the log's end.
    let reached = if found.unreadable.is_empty() { processed } else { Some(Position(u64::MAX)) };
    mend_segments(&disk, dir, sacks, newest, reached, &quarantine, &reports)?;
    if (trimmed.is_none() || forget_trimmed) && dir.join(checkpoint::FILE_NAME).exists() {
        set_aside(dir, &dir.join(checkpoint::FILE_NAME)).map_err(OpenError::io(dir))?;
    }
    if matches!(identity(&*disk, dir), Err(OpenError::Invalid { .. })) {
        set_aside(dir, &dir.join(IDENTITY)).map_err(OpenError::io(dir))?;
        if let Some(followed) = followed {
            let id = format!("{}\n", followed.log);
            replace_file(&*disk, &dir.join(IDENTITY), id.as_bytes()).map_err(OpenError::io(dir))?;
        }
    }
    let log = match identity(&*disk, dir)? {
        Some(log) => log,
        None => identify(&*disk, dir).map_err(OpenError::io(dir))?,
    };
    let position = processed.unwrap_or_default();
    let segment = found.newest_segment.max(followed.map_or(0, |followed| followed.segment));
    Followed { log, segment, position }.write(&*disk, followed_in).map_err(OpenError::io(followed_in))
}

/// Moves a file to the quarantine of `dir`.
pub(crate) fn set_aside(dir: &Path, file: &Path) -> io::Result<()> {
    crate::verify::keep_copy(dir, file)?;
    LocalDisk.remove(file)?;
    LocalDisk.sync_dir(crate::disk::parent_of(file))
}

/// Replaces a file by a copy with zeros in place of what cannot be read. Keeps it in the quarantine of `dir`.
fn make_readable(dir: &Path, file: &Path) -> io::Result<()> {
    crate::verify::keep_copy(dir, file)?;
    let bytes = read_file(&ReadOnlyDisk::new(Arc::default()), file)?;
    replace_file(&LocalDisk, file, &bytes)
}

/// Overwrites damaged places with whole frames, and rewrites damaged headers. `reached`: a position up to which
/// the log is known to have been written.
fn mend_segments(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    sacks: u64,
    trimmed: Option<Position>,
    reached: Option<Position>,
    quarantine: &Quarantine,
    reports: &Reports,
) -> Result<(), OpenError> {
    let mut left: BTreeMap<Location, Vec<LeftItem>> = BTreeMap::new();
    let known = OwnerState { owner_tag: sacks, ..OwnerState::default() };
    let none = Reserve::default();
    let recovered = recover(&none, &**disk, dir, Tear::KeepWhole, known, quarantine, &mut |frame| {
        let is_hole = reports.lock().last().is_some_and(|report| is_at(report, &frame));
        if is_hole {
            left.insert(frame.at, items_of(&frame));
        }
    })?;
    if let Some((number, end)) = recovered.last
        && reached.is_some_and(|reached| Location { segment: number, offset: end }.pack() < reached.0)
    {
        // What followed is lost: mark that in the log.
        let segment = &recovered.segments[&number];
        let hole = Hole {
            start: segment.at(end.max(SEGMENT_HEADER_BYTES)),
            length: LOST_END_BYTES,
            left: Vec::new(),
        };
        cover(&*segment.file, &hole, entries::padding)
            .and_then(|_| segment.file.sync_data())
            .map_err(OpenError::io(&segment.path))?;
    }
    let mut ends: BTreeMap<u32, u32> = BTreeMap::new();
    for header in recovered.headers.values().flatten() {
        ends.insert(header.previous, header.previous_end);
    }
    let lost = lost_segments(&recovered.headers, trimmed);
    for (number, segment) in &recovered.segments {
        let failed = || OpenError::io(&segment.path);
        let promised = ends.get(number).copied().unwrap_or(0);
        let length = u32::try_from(segment.file.len().map_err(failed())?).unwrap_or(u32::MAX);
        let mut holes: Vec<(u32, u32)> = reports
            .lock()
            .iter()
            .filter(|report| report.file == segment.path && !report.is_expected && report.what == "frame")
            .map(|report| (report.offset as u32, (report.offset + report.length) as u32))
            .collect();
        if promised > length {
            // The missing end is part of the last hole, or a hole of its own.
            match holes.last_mut().filter(|(_, end)| *end == length) {
                Some((_, end)) => *end = promised,
                None => holes.push((length.max(SEGMENT_HEADER_BYTES), promised)),
            }
        }
        let mut is_changed = !holes.is_empty();
        for (start, end) in holes {
            let start = segment.at(start);
            let left = left.remove(&start).unwrap_or_default();
            let hole = Hole { start, length: end - start.offset, left };
            cover(&*segment.file, &hole, entries::padding).map_err(failed())?;
        }
        let header = recovered.headers.get(number).copied().flatten();
        if let Some(header) = header.filter(|header| lost.contains(&header.previous)) {
            // Its predecessor is gone.
            let header = SegmentHeader { previous_end: SEGMENT_HEADER_BYTES, ..header };
            header.write(&*segment.file).map_err(failed())?;
            is_changed = true;
        }
        if header.is_none() {
            let previous = recovered.segments.range(..number).next_back();
            let previous_end = previous.map_or(Ok(0), |(_, segment)| segment.file.len()).map_err(failed())?;
            let header = SegmentHeader {
                number: *number,
                // Even if that one is gone: this is not the log's beginning.
                previous: previous.map_or(number - 1, |(number, _)| *number),
                previous_end: previous_end as u32,
                previous_synced: true,
                owner_tag: recovered.owner_tag,
            };
            header.write(&*segment.file).map_err(failed())?;
            is_changed = true;
        }
        if is_changed {
            segment.file.sync_data().map_err(failed())?;
        }
    }
    Ok(())
}

fn is_at(report: &Report, frame: &RecoveredFrame<'_>) -> bool {
    report.what == "frame"
        && segment_of(&report.file) == Some(frame.at.segment)
        && report.offset == u64::from(frame.at.offset)
}

fn items_of(frame: &RecoveredFrame<'_>) -> Vec<LeftItem> {
    let item = |item: &crate::segments::ItemView| {
        let payload = item.payload(frame.bytes).to_vec();
        LeftItem { offset: item.offset, tag: item.tag, payload }
    };
    frame.items.iter().map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incoming::{
        Append as _, Batch,
        log::{LocalIncoming, LocalIncomingOptions},
    };

    #[tokio::test]
    async fn an_end_that_cannot_be_read_is_marked_as_lost() {
        let root = tempfile::tempdir().unwrap();
        let (dir, followed_in) = (root.path().join("incoming"), root.path().join("aggregates"));
        LocalDisk.create_dir(&followed_in).unwrap();
        let options = LocalIncomingOptions {
            followed_in: Some(followed_in.clone()),
            ..LocalIncomingOptions::default()
        };
        let log = LocalIncoming::open(&dir, &options).unwrap();
        let mut batch = Batch::default();
        batch.push(MetricId(Uuid::from_u128(1)), 1, |out| out.extend_from_slice(b"points"));
        log.append(batch).await.unwrap();
        drop(log);
        let look = || {
            let disk = ReadOnlyDisk::new(Arc::default());
            check(&disk, &dir, &followed_in, &mut |finding| panic!("{finding}")).unwrap()
        };
        let whole = look();
        assert_eq!((whole.logged.len(), whole.complete_behind), (1, Position(0)));
        let file = dir.join(crate::segments::file_name(1));
        let found = CheckedLog { unreadable: vec![file], ..whole };
        repair(&dir, &followed_in, &found, false, SackCount::DEFAULT).unwrap();
        let repaired = look();
        assert_eq!(repaired.logged.len(), 1, "what can be read stays");
        assert!(repaired.complete_behind > Position(0), "something is missing");
        assert!(dir.join("quarantine").join("00000001.log.whole-0").exists());
    }
}
