//! A chunk of one shard's metrics: compares both stores, and copies what differs.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bytes::Bytes;
use gnudi_model::{MetricId, Timespan, Timestamp};

use super::{Depth, Report, Transfer};
use crate::aggregates::{BlockKey, BlockRange, Blocks, MetricWrite, Movable, StoreError};

/// The granularity of raw points in block keys.
const RAW: Timespan = Timespan(0);
/// Blocks read by one call.
const READ_BLOCKS_MAX: usize = 256;
/// Bytes buffered before they are written.
const WRITE_BYTES_MAX: usize = 4 << 20;

/// A metric that may differ.
struct Suspect {
    metric: MetricId,
    head: Bytes,
    /// Of its blocks in either store.
    granularities: BTreeSet<Timespan>,
    /// Whether the target differs: at first whether the heads differ.
    differs: bool,
    /// The source's blocks to compare or copy.
    wanted: Vec<BlockKey>,
    /// The target's blocks that the source does not have.
    expired: Vec<BlockKey>,
    /// Whether one of its blocks is damaged in the source.
    is_damaged: bool,
}

/// Blocks of a metric that are read together.
struct Piece<'a> {
    suspect: usize,
    keys: &'a [BlockKey],
    /// All keys of the metric, of which these begin at `start`.
    all: &'a [BlockKey],
    start: usize,
    /// Of this metric.
    is_last: bool,
}

/// Pending writes, by metric.
#[derive(Default)]
struct Batch {
    writes: Vec<MetricWrite>,
    bytes: usize,
}

impl Transfer {
    pub(super) async fn chunk(&self, metrics: &[MetricId], depth: Depth) -> Result<Report, StoreError> {
        let mut report = Report { metrics: metrics.len() as u64, ..Report::default() };
        let mut suspects = self.suspects(metrics, depth, &mut report).await?;
        self.list(&mut suspects, depth).await?;
        let wanted: Vec<Vec<BlockKey>> =
            suspects.iter_mut().map(|suspect| std::mem::take(&mut suspect.wanted)).collect();
        let mut batch = Batch::default();
        for group in groups(&wanted) {
            let mut differing = self.differing(&group, depth, &mut suspects, &mut report).await?;
            for piece in group {
                let suspect = &mut suspects[piece.suspect];
                let blocks = piece.keys.iter().filter_map(|key| differing.remove_entry(key)).collect();
                self.stage(suspect, blocks, piece.is_last, depth, &mut batch, &mut report);
                if batch.bytes >= WRITE_BYTES_MAX {
                    self.flush(&mut batch).await?;
                }
            }
        }
        self.flush(&mut batch).await?;
        Ok(report)
    }

    /// Reads the heads, and selects the metrics to compare. Removes from the target metrics that the source
    /// no longer has, and those without a head that lists their granularities: remains of an interrupted
    /// copy.
    async fn suspects(
        &self,
        metrics: &[MetricId],
        depth: Depth,
        report: &mut Report,
    ) -> Result<Vec<Suspect>, StoreError> {
        let heads = self.source.read_heads(metrics).await;
        let copies = self.target.read_heads(metrics).await;
        let (mut suspects, mut removed) = (Vec::new(), Vec::new());
        for ((&metric, head), copy) in metrics.iter().zip(heads).zip(copies) {
            let copy = match copy {
                Ok(copy) => copy,
                Err(StoreError::Damaged(_)) => Some(Bytes::new()),
                Err(error) => return Err(error),
            };
            let head = match head {
                Ok(head) => head,
                Err(StoreError::Damaged(place)) => {
                    report.damage(place);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let Some(head) = head else {
                removed.extend(copy.map(|_| metric));
                continue;
            };
            let differs = copy.as_ref() != Some(&head);
            if !differs && (depth == Depth::Changes || self.was_compared(metric, &head)) {
                continue;
            }
            let of_copy = copy.as_ref().map(self.granularities).transpose()?;
            if of_copy == Some(None) {
                removed.push(metric);
            }
            let Some(of_head) = (self.granularities)(&head)? else {
                report.damage(format!("the head of {metric} in {}", self.source.place()));
                continue;
            };
            let granularities = of_head.into_iter().chain(of_copy.flatten().unwrap_or_default()).chain([RAW]);
            suspects.push(Suspect {
                metric,
                head,
                granularities: granularities.collect(),
                differs,
                wanted: Vec::new(),
                expired: Vec::new(),
                is_damaged: false,
            });
        }
        if !removed.is_empty() {
            self.target.delete(self.fence, &removed).await.into_iter().collect::<Result<(), _>>()?;
            report.metrics_removed += removed.len() as u64;
        }
        Ok(suspects)
    }

    fn was_compared(&self, metric: MetricId, head: &Bytes) -> bool {
        self.compared.lock().get(&metric) == Some(&crc_fast::crc32_iscsi(head))
    }

    /// Lists the suspects' blocks in both stores.
    async fn list(&self, suspects: &mut [Suspect], depth: Depth) -> Result<(), StoreError> {
        let mut ranges = Vec::new();
        let mut owners = Vec::new();
        for (at, suspect) in suspects.iter().enumerate() {
            for &granularity in &suspect.granularities {
                ranges.push(BlockRange::all(suspect.metric, granularity));
                owners.push(at);
            }
        }
        let names = self.source.list_blocks(&ranges).await;
        let copies = self.target.list_blocks(&ranges).await;
        for ((owner, names), copies) in owners.into_iter().zip(names).zip(copies) {
            let (names, copies) = (names?, copies?);
            let is_there = |key: &BlockKey| copies.binary_search_by_key(&order(key), order).is_ok();
            let known: BTreeSet<BlockKey> = names.iter().copied().collect();
            let suspect = &mut suspects[owner];
            suspect.expired.extend(copies.iter().filter(|key| !known.contains(key)));
            let wanted = names.iter().filter(|key| depth == Depth::Everything || !is_there(key));
            suspect.wanted.extend(wanted);
        }
        Ok(())
    }

    /// The blocks that the target lacks or that differ.
    async fn differing(
        &self,
        group: &[Piece<'_>],
        depth: Depth,
        suspects: &mut [Suspect],
        report: &mut Report,
    ) -> Result<BTreeMap<BlockKey, Bytes>, StoreError> {
        let owned = group.iter().flat_map(|piece| {
            let ranges = match depth {
                Depth::Changes => ranges(piece.keys),
                Depth::Everything => seamless_ranges(piece, &suspects[piece.suspect]),
            };
            ranges.into_iter().map(|range| (piece.suspect, range))
        });
        let (owners, ranges): (Vec<usize>, Vec<BlockRange>) = owned.unzip();
        let (mut blocks, damaged) = read(&*self.source, &ranges).await?;
        let wanted: HashSet<&BlockKey> = group.iter().flat_map(|piece| piece.keys).collect();
        blocks.retain(|key, _| wanted.contains(key));
        for (at, place) in damaged {
            suspects[owners[at]].is_damaged = true;
            report.damage(place);
        }
        if depth == Depth::Everything {
            let (copies, _) = read(&*self.target, &ranges).await?;
            blocks.retain(|key, bytes| copies.get(key) != Some(bytes));
        }
        Ok(blocks)
    }

    /// Adds a metric's differing blocks to the batch, with the head in the last piece.
    fn stage(
        &self,
        suspect: &mut Suspect,
        blocks: Vec<(BlockKey, Bytes)>,
        is_last: bool,
        depth: Depth,
        batch: &mut Batch,
        report: &mut Report,
    ) {
        let metric = suspect.metric;
        suspect.differs |= !blocks.is_empty() || !suspect.expired.is_empty();
        if is_last && !suspect.differs {
            if depth == Depth::Everything && !suspect.is_damaged {
                self.compared.lock().insert(metric, crc_fast::crc32_iscsi(&suspect.head));
                report.metrics_compared += 1;
            }
            return;
        }
        if !is_last && blocks.is_empty() {
            return;
        }
        report.blocks_written += blocks.len() as u64;
        report.metrics_written += u64::from(is_last);
        // With the first blocks, so that no block is beside one that it overlaps.
        let expired = std::mem::take(&mut suspect.expired);
        // Without a head a new attempt removes these blocks.
        let head = if is_last { suspect.head.clone() } else { Bytes::new() };
        let bytes = head.len() + blocks.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        report.bytes_written += bytes as u64;
        batch.bytes += bytes;
        batch.writes.push(MetricWrite { metric, blocks, expired, head });
    }

    async fn flush(&self, batch: &mut Batch) -> Result<(), StoreError> {
        let Batch { writes, .. } = std::mem::take(batch);
        if writes.is_empty() {
            return Ok(());
        }
        self.target.write(self.fence, writes).await.into_iter().collect()
    }
}

/// Cuts the metrics' blocks into pieces, and groups small ones.
fn groups(wanted: &[Vec<BlockKey>]) -> Vec<Vec<Piece<'_>>> {
    let mut groups: Vec<Vec<Piece<'_>>> = Vec::new();
    let mut room = 0;
    for (suspect, all) in wanted.iter().enumerate() {
        let cuts = all.len().div_ceil(READ_BLOCKS_MAX).max(1);
        for cut in 0..cuts {
            let start = cut * READ_BLOCKS_MAX;
            let keys = &all[start..all.len().min(start + READ_BLOCKS_MAX)];
            if groups.is_empty() || room < keys.len() {
                groups.push(Vec::new());
                room = READ_BLOCKS_MAX;
            }
            room -= keys.len();
            let piece = Piece { suspect, keys, all, start, is_last: cut + 1 == cuts };
            groups.last_mut().expect("there is one").push(piece);
        }
    }
    groups
}

/// Blocks, and damaged places with the index of their range.
async fn read(
    store: &dyn Movable,
    ranges: &[BlockRange],
) -> Result<(BTreeMap<BlockKey, Bytes>, Vec<(usize, String)>), StoreError> {
    let (mut blocks, mut places) = (BTreeMap::new(), Vec::new());
    for (at, found) in store.read_blocks(ranges).await.into_iter().enumerate() {
        let Blocks { whole, damaged } = Blocks::of_answer(found)?;
        blocks.extend(whole);
        places.extend(damaged.into_iter().map(|place| (at, place)));
    }
    Ok((blocks, places))
}

/// One range per granularity for sorted keys.
fn ranges(keys: &[BlockKey]) -> Vec<BlockRange> {
    let of_granularity = keys.chunk_by(|one, other| one.granularity == other.granularity);
    let range = |keys: &[BlockKey]| {
        let BlockKey { metric, granularity, first: from, .. } = keys[0];
        let to = keys.iter().map(|key| key.last).max().expect("chunks have keys");
        BlockRange { metric, granularity, from, to }
    };
    of_granularity.map(range).collect()
}

/// Like [`ranges`], for all keys of a metric: its pieces' ranges leave no time out, so that the source also reports
/// lost blocks of which it does not know the keys.
fn seamless_ranges(piece: &Piece<'_>, suspect: &Suspect) -> Vec<BlockRange> {
    let mut ranges = ranges(piece.keys);
    for range in &mut ranges {
        let granularity = range.granularity;
        if piece.all[..piece.start].last().is_none_or(|key| key.granularity != granularity) {
            range.from = Timestamp(i64::MIN);
        }
        let behind = piece.all.get(piece.start + piece.keys.len());
        let behind = behind.filter(|key| key.granularity == granularity);
        range.to =
            behind.map_or(Timestamp::MAX, |key| Timestamp(key.first.0.saturating_sub(1)).max(range.to));
    }
    if piece.is_last {
        let has_none = |granularity: &&Timespan| piece.all.iter().all(|key| key.granularity != **granularity);
        let empty = suspect.granularities.iter().filter(has_none);
        ranges.extend(empty.map(|granularity| BlockRange::all(suspect.metric, *granularity)));
    }
    ranges
}

fn order(key: &BlockKey) -> (Timestamp, Timestamp) {
    (key.first, key.last)
}
