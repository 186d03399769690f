//! Reads: first the indexes of the relevant segments, then the bytes, each in one round of concurrent
//! requests.
//!
//! The number of requests does not depend on the number of metrics: one for a segment's index, and one for
//! its heads, or one per wanted stretch, at most [`STRETCHES_MAX`]. Requests to different shards and segments
//! are concurrent.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::Arc,
};

use bytes::Bytes;
use futures_util::future::try_join_all;
use gnudi_model::MetricId;
use uuid::Uuid;

use super::{
    cache::Held,
    chain::Shard,
    manifest::{Manifest, SegmentEntry},
    requests::Requests,
    segment::{Index, Row},
};
use crate::aggregates::{
    BlockKey, BlockRange, Blocks, Result, StoreError,
    entry::Kind,
    holes::{Before, Holes},
    key::Key,
};

/// Most stretches of a segment that are read for one call.
pub const STRETCHES_MAX: usize = 16;
/// Gaps between entries up to this size are read with them.
const GAP_BYTES: u32 = 16 << 10;
/// If the wanted heads are at least 1/`ALL_HEADS_SHARE` of all heads' bytes, all are read and cached.
const ALL_HEADS_SHARE: u32 = 4;
/// How many times a read restarts because segments were merged meanwhile.
const TRIES: usize = 4;

/// Why a read of a shard was aborted.
pub enum Stop {
    /// A segment named by the manifest does not exist.
    Gone,
    Failed(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Stop::Failed(error)
    }
}

/// The attempts of a read, each with the newest manifest. A segment missing under the same manifest twice is
/// lost.
#[derive(Default)]
struct Tries {
    made: usize,
    before: Option<Uuid>,
}

impl Tries {
    fn is_last(&self, manifest: &Manifest) -> bool {
        self.before == Some(manifest.id)
    }

    fn again(&mut self, shard: &Shard, manifest: &Manifest) -> Result<()> {
        self.made += 1;
        self.before = Some(manifest.id);
        shard.invalidate();
        if self.made < TRIES {
            return Ok(());
        }
        Err(StoreError::Unavailable("segments are merged faster than they are read".to_owned()))
    }
}

type HeadAnswer = Result<Option<Bytes>>;

/// The indexes of the relevant parts of a manifest, by name.
type Indexes = HashMap<String, Arc<Index>>;

impl Requests {
    /// Reads from the newest manifest, and again if segments were merged meanwhile.
    pub(super) async fn of_newest<T, R: Future<Output = Result<T, Stop>>>(
        &self,
        shard: &Shard,
        read: impl Fn(Arc<Manifest>, bool) -> R,
    ) -> Result<T> {
        let mut tries = Tries::default();
        loop {
            let manifest = self.newest(shard).await?;
            match read(manifest.clone(), tries.is_last(&manifest)).await {
                Ok(found) => return Ok(found),
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Gone) => tries.again(shard, &manifest)?,
            }
        }
    }

    pub async fn read_heads(&self, shard: &Shard, metrics: &[MetricId]) -> Result<Vec<HeadAnswer>> {
        self.of_newest(shard, |manifest, last| async move { self.heads(&manifest, metrics, last).await })
            .await
    }

    pub async fn read_blocks(&self, shard: &Shard, ranges: &[BlockRange]) -> Result<Vec<Blocks>> {
        self.of_newest(shard, |manifest, last| async move { self.blocks(&manifest, ranges, last).await })
            .await
    }

    pub async fn list_blocks(&self, shard: &Shard, ranges: &[BlockRange]) -> Result<Vec<Vec<BlockKey>>> {
        self.of_newest(shard, |manifest, last| async move { self.block_keys(&manifest, ranges, last).await })
            .await
    }

    async fn heads(
        &self,
        manifest: &Manifest,
        metrics: &[MetricId],
        last: bool,
    ) -> Result<Vec<HeadAnswer>, Stop> {
        let indexes = self.indexes(manifest, metrics.iter().copied(), last).await?;
        let mut wanted: BTreeMap<&str, (&SegmentEntry, Vec<Row>)> = BTreeMap::new();
        let found: Vec<Head> = metrics.iter().map(|metric| find_head(manifest, &indexes, *metric)).collect();
        for head in &found {
            if let Head::At(part, row) = head {
                wanted.entry(&part.name).or_insert_with(|| (part, Vec::new())).1.push(*row);
            }
        }
        let stretches =
            try_join_all(wanted.into_values().map(|(part, rows)| self.fetch(part, rows, last))).await?;
        let stretches: HashMap<&str, Stretches> = stretches.into_iter().collect();
        let answer = |head: Head| match head {
            Head::None => Ok(None),
            Head::Unknown(part) => Err(StoreError::Damaged(self.place(&part.name))),
            Head::At(part, row) => self.open(part, &row, &stretches[part.name.as_str()]).map(Some),
        };
        Ok(found.into_iter().map(answer).collect())
    }

    async fn blocks(
        &self,
        manifest: &Manifest,
        ranges: &[BlockRange],
        last: bool,
    ) -> Result<Vec<Blocks>, Stop> {
        let indexes = self.indexes(manifest, ranges.iter().map(|range| range.metric), last).await?;
        let found: Vec<Found> = ranges.iter().map(|range| find_blocks(manifest, &indexes, range)).collect();
        let mut wanted: BTreeMap<&str, (&SegmentEntry, Vec<Row>)> = BTreeMap::new();
        for (part, row) in found.iter().flat_map(|found| found.rows.values()) {
            wanted.entry(&part.name).or_insert_with(|| (part, Vec::new())).1.push(*row);
        }
        let stretches =
            try_join_all(wanted.into_values().map(|(part, rows)| self.fetch(part, rows, last))).await?;
        let stretches: HashMap<&str, Stretches> = stretches.into_iter().collect();
        let open = |(found, range): (Found, &BlockRange)| {
            let mut blocks = Blocks { whole: Vec::with_capacity(found.rows.len()), ..Blocks::default() };
            for (key, (part, row)) in found.rows {
                match self.open(part, &row, &stretches[part.name.as_str()]) {
                    Ok(bytes) => blocks.whole.push((name(&key), bytes)),
                    Err(_) => blocks.damaged.push(format!("{} at {}", self.place(&part.name), row.offset)),
                }
            }
            blocks.damaged.extend(found.holes.places(range).map(|part| self.place(&part)));
            blocks
        };
        Ok(found.into_iter().zip(ranges).map(open).collect())
    }

    async fn block_keys(
        &self,
        manifest: &Manifest,
        ranges: &[BlockRange],
        last: bool,
    ) -> Result<Vec<Vec<BlockKey>>, Stop> {
        let indexes = self.indexes(manifest, ranges.iter().map(|range| range.metric), last).await?;
        let keys = |range| find_blocks(manifest, &indexes, range).rows.keys().map(name).collect();
        Ok(ranges.iter().map(keys).collect())
    }

    /// The indexes of all parts that may contain the metrics.
    async fn indexes(
        &self,
        manifest: &Manifest,
        metrics: impl Iterator<Item = MetricId>,
        last: bool,
    ) -> Result<Indexes, Stop> {
        let mut parts = BTreeMap::new();
        for metric in metrics {
            for part in manifest.runs.iter().flat_map(|run| run.parts_of(metric)) {
                parts.insert(part.name.as_str(), part);
            }
        }
        let load = parts.into_values().map(|part| async move {
            let index = self.index(part, last).await?;
            Ok::<_, Stop>((part.name.clone(), index))
        });
        Ok(try_join_all(load).await?.into_iter().collect())
    }

    /// `last`: a missing segment counts as lost.
    pub async fn index(&self, part: &SegmentEntry, last: bool) -> Result<Arc<Index>, Stop> {
        if let Some(index) = self.cache.get(&part.name).index {
            return Ok(index);
        }
        let start = u64::from(part.index_start);
        let index = match self.get_range(&part.name, start, part.bytes - start).await? {
            Some(rows) => {
                if let Some(index) = Index::parse(part, rows.clone()) {
                    index
                } else {
                    self.report("index of a segment", &part.name, start, &rows);
                    let segment = self.get(&part.name).await?.ok_or(Stop::Gone)?;
                    Index::rebuild(part, &segment)
                }
            }
            None if last => {
                self.report("segment, which is gone", &part.name, 0, &Bytes::new());
                return Ok(Arc::new(Index::gone(part)));
            }
            None => return Err(Stop::Gone),
        };
        let index = Arc::new(index);
        self.cache.add(&part.name, Held { index: Some(index.clone()), front: None });
        Ok(index)
    }

    /// The bytes of a segment that contain the rows.
    async fn fetch<'a>(
        &self,
        part: &'a SegmentEntry,
        mut rows: Vec<Row>,
        last: bool,
    ) -> Result<(&'a str, Stretches), Stop> {
        let front = self.cache.get(&part.name).front.unwrap_or_default();
        rows.retain(|row| row.end() as usize > front.len());
        rows.sort_unstable_by_key(|row| row.offset);
        let mut stretches = vec![(0, front)];
        let heads = rows.iter().filter(|row| row.end() <= part.heads_end);
        let heads_bytes: u32 = heads.map(|row| row.end() - row.offset).sum();
        let all_heads = heads_bytes > 0
            && u64::from(heads_bytes) * u64::from(ALL_HEADS_SHARE) >= u64::from(part.heads_end);
        let mut wanted: Vec<Range<u32>> = Vec::new();
        if all_heads {
            wanted.push(0..part.heads_end);
            rows.retain(|row| row.end() > part.heads_end);
        }
        wanted.extend(joined(&rows));
        let get = |range: Range<u32>| async move {
            match self.get_range(&part.name, range.start.into(), range.len() as u64).await? {
                // Without the bytes each of its entries counts as damaged.
                None if last => Ok((range.start, Bytes::new())),
                None => Err(Stop::Gone),
                Some(bytes) => Ok((range.start, bytes)),
            }
        };
        let fetched = try_join_all(wanted.into_iter().map(get)).await?;
        if all_heads {
            self.cache.add(&part.name, Held { index: None, front: Some(fetched[0].1.clone()) });
        }
        stretches.extend(fetched);
        stretches.sort_unstable_by_key(|(start, _)| *start);
        Ok((&part.name, Stretches(stretches)))
    }

    /// The value of a row; reports damage.
    fn open(&self, part: &SegmentEntry, row: &Row, stretches: &Stretches) -> Result<Bytes> {
        let entry = stretches.from(row);
        if row.kind == Kind::Value
            && let Some(value) = row.open(&entry)
        {
            return Ok(value);
        }
        // Entries marked as damaged were reported before they were merged.
        if row.kind == Kind::Value {
            let length = entry.len().min((row.end() - row.offset) as usize);
            self.report("entry", &part.name, row.offset.into(), &entry.slice(..length));
        }
        Err(StoreError::Damaged(format!("{} at {}", self.place(&part.name), row.offset)))
    }

    /// For merges: the entries of the rows, with damaged ones marked.
    pub async fn entries(
        &self,
        part: &SegmentEntry,
        rows: Vec<Row>,
        last: bool,
    ) -> Result<Vec<(Key, Kind, Bytes)>, Stop> {
        let (_, stretches) = self.fetch(part, rows.clone(), last).await?;
        let open = |row: Row| match row.kind {
            Kind::Value => match self.open(part, &row, &stretches) {
                Ok(value) => (row.key, Kind::Value, value),
                Err(_) => (row.key, Kind::Damaged, Bytes::new()),
            },
            kind => (row.key, kind, Bytes::new()),
        };
        Ok(rows.into_iter().map(open).collect())
    }
}

/// Stretches of a segment, by their start.
struct Stretches(Vec<(u32, Bytes)>);

impl Stretches {
    /// The bytes from the row's entry on.
    fn from(&self, row: &Row) -> Bytes {
        let has = |(start, bytes): &&(u32, Bytes)| {
            *start <= row.offset && u64::from(row.end()) <= u64::from(*start) + bytes.len() as u64
        };
        let stretch = self.0.iter().rev().find(has);
        stretch.map_or_else(Bytes::new, |(start, bytes)| bytes.slice((row.offset - start) as usize..))
    }
}

/// The ranges to read for rows sorted by offset: neighbours joined, at most [`STRETCHES_MAX`].
fn joined(rows: &[Row]) -> Vec<Range<u32>> {
    let mut gap = GAP_BYTES;
    loop {
        let mut joined: Vec<Range<u32>> = Vec::new();
        for row in rows {
            match joined.last_mut() {
                Some(last) if row.offset <= last.end.saturating_add(gap) => {
                    last.end = last.end.max(row.end());
                }
                _ => joined.push(row.offset..row.end()),
            }
        }
        if joined.len() <= STRETCHES_MAX {
            return joined;
        }
        gap = gap.saturating_mul(2);
    }
}

enum Head<'a> {
    None,
    Unknown(&'a SegmentEntry),
    At(&'a SegmentEntry, Row),
}

/// Searches the newest run first.
fn find_head<'a>(manifest: &'a Manifest, indexes: &Indexes, metric: MetricId) -> Head<'a> {
    for run in manifest.runs.iter().rev() {
        let parts = run.parts_of(metric);
        for part in parts {
            if let Some(row) = indexes[&part.name].find(&Key::head(metric)) {
                return match row.kind {
                    Kind::Tombstone => Head::None,
                    Kind::Value | Kind::Damaged => Head::At(part, row),
                };
            }
        }
        if let Some(part) = parts.iter().find(|part| indexes[&part.name].may_have_had(metric)) {
            return Head::Unknown(part);
        }
        if is_deleted(parts, indexes, metric) {
            return Head::None;
        }
    }
    Head::None
}

fn is_deleted(parts: &[SegmentEntry], indexes: &Indexes, metric: MetricId) -> bool {
    parts.iter().any(|part| indexes[&part.name].find(&Key::deletion(metric)).is_some())
}

/// The blocks of a range.
#[derive(Default)]
struct Found<'a> {
    rows: BTreeMap<Key, (&'a SegmentEntry, Row)>,
    /// Blocks that may be lost, with the names of the segments.
    holes: Holes,
}

/// Oldest first, newer blocks replacing older ones.
fn find_blocks<'a>(manifest: &'a Manifest, indexes: &Indexes, range: &BlockRange) -> Found<'a> {
    let mut found = Found::default();
    for run in &manifest.runs {
        let parts = run.parts_of(range.metric);
        if is_deleted(parts, indexes, range.metric) {
            found = Found::default();
        }
        for part in parts {
            for row in indexes[&part.name].blocks(range) {
                found.holes.later(&name(&row.key));
                match row.kind {
                    // A damaged block hides older ones, too.
                    Kind::Value | Kind::Damaged => drop(found.rows.insert(row.key, (part, row))),
                    Kind::Tombstone => drop(found.rows.remove(&row.key)),
                }
            }
        }
        // After the part's blocks: they are no later than those it lost.
        for part in parts {
            for (before, behind) in indexes[&part.name].missing_blocks(range) {
                found.holes.add(range, Before::Whole(before), Some(behind), part.name.clone());
            }
        }
    }
    if let Some(wide) = found.holes.wider(range) {
        found.holes = find_blocks(manifest, indexes, &wide).holes;
    }
    found
}

fn name(key: &Key) -> BlockKey {
    key.as_block().expect("only blocks are looked for")
}
