//! Repairs the aggregates, after [`super::verify::check`].
//!
//! A damaged run is rewritten under its name, with everything that is whole; a damaged log is written to a
//! run and then removed. Lost values are marked as lost, so that no older value replaces them. Each step
//! takes effect with one rename, and the next opening removes leftovers of interrupted steps; so a repair can
//! be interrupted anywhere and repeated.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    sync::Arc,
};

use gnudi_model::MetricId;

use super::{
    log_dir,
    recent::Recent,
    run::{
        Range, Run, RunName, RunWriter,
        verify::{Gap, Reading},
    },
    runs_dir,
    verify::{CheckedAggregates, CheckedRun, read_value},
};
use crate::{
    OpenError,
    aggregates::{
        key::Key,
        table::{Found, entry::Kind},
    },
    disk::{Disk, LocalDisk},
    segments,
    verify::keep_copy,
};

/// The conditions of a repair.
pub(crate) struct Assumptions<'a> {
    /// All metrics of the index, sorted by id.
    pub metrics: &'a [MetricId],
    /// Metrics with lost heads beside those that the check has found.
    pub missing: &'a [MetricId],
    /// Whether all measures will be applied again from the start: then metrics that have lost something are
    /// reset.
    pub is_replayed: bool,
}

/// Repairs the store in `dir`; `checked` is the check's result.
pub(crate) fn repair(
    dir: &Path,
    checked: &CheckedAggregates,
    assumptions: &Assumptions<'_>,
) -> Result<(), OpenError> {
    for dir in [runs_dir(dir), log_dir(dir)] {
        LocalDisk.create_dir(&dir).map_err(OpenError::io(&dir))?;
    }
    for run in checked.runs.iter().filter(|run| run.is_damaged) {
        rewrite(dir, run, assumptions).map_err(OpenError::io(run.run.path()))?;
    }
    for name in &checked.missing {
        fill_in(dir, *name, assumptions).map_err(OpenError::io(runs_dir(dir)))?;
    }
    let lost = lost_heads(checked, assumptions);
    let is_needed = checked.is_log_damaged || !checked.wrong_blocks.is_empty() || !lost.is_empty();
    if is_needed { end_log(dir, checked, &lost, assumptions).map_err(OpenError::io(dir)) } else { Ok(()) }
}

/// Metrics whose newest head must not be used.
fn lost_heads(checked: &CheckedAggregates, assumptions: &Assumptions<'_>) -> BTreeSet<MetricId> {
    let mut lost: BTreeSet<MetricId> =
        checked.wrong_heads.iter().chain(assumptions.missing).copied().collect();
    if !assumptions.is_replayed {
        return lost;
    }
    if checked.is_log_damaged || !checked.missing.is_empty() {
        // It is unknown which metrics are affected.
        lost.extend(assumptions.metrics);
    }
    lost.extend(checked.lost_heads.iter().chain(&checked.lost_blocks));
    for run in &checked.runs {
        for gap in &run.gaps {
            lost.extend(heads_in(&run.run, gap, assumptions.metrics).map(|key| key.metric()));
            lost.extend(gap.after.into_iter().chain(gap.before).map(|key| key.metric()));
        }
    }
    lost
}

/// Heads of known metrics that may have been in a gap of a run.
fn heads_in<'a>(run: &'a Run, gap: &Gap, metrics: &'a [MetricId]) -> impl Iterator<Item = Key> + 'a {
    let (after, before) = (gap.after, gap.before);
    let is_within =
        move |key: &Key| after.is_none_or(|after| after < *key) && before.is_none_or(|before| *key < before);
    let may_be = |metric: &MetricId| run.may_contain(*metric);
    metrics.iter().copied().filter(may_be).map(Key::head).filter(is_within)
}

/// Loss marks for metrics that may have had blocks in a gap.
fn losses(run: &Run, gap: &Gap, metrics: &[MetricId]) -> Vec<Key> {
    let after = gap.after.filter(|key| !key.is_deletion());
    let before = gap.before.filter(|key| key.as_block().is_some());
    let around = after.into_iter().chain(before).map(|key| key.metric());
    let is_within = |metric: &MetricId| {
        run.may_contain(*metric)
            && gap.after.is_none_or(|after| after < Key::loss(*metric))
            && gap.before.is_none_or(|before| Key::last_of(*metric) < before)
    };
    let within = metrics.iter().copied().filter(is_within);
    let lost: BTreeSet<MetricId> = around.chain(within).collect();
    lost.into_iter().map(Key::loss).collect()
}

/// Rewrites a run.
fn rewrite(dir: &Path, damaged: &CheckedRun, assumptions: &Assumptions<'_>) -> io::Result<()> {
    let run = &damaged.run;
    let mut lost: Vec<Key> = Vec::new();
    if !assumptions.is_replayed {
        for gap in &damaged.gaps {
            lost.extend(heads_in(run, gap, assumptions.metrics));
            lost.extend(losses(run, gap, assumptions.metrics));
        }
    }
    lost.retain(|key| run.name.level.takes(key));
    keep_copy(dir, run.path())?;
    let mut writer = RunWriter::create(Arc::new(LocalDisk), &runs_dir(dir), run.name)?;
    let written = copy(run, in_order(lost), &mut writer);
    if written.is_err() {
        writer.abandon();
        return written;
    }
    writer.finish().map(|_| ())
}

/// Sorted as in a new run, without duplicates.
fn in_order(mut keys: Vec<Key>) -> Vec<Key> {
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Copies everything whole, and inserts `lost` as damaged entries.
fn copy(run: &Run, lost: Vec<Key>, writer: &mut RunWriter) -> io::Result<()> {
    let mut reading = Reading::new(run);
    let mut lost = lost.into_iter().peekable();
    while let Some(entry) = reading.next() {
        while let Some(key) = lost.next_if(|key| *key <= entry.key) {
            if key != entry.key {
                writer.push(key, Kind::Damaged, b"")?;
            }
        }
        match entry.found {
            Found::Value(bytes) => writer.push(entry.key, Kind::Value, &bytes)?,
            Found::Tombstone => writer.push(entry.key, Kind::Tombstone, b"")?,
            Found::Damaged(_) => writer.push(entry.key, Kind::Damaged, b"")?,
        }
    }
    lost.try_for_each(|key| writer.push(key, Kind::Damaged, b""))
}

/// Replaces a missing run: every metric may have lost something in it.
fn fill_in(dir: &Path, name: RunName, assumptions: &Assumptions<'_>) -> io::Result<()> {
    let mut lost = Vec::new();
    if !assumptions.is_replayed {
        lost.extend(assumptions.metrics.iter().copied().map(Key::head));
        lost.extend(assumptions.metrics.iter().copied().map(Key::loss));
    }
    let mut writer = RunWriter::create(Arc::new(LocalDisk), &runs_dir(dir), name)?;
    for key in in_order(lost).into_iter().filter(|key| name.level.takes(key)) {
        writer.push(key, Kind::Damaged, b"")?;
    }
    writer.finish().map(|_| ())
}

/// Writes the log to a run that is newer than all others, with marks for what is lost, and removes the log.
fn end_log(
    dir: &Path,
    checked: &CheckedAggregates,
    lost_heads: &BTreeSet<MetricId>,
    assumptions: &Assumptions<'_>,
) -> io::Result<()> {
    let low = checked.runs.iter().map(|checked| checked.run.name.range.high).max().unwrap_or(0) + 1;
    let last = checked.segments.keys().next_back().copied().unwrap_or(0);
    // Of a lost file the roster is left: the next start ignores it only if the run covers that segment.
    let range = Range { low, high: last.max(checked.listed_segment).max(low) };
    // A deletion mark resets a metric: it hides everything older.
    let mark = if assumptions.is_replayed { Key::deletion } else { Key::head };
    let is_kept = |key: &Key| !assumptions.is_replayed || !lost_heads.contains(&key.metric());
    let wrong = checked.wrong_blocks.iter().copied().filter(is_kept);
    let lost = lost_heads.iter().copied().map(mark).chain(wrong);
    let layer = checked.layer.sorted().into_iter().filter(|(key, _)| is_kept(key));
    // Lost entries replace those of the log.
    let all = layer.map(|(key, recent)| (key, Some(recent))).chain(lost.map(|key| (key, None)));
    let all: BTreeMap<Key, Option<Recent>> = all.collect();
    for segment in checked.segments.values() {
        keep_copy(dir, &segment.path)?;
    }
    let mut writer = RunWriter::create(Arc::new(LocalDisk), &runs_dir(dir), RunName::new(range))?;
    for (key, recent) in all {
        let value = recent.and_then(|recent| read_value(&checked.segments, &key, recent));
        match (recent, value) {
            (_, Some(bytes)) => writer.push(key, Kind::Value, &bytes)?,
            (Some(Recent::Tombstone), _) => writer.push(key, Kind::Tombstone, b"")?,
            (None, _) if key.is_deletion() => writer.push(key, Kind::Tombstone, b"")?,
            _ => writer.push(key, Kind::Damaged, b"")?,
        }
    }
    writer.finish()?;
    let log = log_dir(dir);
    for number in checked.segments.keys() {
        LocalDisk.remove(&log.join(segments::file_name(*number)))?;
    }
    LocalDisk.sync_dir(&log)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use bytes::Bytes;
    use gnudi_model::{Timespan, Timestamp};
    use uuid::Uuid;

    use super::{
        super::{LocalAggregates, LocalAggregatesOptions, verify::check},
        *,
    };
    use crate::{
        aggregates::{AggregateStore as _, BlockKey, Fence, MetricWrite, table::levels::Level},
        incoming::Position,
        quarantine::Quarantine,
        verify::{Judge, Logged, ReadOnlyDisk, Verdict},
    };

    /// A judge that accepts everything.
    struct Content;

    impl Judge for Content {
        fn head(&mut self, _metric: MetricId, _bytes: &Bytes) -> Verdict {
            Verdict::Right
        }

        fn lost_head(&mut self, _metric: MetricId) {}

        fn block(&mut self, _key: &BlockKey, _bytes: &Bytes) -> Result<(), String> {
            Ok(())
        }

        fn expect(&mut self, _logged: HashMap<MetricId, Logged>) {}

        fn has_applied_others(&self) -> bool {
            false
        }

        fn missing(&mut self) -> Vec<(MetricId, String)> {
            Vec::new()
        }

        fn applied_max(&self) -> Position {
            Position(0)
        }

        fn metrics(&self) -> &[MetricId] {
            &[]
        }
    }

    #[tokio::test]
    async fn what_was_in_a_lost_file_of_the_log_is_not_found_lost_again() {
        let dir = tempfile::tempdir().unwrap();
        let options = LocalAggregatesOptions {
            segment_bytes: 1 << 16,
            dirty_bytes_max: 0,
            ..LocalAggregatesOptions::default()
        };
        let metrics = [1, 2].map(|id| MetricId(Uuid::from_u128(id)));
        let store = LocalAggregates::open(dir.path(), &options).unwrap();
        for metric in metrics {
            // Each in a file of its own.
            let write = MetricWrite::of_head(metric, vec![1; 40_000]);
            store.write(Fence::EVERYTHING, vec![write]).await.remove(0).unwrap();
            store.sync().await.unwrap();
        }
        drop(store);
        std::fs::remove_file(log_dir(dir.path()).join(segments::file_name(2))).unwrap();
        let disk = ReadOnlyDisk::new(Arc::default());
        let found = || check(&disk, dir.path(), &mut Content, &mut |_| {}).unwrap();
        let checked = found();
        assert!(checked.is_log_damaged);
        let assumptions = Assumptions { metrics: &metrics, missing: &[], is_replayed: true };
        repair(dir.path(), &checked, &assumptions).unwrap();
        assert!(!found().is_log_damaged);
        let store = LocalAggregates::open(dir.path(), &options).unwrap();
        assert_eq!(store.figures().damaged, 0);
        for head in store.read_heads(&metrics).await {
            assert_eq!(head.unwrap(), None, "measures are applied again from the start");
        }
    }

    /// Also of those without an entry beside the gap.
    #[test]
    fn every_metric_that_may_have_had_blocks_in_a_gap_is_marked() {
        let dir = tempfile::tempdir().unwrap();
        let metric = |id: u128| MetricId(Uuid::from_u128(id));
        let block = |id| {
            let (first, last) = (Timestamp::from_secs(0), Timestamp::from_secs(59));
            Key::block(&BlockKey { metric: metric(id), granularity: Timespan::from_secs(1), first, last })
        };
        let name = RunName { level: Level::Blocks, range: Range { low: 1, high: 1 } };
        let mut writer = RunWriter::create(Arc::new(LocalDisk), dir.path(), name).unwrap();
        for id in 1..=6 {
            writer.push(block(id), Kind::Value, b"block").unwrap();
        }
        writer.finish().unwrap();
        let quarantine = Arc::new(Quarantine::new(Arc::new(LocalDisk), dir.path().join("quarantine")));
        let run = Run::open(&LocalDisk, dir.path(), name, &quarantine).unwrap();
        let metrics: Vec<MetricId> = (1..=6).map(metric).collect();
        let gap = Gap { start: 100, end: 200, after: Some(block(2)), before: Some(block(5)) };
        let expected: Vec<Key> = (2..=5).map(|id| Key::loss(metric(id))).collect();
        assert_eq!(losses(&run, &gap, &metrics), expected);
    }
}
