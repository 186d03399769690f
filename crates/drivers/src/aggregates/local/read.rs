//! Reads: from the recent layers first, then the runs, newest first.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use gnudi_model::MetricId;

use super::{
    Shared, State,
    recent::Recent,
    run::{Run, Scanner},
};
use crate::{
    aggregates::{
        BlockKey, BlockRange, Blocks, StoreError,
        key::{KEY_BYTES, Key},
        table::{
            Found,
            blocks::{self, TableBlocks, name},
        },
    },
    segments::{
        self, Location, Segment,
        frame::{ITEM_HEADER_BYTES, open_item},
    },
};

/// Where a head is, determined under the lock.
enum Head {
    Nowhere,
    Memory(Bytes),
    Log(Value),
    Damaged(Location),
    InRuns,
}

impl Head {
    fn in_log(&self) -> Option<&Value> {
        if let Head::Log(value) = self { Some(value) } else { None }
    }
}

/// A value in the log; holding the segment prevents its file from being recycled.
pub(super) struct Value {
    segment: Arc<Segment>,
    at: Location,
    length: u32,
}

type Block = blocks::Block<Value>;
type Collected = blocks::Collected<Value>;

fn in_log(block: &Block) -> Option<&Value> {
    if let Block::Newer(value) = block { Some(value) } else { None }
}

impl State {
    pub(super) fn layers(&self) -> impl DoubleEndedIterator<Item = &super::Layer> {
        self.frozen.iter().map(|layer| &**layer).chain([&self.active])
    }

    /// The memory of heads that are in no file.
    pub(super) fn dirty_bytes(&self) -> u64 {
        self.layers().map(|layer| layer.dirty().memory_bytes()).sum()
    }
}

impl Shared {
    pub(super) fn read_heads(&self, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>, StoreError>> {
        let (heads, runs) = {
            let state = self.state.read();
            let heads: Vec<Head> = metrics.iter().map(|metric| self.locate(&state, *metric)).collect();
            (heads, state.runs.with_heads().cloned().collect::<Vec<_>>())
        };
        let mut items = read_items(&heads.iter().map(Head::in_log).collect::<Vec<_>>());
        let in_runs = |index: &usize| matches!(heads[*index], Head::InRuns);
        let wanted: Vec<usize> = (0..metrics.len()).filter(in_runs).collect();
        let mut from_runs = read_run_heads(&runs, metrics, wanted);
        let read = |(index, (head, metric)): (usize, (Head, &MetricId))| match head {
            Head::Nowhere => Ok(None),
            Head::Memory(bytes) => Ok(Some(bytes)),
            Head::Log(value) => self.opened(&value, &Key::head(*metric), items[index].take()).map(Some),
            Head::Damaged(at) => Err(StoreError::Damaged(self.place(at))),
            Head::InRuns => from_runs[index].take().unwrap_or(Ok(None)),
        };
        heads.into_iter().zip(metrics).enumerate().map(read).collect()
    }

    fn locate(&self, state: &State, metric: MetricId) -> Head {
        match state.layers().rev().find_map(|layer| Some((layer, layer.head(metric)?))) {
            Some((_, Recent::Value(at, length))) => Head::Log(self.value(at, length)),
            Some((layer, Recent::Dirty(slot))) => {
                Head::Memory(Bytes::copy_from_slice(layer.dirty().head(slot)))
            }
            Some((_, Recent::Tombstone)) => Head::Nowhere,
            Some((_, Recent::Damaged(at))) => Head::Damaged(at),
            None => Head::InRuns,
        }
    }

    pub(super) fn value(&self, at: Location, length: u32) -> Value {
        let segment = self.segments.read().get(&at.segment).cloned();
        // A flush releases a segment only after it has removed the layer that refers to it.
        Value { segment: segment.expect("a recent value's segment is there"), at, length }
    }

    /// Validates a value of the log that may have been read with others; damage is reported and recorded.
    pub(super) fn opened(&self, value: &Value, key: &Key, item: Option<Bytes>) -> Result<Bytes, StoreError> {
        // A failed joint read may succeed for the item alone.
        item.map_or_else(|| self.read_value(value, key), |item| self.open_value(value, key, &item))
    }

    /// Reads and validates a value of the log; damage is reported and recorded.
    fn read_value(&self, value: &Value, key: &Key) -> Result<Bytes, StoreError> {
        let Value { segment, at, length } = value;
        match segment.read_item(at.offset, *length) {
            Ok(item) => self.open_value(value, key, &Bytes::from(item)),
            Err(error) => {
                if !self.quarantine.is_given_up(&segment.path, at.offset.into()) {
                    return Err(StoreError::Io(format!("{}: {error}", self.place(*at))));
                }
                // Its file must not be recycled.
                segment.unreadable.store(true, Ordering::Relaxed);
                Err(self.damaged(&format!("value, unreadable: {error}"), value, key, &[]))
            }
        }
    }

    /// Validates an item that was read.
    fn open_value(&self, value: &Value, key: &Key, item: &Bytes) -> Result<Bytes, StoreError> {
        let Value { segment, at, .. } = value;
        let offset = u64::from(at.offset);
        self.quarantine.was_read(&segment.path, offset..offset + 1);
        match open_item(item) {
            Some((_, payload)) if payload.starts_with(key.bytes()) => {
                Ok(item.slice(ITEM_HEADER_BYTES + KEY_BYTES..))
            }
            _ => Err(self.damaged("value", value, key, item)),
        }
    }

    /// Reports damage of a value of the log, and records it.
    fn damaged(&self, what: &str, value: &Value, key: &Key, bytes: &[u8]) -> StoreError {
        let Value { segment, at, .. } = value;
        self.quarantine.report(what, &segment.path, at.offset.into(), bytes);
        self.state.write().active.found_damaged(key, *at);
        StoreError::Damaged(self.place(*at))
    }

    /// File and offset, for messages. The file may be gone: a lost segment, or one that was flushed since.
    fn place(&self, at: Location) -> String {
        format!("{} at {}", self.log_dir.join(segments::file_name(at.segment)).display(), at.offset)
    }

    pub(super) fn read_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Blocks, StoreError>> {
        let collected = self.collect(ranges, true);
        let blocks = collected.iter().flatten().flat_map(|collected| collected.blocks.values());
        let mut items = read_items(&blocks.map(in_log).collect::<Vec<_>>()).into_iter();
        let open = |(range, collected): (_, Result<Collected, StoreError>)| {
            let collected = collected?;
            let items = items.by_ref().take(collected.blocks.len()).collect();
            self.open_blocks(range, collected, items)
        };
        ranges.iter().zip(collected).map(open).collect()
    }

    /// `items`: the blocks' items as far as they were read from the log, in order.
    fn open_blocks(
        &self,
        range: &BlockRange,
        collected: Collected,
        items: Vec<Option<Bytes>>,
    ) -> Result<Blocks, StoreError> {
        let Collected { blocks, holes, losses, .. } = collected;
        let mut found = Blocks { whole: Vec::with_capacity(blocks.len()), damaged: losses };
        found.damaged.extend(holes.places(range));
        for ((key, block), item) in blocks.into_iter().zip(items) {
            let bytes = match block {
                Block::Newer(value) => self.opened(&value, &key, item),
                Block::Value(bytes) => Ok(bytes),
                Block::Damaged(place) => Err(StoreError::Damaged(place)),
                Block::Unread => unreachable!("values were asked for"),
            };
            match bytes {
                Ok(bytes) => found.whole.push((name(&key), bytes)),
                // Already reported.
                Err(StoreError::Damaged(place)) => found.damaged.push(place),
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    pub(super) fn list_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Vec<BlockKey>, StoreError>> {
        let keys = |found: Collected| found.blocks.into_keys().map(|key| name(&key)).collect();
        self.collect(ranges, false).into_iter().map(|found| found.map(keys)).collect()
    }

    /// The newest version of each block in each range: the runs', overwritten by the recent layers'.
    fn collect(&self, ranges: &[BlockRange], values: bool) -> Vec<Result<Collected, StoreError>> {
        let (runs, recent) = {
            let state = self.state.read();
            let recent: Vec<_> = ranges.iter().map(|range| self.recent_blocks(&state, range)).collect();
            (state.runs.with_blocks().cloned().collect::<Vec<_>>(), recent)
        };
        let mut scanners: Vec<_> = runs.iter().map(|run| Scanner::new(run)).collect();
        let collect = |(range, recent)| self.collect_range(&mut scanners, range, recent, values);
        ranges.iter().zip(recent).map(collect).collect()
    }

    fn collect_range(
        &self,
        runs: &mut [Scanner<'_>],
        range: &BlockRange,
        recent: RecentBlocks,
        values: bool,
    ) -> Result<Collected, StoreError> {
        let mut found = Collected::default();
        for scanner in runs.iter_mut().filter(|_| !recent.deleted) {
            let run = scanner.run();
            if !run.may_contain(range.metric) {
                continue;
            }
            // An uncertain deletion is ignored: the blocks of a deleted metric are never read.
            if matches!(run.find_deletion(range.metric)?, Some(Found::Tombstone)) {
                found = Collected::default();
            }
            found.losses.extend(run.find_loss(range.metric)?);
            collect_run(scanner, range, values, &mut found)?;
        }
        found.losses.extend(recent.losses);
        recent.blocks.into_iter().for_each(|(key, block)| found.set(key, block));
        if let Some(wide) = found.holes.wider(range) {
            found.holes = self.collect(&[wide], false).pop().expect("one answer per range")?.holes;
        }
        Ok(found)
    }

    /// The recent layers' entries for a range's blocks, in the order to apply.
    fn recent_blocks(&self, state: &State, range: &BlockRange) -> RecentBlocks {
        let mut found = RecentBlocks::default();
        for layer in state.layers() {
            if layer.deletes(range.metric) {
                found = RecentBlocks { deleted: true, ..RecentBlocks::default() };
            }
            found.losses.extend(layer.loss(range.metric).map(|at| self.place(at)));
            for (key, recent) in layer.blocks(range) {
                // A removed block may overlap what replaced it, and follow it.
                if name(&key).first > range.to {
                    continue;
                }
                let block = match recent {
                    Recent::Value(at, length) => Some(Block::Newer(self.value(at, length))),
                    Recent::Damaged(at) => Some(Block::Damaged(self.place(at))),
                    Recent::Tombstone => None,
                    Recent::Dirty(_) => unreachable!("only heads are dirty"),
                };
                found.blocks.push((key, block));
            }
        }
        found
    }
}

/// How far apart items may be that are read at once, and how much is read at once, in bytes. A system call
/// costs as much as copying a page; mimalloc returns larger buffers to the system, which zeroes their pages
/// for the next one.
const GAP_BYTES: usize = 4 << 10;
const SPAN_BYTES: usize = 64 << 10;

impl Value {
    fn end(&self) -> usize {
        self.at.offset as usize + ITEM_HEADER_BYTES + self.length as usize
    }
}

/// Reads the items of values in the log, in the order given; `None` for no value and for read errors. A pass
/// writes the heads of its sack side by side and the next pass reads the same ones, so neighbours are read at
/// once.
pub(super) fn read_items(wanted: &[Option<&Value>]) -> Vec<Option<Bytes>> {
    let mut items = vec![None; wanted.len()];
    let mut values: Vec<(usize, &Value)> =
        wanted.iter().enumerate().filter_map(|(index, value)| Some((index, (*value)?))).collect();
    values.sort_unstable_by_key(|(_, value)| (value.at.segment, value.at.offset));
    let mut rest = &values[..];
    while let Some(((_, first), _)) = rest.split_first() {
        let (start, mut end, mut count) = (first.at.offset as usize, first.end(), 1);
        for (_, next) in &rest[1..] {
            let near = next.at.segment == first.at.segment && next.at.offset as usize <= end + GAP_BYTES;
            if !near || next.end() - start > SPAN_BYTES {
                break;
            }
            (end, count) = (end.max(next.end()), count + 1);
        }
        let (span, behind) = rest.split_at(count);
        if let Ok(bytes) = first.segment.read(first.at.offset, end - start) {
            let bytes = Bytes::from(bytes);
            for (index, value) in span {
                items[*index] = Some(bytes.slice(value.at.offset as usize - start..value.end() - start));
            }
        }
        rest = behind;
    }
    items
}

#[derive(Default)]
struct RecentBlocks {
    /// Whether the runs' entries are void.
    deleted: bool,
    /// Where blocks with unknown keys were lost.
    losses: Vec<String>,
    /// `None` for deleted blocks.
    blocks: Vec<(Key, Option<Block>)>,
}

/// The heads of `metrics[wanted]`, each from the newest run that has an entry for it; `None` for the others.
fn read_run_heads(
    runs: &[Arc<Run>],
    metrics: &[MetricId],
    mut wanted: Vec<usize>,
) -> Vec<Option<Result<Option<Bytes>, StoreError>>> {
    let mut heads = vec![None; metrics.len()];
    for run in runs.iter().rev() {
        let asked: Vec<usize> =
            wanted.iter().copied().filter(|index| run.may_contain(metrics[*index])).collect();
        let ids: Vec<MetricId> = asked.iter().map(|index| metrics[*index]).collect();
        for (index, found) in asked.into_iter().zip(run.find_heads(&ids)) {
            let head = match found {
                Ok(None) => continue,
                Ok(Some(Found::Value(bytes))) => Ok(Some(bytes)),
                Ok(Some(Found::Tombstone)) => Ok(None),
                Ok(Some(Found::Damaged(place))) => Err(StoreError::Damaged(place)),
                Err(error) => Err(error),
            };
            heads[index] = Some(head);
        }
        wanted.retain(|index| heads[*index].is_none());
        if wanted.is_empty() {
            break;
        }
    }
    heads
}

fn collect_run(
    scanner: &mut Scanner<'_>,
    range: &BlockRange,
    values: bool,
    found: &mut Collected,
) -> Result<(), StoreError> {
    let mut blocks = TableBlocks::new(&scanner.run().table, range, values);
    scanner.scan(&Key::bounds(range).0, &mut |met| blocks.visit(met, found))?;
    blocks.end(found);
    Ok(())
}

#[cfg(test)]
mod tests {
    use gnudi_model::{Timespan, Timestamp};
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::{super::run::RunWriter, *};
    use crate::{
        aggregates::{
            local::run::{Range, RunName},
            table::entry::Kind,
        },
        disk::LocalDisk,
        quarantine::Quarantine,
    };

    const METRICS: u128 = 40;
    const BLOCKS: i64 = 12;

    fn range(metric: u128, granularity: i64, from: i64, to: i64) -> BlockRange {
        BlockRange {
            metric: MetricId(Uuid::from_u128(metric << 96 | metric)),
            granularity: Timespan(granularity),
            from: Timestamp(from),
            to: Timestamp(to),
        }
    }

    /// A head and blocks of two granularities for each metric, over several pages.
    fn write(folder: &std::path::Path, name: RunName) {
        let mut entries: Vec<(Key, Vec<u8>)> = Vec::new();
        for metric in 0..METRICS {
            let metric = range(metric, 0, 0, 0).metric;
            entries.push((Key::head(metric), vec![1; 300]));
            for (granularity, block) in (0..2).flat_map(|of| (0..BLOCKS).map(move |block| (of, block))) {
                let (first, last) = (Timestamp(block * 10), Timestamp(block * 10 + 9));
                let granularity = Timespan(granularity);
                entries.push((Key::block(&BlockKey { metric, granularity, first, last }), vec![2; 500]));
            }
        }
        entries.sort_unstable_by_key(|(key, _)| *key);
        let mut writer = RunWriter::create(Arc::new(LocalDisk), folder, name).unwrap();
        for (key, value) in entries {
            writer.push(key, Kind::Value, &value).unwrap();
        }
        writer.finish().unwrap();
    }

    fn collected(scanner: &mut Scanner<'_>, range: &BlockRange) -> (Vec<String>, Vec<String>) {
        let mut found = Collected::default();
        collect_run(scanner, range, true, &mut found).unwrap();
        let block = |(key, block): (Key, Block)| match block {
            Block::Value(bytes) => format!("{key:?} of {} bytes", bytes.len()),
            Block::Damaged(place) => place,
            Block::Newer(_) | Block::Unread => unreachable!("the run has values"),
        };
        let blocks = found.blocks.into_iter().map(block).collect();
        (blocks, found.holes.places(range).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

        /// In any order, also in a damaged run.
        #[test]
        fn scans_that_share_a_page_find_what_each_finds_alone(
            mut scans in prop::collection::vec((0..METRICS, 0i64..2, -5i64..130, 0i64..130), 1..60),
            is_sorted: bool,
            damage in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let name = RunName::new(Range { low: 1, high: 1 });
            write(folder.path(), name);
            let path = folder.path().join(name.file());
            let mut bytes = std::fs::read(&path).unwrap();
            for at in damage {
                let at = at.index(bytes.len());
                bytes[at] ^= 0x55;
            }
            std::fs::write(&path, bytes).unwrap();
            let quarantine = Arc::new(Quarantine::new(Arc::new(LocalDisk), folder.path().join("damaged")));
            let run = Run::open(&LocalDisk, folder.path(), name, &quarantine).unwrap();
            if is_sorted {
                scans.sort_unstable();
            }
            let mut shared = Scanner::new(&run);
            for (metric, granularity, from, length) in scans {
                let range = range(metric, granularity, from, from + length);
                prop_assert_eq!(collected(&mut shared, &range), collected(&mut Scanner::new(&run), &range));
            }
        }
    }
}
