//! Reads: which tables may have what is wanted is known from their filters, and which pages from their indexes. The
//! pages are read in one round of concurrent requests, if no filter is wrong.
//!
//! The number of requests does not depend on the number of metrics: one for a table's index, and one for each span of
//! pages, of which there are few; one for both if the table is small.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    ops::ControlFlow,
    sync::Arc,
};

use bytes::Bytes;
use futures_util::future::try_join_all;
use gnudi_model::MetricId;

use super::{
    chain::Shard,
    manifest::{Manifest, Run, TableObject},
    requests::Requests,
    table::{ObjectTable, Stop},
};
use crate::{
    aggregates::{
        BlockKey, BlockRange, Blocks, Result, StoreError,
        key::Key,
        table::{
            Found, Pages, Scan, Wanted,
            blocks::{self, Block, TableBlocks, name},
        },
    },
    fence::Fence,
};

/// How many times a read restarts because tables were merged meanwhile.
const TRIES: usize = 4;

type HeadAnswer = Result<Option<Bytes>>;

/// Tables by name, and the pages of them that were read.
type PagesOf = HashMap<String, (Arc<ObjectTable>, Vec<Pages>)>;

/// A table, and the keys to find in it, each with the index of its metric.
type Asked<'a> = (&'a ObjectTable, Vec<(usize, Key)>);

type Collected = blocks::Collected<Infallible>;

impl Requests {
    /// Reads from the newest manifest, and again if tables were merged meanwhile.
    pub(super) async fn of_newest<T, R: Future<Output = Result<T, Stop>>>(
        &self,
        shard: &Shard,
        read: impl Fn(Arc<Manifest>, bool) -> R,
    ) -> Result<T> {
        self.of_known(shard, None, read).await
    }

    /// Like `of_newest`, but tries a known manifest first.
    async fn of_known<T, R: Future<Output = Result<T, Stop>>>(
        &self,
        shard: &Shard,
        mut known: Option<Arc<Manifest>>,
        read: impl Fn(Arc<Manifest>, bool) -> R,
    ) -> Result<T> {
        let mut before = None;
        for _ in 0..TRIES {
            let manifest = match known.take() {
                Some(manifest) => manifest,
                None => self.newest(shard).await?,
            };
            // A table missing under the same manifest twice is lost.
            let last = before == Some(manifest.id);
            match read(manifest.clone(), last).await {
                Ok(found) => return Ok(found),
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Gone) => {
                    before = Some(manifest.id);
                    shard.invalidate();
                }
            }
        }
        Err(StoreError::Unavailable("tables are merged faster than they are read".to_owned()))
    }

    /// With a fence: for the process that has raised it.
    pub async fn read_heads(
        &self,
        shard: &Shard,
        own: Option<Fence>,
        metrics: &[MetricId],
    ) -> Result<Vec<HeadAnswer>> {
        let known = match own {
            Some(fence) => self.owned(shard, fence).await?,
            None => None,
        };
        let read = |manifest: Arc<Manifest>, last| async move { self.heads(&manifest, metrics, last).await };
        self.of_known(shard, known, read).await
    }

    pub async fn read_blocks(&self, shard: &Shard, ranges: &[BlockRange]) -> Result<Vec<Result<Blocks>>> {
        self.of_newest(shard, |manifest, last| async move { self.blocks(&manifest, ranges, last).await })
            .await
    }

    pub async fn list_blocks(
        &self,
        shard: &Shard,
        ranges: &[BlockRange],
    ) -> Result<Vec<Result<Vec<BlockKey>>>> {
        self.of_newest(shard, |manifest, last| async move { self.block_keys(&manifest, ranges, last).await })
            .await
    }

    async fn heads(
        &self,
        manifest: &Manifest,
        metrics: &[MetricId],
        last: bool,
    ) -> Result<Vec<HeadAnswer>, Stop> {
        let runs: Vec<&Run> = manifest.runs.with_heads().rev().collect();
        let tables = self.tables(runs.iter().copied(), metrics.iter().copied(), last).await?;
        // The tables that may have the head, the newest first.
        let candidates = |metric: &MetricId| {
            let objects = runs.iter().flat_map(|run| run.tables_of(*metric));
            let tables = objects.map(|object| &tables[object.name.as_str()]);
            tables.filter(|table| table.may_contain(*metric)).collect::<Vec<_>>().into_iter()
        };
        let mut candidates: Vec<_> = metrics.iter().map(candidates).collect();
        let mut answers: Vec<Option<HeadAnswer>> = vec![None; metrics.len()];
        loop {
            let mut asked: BTreeMap<&str, Asked<'_>> = BTreeMap::new();
            for (of, answer) in answers.iter_mut().enumerate().filter(|(_, answer)| answer.is_none()) {
                match candidates[of].next() {
                    None => *answer = Some(Ok(None)),
                    Some(table) => {
                        let keys = table.head_keys(metrics[of]).map(|key| (of, key));
                        asked.entry(&table.site.object.name).or_insert((table, Vec::new())).1.extend(keys);
                    }
                }
            }
            if asked.is_empty() {
                return Ok(answers.into_iter().map(|answer| answer.unwrap_or(Ok(None))).collect());
            }
            let read = asked.into_values().map(|(table, keys)| async move {
                let wanted = table.wanted(keys.into_iter());
                let pages = self.pages(table, &wanted).await?;
                Ok::<_, Stop>((table, wanted, pages))
            });
            for (table, wanted, pages) in try_join_all(read).await? {
                for pages in &pages {
                    let start = wanted.partition_point(|wanted| wanted.page < pages.first);
                    let end = wanted.partition_point(|wanted| wanted.page <= pages.last);
                    table.find_all(pages, &wanted[start..end], |wanted, found| {
                        let answer = &mut answers[wanted.of];
                        // What was found for the head counts more than a deletion.
                        if wanted.key.is_head() || answer.is_none() {
                            *answer = Some(match found {
                                Found::Value(head) => Ok(Some(head)),
                                Found::Tombstone => Ok(None),
                                Found::Damaged(place) => Err(StoreError::Damaged(place)),
                            });
                        }
                    });
                }
            }
        }
    }

    async fn blocks(
        &self,
        manifest: &Manifest,
        ranges: &[BlockRange],
        last: bool,
    ) -> Result<Vec<Result<Blocks>>, Stop> {
        let found = self.collect(manifest, ranges, true, last).await?;
        let answer = |(found, range): (Collected, &BlockRange)| {
            let mut blocks = Blocks { whole: Vec::with_capacity(found.blocks.len()), damaged: found.losses };
            for (key, block) in found.blocks {
                match block {
                    Block::Value(bytes) => blocks.whole.push((name(&key), bytes)),
                    Block::Damaged(place) => blocks.damaged.push(place),
                    Block::Unread => unreachable!("values were asked for"),
                    Block::Newer(newer) => match newer {},
                }
            }
            blocks.damaged.extend(found.holes.places(range));
            Ok(blocks)
        };
        Ok(found.into_iter().zip(ranges).map(answer).collect())
    }

    async fn block_keys(
        &self,
        manifest: &Manifest,
        ranges: &[BlockRange],
        last: bool,
    ) -> Result<Vec<Result<Vec<BlockKey>>>, Stop> {
        let found = self.collect(manifest, ranges, false, last).await?;
        let keys = |found: Collected| Ok(found.blocks.into_keys().map(|key| name(&key)).collect());
        Ok(found.into_iter().map(keys).collect())
    }

    /// The newest version of each block in each range.
    async fn collect(
        &self,
        manifest: &Manifest,
        ranges: &[BlockRange],
        with_values: bool,
        last: bool,
    ) -> Result<Vec<Collected>, Stop> {
        let read = self.block_pages(manifest, ranges, last).await?;
        let found = ranges.iter().map(|range| collect_range(manifest, &read, range, with_values));
        let mut found: Vec<Collected> = found.collect();
        for (range, found) in ranges.iter().zip(&mut found) {
            if let Some(wide) = found.holes.wider(range) {
                let read = self.block_pages(manifest, &[wide], last).await?;
                found.holes = collect_range(manifest, &read, &wide, false).holes;
            }
        }
        Ok(found)
    }

    /// The pages that have the blocks of the ranges, and the marks of their metrics.
    async fn block_pages(
        &self,
        manifest: &Manifest,
        ranges: &[BlockRange],
        last: bool,
    ) -> Result<PagesOf, Stop> {
        let metrics = ranges.iter().map(|range| range.metric);
        let tables = self.tables(manifest.runs.with_blocks(), metrics, last).await?;
        // A merge into the oldest run of blocks drops tombstones. In the others one may lie behind blocks that begin after
        // the range.
        let oldest = manifest.runs.blocks.first();
        let is_oldest =
            |name: &str| oldest.is_some_and(|run| run.tables.iter().any(|table| table.name == name));
        let read = tables.into_iter().map(|(name, table)| (name, table, is_oldest(name)));
        let read = read.map(|(name, table, is_oldest)| async move {
            let mut wanted: Vec<Wanted> = Vec::new();
            for (of, range) in ranges.iter().enumerate().filter(|(_, range)| table.may_contain(range.metric))
            {
                let (low, high) = Key::bounds(range);
                let (_, first) = Scan::new(&table.index, low);
                let end = if is_oldest {
                    table.index.last_page_of(range)
                } else {
                    table.index.page_of(&high).unwrap_or(0)
                };
                let pages = first..=end.max(first);
                wanted.extend(pages.map(|page| Wanted { page, key: low, of }));
                if table.index.marks > 0 {
                    let marks = [Key::deletion(range.metric), Key::loss(range.metric)];
                    wanted.extend(table.wanted(marks.into_iter().map(|key| (of, key))));
                }
            }
            wanted.retain(|wanted| wanted.page < table.index.pages.len());
            wanted.sort_unstable();
            let pages = self.pages(&table, &wanted).await?;
            Ok::<_, Stop>((name.to_owned(), (table, pages)))
        });
        Ok(try_join_all(read).await?.into_iter().collect())
    }

    /// All tables that may contain the metrics, by name.
    async fn tables<'a>(
        &self,
        runs: impl Iterator<Item = &'a Run>,
        metrics: impl Iterator<Item = MetricId> + Clone,
        last: bool,
    ) -> Result<HashMap<&'a str, Arc<ObjectTable>>, Stop> {
        let mut objects: BTreeMap<&str, &TableObject> = BTreeMap::new();
        for run in runs {
            for object in metrics.clone().flat_map(|metric| run.tables_of(metric)) {
                objects.insert(&object.name, object);
            }
        }
        let load = objects
            .into_iter()
            .map(|(name, object)| async move { Ok::<_, Stop>((name, self.table(object, last).await?)) });
        Ok(try_join_all(load).await?.into_iter().collect())
    }
}

/// Oldest first, newer blocks replacing older ones.
fn collect_range(manifest: &Manifest, read: &PagesOf, range: &BlockRange, with_values: bool) -> Collected {
    let mut found = Collected::default();
    for run in manifest.runs.with_blocks() {
        let tables = run.tables_of(range.metric).iter().filter_map(|object| read.get(&object.name));
        let tables: Vec<_> = tables.filter(|(table, _)| table.may_contain(range.metric)).collect();
        let deletes = |(table, pages): &&&(Arc<ObjectTable>, Vec<Pages>)| {
            matches!(find(table, pages, Key::deletion(range.metric)), Some(Found::Tombstone))
        };
        // An uncertain deletion is ignored: the blocks of a deleted metric are never read.
        if tables.iter().any(|table| deletes(&table)) {
            found = Collected::default();
        }
        for (table, pages) in &tables {
            collect_table(table, pages, range, with_values, &mut found);
        }
    }
    found
}

fn collect_table(
    table: &ObjectTable,
    pages: &[Pages],
    range: &BlockRange,
    with_values: bool,
    found: &mut Collected,
) {
    let mut blocks = TableBlocks::new(table, range, with_values);
    let (mut scan, mut page) = Scan::new(&table.index, Key::bounds(range).0);
    let mut visited = ControlFlow::Continue(());
    while let Some(pages) = pages.iter().find(|pages| (pages.first..=pages.last).contains(&page)) {
        let from = (table.index.page_start(page) - pages.start) as usize;
        page = pages.last + 1;
        visited = scan.visit(table, pages, from, &mut |met| blocks.visit(met, found));
        if visited.is_break() {
            break;
        }
    }
    if visited.is_continue() && page >= table.index.pages.len() {
        scan.end(table, &mut |met| blocks.visit(met, found));
    }
    blocks.end(found);
}

/// The entry for a key, from the pages that were read.
fn find(table: &ObjectTable, pages: &[Pages], key: Key) -> Option<Found> {
    let wanted = table.wanted([(0, key)].into_iter());
    let page = wanted.first()?.page;
    let pages = pages.iter().find(|pages| (pages.first..=pages.last).contains(&page))?;
    let mut found = None;
    table.find_all(pages, &wanted, |_, entry| found = Some(entry));
    found
}
