//! Late points of policies that accept them: a pass reads the affected blocks and replaces them.
//! `gnudi_series::head` computes the new ones.
//!
//! Processes groups of metrics, with the same number of calls to the store for each group. A damaged block,
//! or a bug, costs the metric its late points and nothing else; at a block of a newer program the pass fails.

use std::ops::Range;

use bytes::Bytes;
use gnudi_drivers::aggregates::{BlockKey, BlockRange, Blocks};
use gnudi_model::{MetricId, Timespan, Timestamp};
use gnudi_series::{
    head::{BlockSpan, Head, LateRows, StoredBlock},
    raw,
};

use crate::{
    EngineError, Result, damage,
    figures::Figures,
    folding::{Writing, attempt, writing},
    processor::{Group, Processor},
};

/// Metrics whose blocks are listed at once.
const METRICS_AT_ONCE: usize = 32;

/// Limits memory: blocks of raw points that are decoded at once, of 1,024 points or less. One metric may have more.
const RAW_BLOCKS_AT_ONCE: usize = 4096;

/// Blocks that were read.
type Found = Vec<(BlockKey, Bytes)>;

/// The spans of a metric's blocks, by granularity.
pub(crate) struct Names {
    metric: MetricId,
    of: Vec<(Timespan, Vec<BlockSpan>)>,
}

/// A metric whose late points are being merged.
struct Merging<'a> {
    group: &'a Group,
    /// The folded head, with its late points.
    folded: Head,
    /// The same with the late points merged, or why they are dropped.
    merged: Result<(Head, LateRows), String>,
    names: Names,
    /// Its blocks of raw points to read.
    raw_needs: Vec<Range<usize>>,
}

impl Processor {
    /// The writes of metrics after merging their late points.
    pub(crate) async fn merge_late(&self, mut heads: Vec<(&Group, Head)>) -> Result<Vec<Writing>> {
        let mut written = Vec::with_capacity(heads.len());
        while !heads.is_empty() {
            let rest = heads.split_off(heads.len().min(METRICS_AT_ONCE));
            let mut metrics = self.list_needs(std::mem::replace(&mut heads, rest)).await?;
            while !metrics.is_empty() {
                let rest = metrics.split_off(fitting(metrics.iter().map(Merging::raw_blocks)));
                let mut merging = std::mem::replace(&mut metrics, rest);
                // Merge into the raw points, then replace the buckets that change.
                self.with_blocks(&mut merging, Merging::raw_ranges, Merging::merge).await?;
                self.with_blocks(&mut merging, Merging::row_ranges, Merging::replace).await?;
                written.extend(merging.into_iter().map(|metric| self.finish_late(metric)));
            }
        }
        Ok(written)
    }

    /// Lists all blocks.
    async fn list_needs<'a>(&self, heads: Vec<(&'a Group, Head)>) -> Result<Vec<Merging<'a>>> {
        let groups: Vec<&Group> = heads.iter().map(|(group, _)| *group).collect();
        let names = self.list_names(&groups).await?;
        let metrics = heads.into_iter().zip(names).map(|((group, folded), names)| {
            let raw_needs = folded.late_raw_needs(&group.layout, names.spans(raw::GRANULARITY));
            Merging { group, merged: Err(String::new()), folded, names, raw_needs }
        });
        Ok(metrics.collect())
    }

    /// Reads the needed blocks of all metrics, and applies a step to each metric with its own.
    async fn with_blocks<'a>(
        &self,
        metrics: &mut [Merging<'a>],
        needed: fn(&Merging<'a>) -> Vec<BlockRange>,
        step: fn(&mut Merging<'a>, Result<Found, String>) -> Result<()>,
    ) -> Result<()> {
        let needed: Vec<Vec<BlockRange>> = metrics.iter().map(needed).collect();
        let found = self.read_each(&needed).await?;
        metrics.iter_mut().zip(found).try_for_each(|(metric, found)| step(metric, found))
    }

    /// The spans of all blocks of each metric, in one call to the store.
    pub(crate) async fn list_names(&self, groups: &[&Group]) -> Result<Vec<Names>> {
        let of = |group: &&Group| {
            let granularities = group.layout.granularities().chain([raw::GRANULARITY]);
            (group.metric, granularities.collect::<Vec<_>>())
        };
        self.list_names_of(&groups.iter().map(of).collect::<Vec<_>>()).await
    }

    /// The spans of blocks of these granularities of each metric, in one call to the store.
    pub(crate) async fn list_names_of(&self, metrics: &[(MetricId, Vec<Timespan>)]) -> Result<Vec<Names>> {
        let (from, to) = (Timestamp(i64::MIN), Timestamp::MAX);
        let mut all = Vec::new();
        for (metric, granularities) in metrics {
            let range =
                |granularity: &Timespan| BlockRange { metric: *metric, granularity: *granularity, from, to };
            all.extend(granularities.iter().map(range));
        }
        let mut listed = self.store.list_blocks(&all).await.into_iter();
        let mut names = Vec::with_capacity(metrics.len());
        for (metric, granularities) in metrics {
            let mut of = Vec::new();
            for granularity in granularities {
                let keys = listed.next().expect("one answer for each range")?;
                of.push((*granularity, keys.iter().map(|key| (key.first, key.last)).collect()));
            }
            names.push(Names { metric: *metric, of });
        }
        Ok(names)
    }

    /// The blocks of ranges of a metric.
    ///
    /// # Errors
    /// If some of them are lost.
    pub(crate) async fn read_some(&self, metric: MetricId, ranges: Vec<BlockRange>) -> Result<Found> {
        let found = self.read_each(&[ranges]).await?.pop().expect("one answer per list");
        found.map_err(|reason| EngineError::Damaged { metric, reason })
    }

    /// For each list of ranges their blocks, or why some of them are lost; in one call to the store.
    async fn read_each(&self, ranges: &[Vec<BlockRange>]) -> Result<Vec<Result<Found, String>>> {
        let all: Vec<BlockRange> = ranges.iter().flatten().copied().collect();
        let mut answers = self.store.read_blocks(&all).await.into_iter();
        let mut found = Vec::with_capacity(ranges.len());
        for ranges in ranges {
            let mut blocks = Ok(Vec::new());
            for answer in answers.by_ref().take(ranges.len()) {
                let Blocks { whole, damaged } = Blocks::of_answer(answer)?;
                match (&mut blocks, damaged.into_iter().next()) {
                    (_, Some(place)) => blocks = Err(format!("blocks are damaged ({place})")),
                    (Ok(blocks), None) => blocks.extend(whole),
                    (Err(_), None) => {}
                }
            }
            found.push(blocks);
        }
        Ok(found)
    }

    fn finish_late(&self, metric: Merging<'_>) -> Writing {
        let Merging { group, mut folded, merged, .. } = metric;
        let merged = merged.and_then(|(mut head, _)| attempt(|| writing(&mut head, group)));
        merged.unwrap_or_else(|reason| {
            let (metric, points) = (group.metric, folded.drop_late());
            tracing::error!(%metric, points, reason, "late points cannot be merged: dropped");
            Figures::add(&self.figures.measures_set_aside, points as u64);
            writing(&mut folded, group)
        })
    }
}

impl Names {
    pub(crate) fn spans(&self, granularity: Timespan) -> &[BlockSpan] {
        let of = self.of.iter().find(|(of, _)| *of == granularity);
        of.map_or(&[], |(_, spans)| spans)
    }

    /// The range of these blocks of a granularity.
    pub(crate) fn range(&self, granularity: Timespan, blocks: Range<usize>) -> Option<BlockRange> {
        let spans = &self.spans(granularity)[blocks];
        let (from, to) = (spans.first()?.0, spans.last()?.1);
        Some(BlockRange { metric: self.metric, granularity, from, to })
    }

    /// The ranges of blocks with changed buckets.
    pub(crate) fn ranges_of(&self, rows: &LateRows) -> Vec<BlockRange> {
        let ranges = rows.granularities().flat_map(|granularity| {
            let needed = rows.needs(granularity, self.spans(granularity));
            let runs = needed.chunk_by(|a, b| a + 1 == *b);
            runs.filter_map(|run| self.range(granularity, run[0]..run[run.len() - 1] + 1)).collect::<Vec<_>>()
        });
        ranges.collect()
    }
}

impl Merging<'_> {
    fn raw_blocks(&self) -> usize {
        self.raw_needs.iter().map(ExactSizeIterator::len).sum()
    }

    fn raw_ranges(&self) -> Vec<BlockRange> {
        let range = |needed: &Range<usize>| self.names.range(raw::GRANULARITY, needed.clone());
        self.raw_needs.iter().filter_map(range).collect()
    }

    fn row_ranges(&self) -> Vec<BlockRange> {
        self.merged.as_ref().map_or_else(|_| Vec::new(), |(_, rows)| self.names.ranges_of(rows))
    }

    fn merge(&mut self, found: Result<Found, String>) -> Result<()> {
        let mut head = self.folded.clone();
        let merged =
            found.and_then(|blocks| attempt(|| head.merge_late(&self.group.layout, &refer(&blocks))));
        self.merged = damage::of_blocks(merged)?.map(|rows| (head, rows));
        Ok(())
    }

    fn replace(&mut self, found: Result<Found, String>) -> Result<()> {
        let merged = std::mem::replace(&mut self.merged, Err(String::new()));
        let replaced = merged.and_then(|(mut head, rows)| {
            let blocks = found?;
            let set = attempt(|| head.set_late_rows(&self.group.layout, &rows, &refer(&blocks)))?;
            Ok(set.map(|()| (head, rows)))
        });
        self.merged = damage::of_blocks(replaced)?;
        Ok(())
    }
}

/// How many of the first metrics, of these numbers of blocks, are merged at once.
fn fitting(blocks: impl Iterator<Item = usize>) -> usize {
    let mut total = 0;
    let fits = |blocks: &usize| {
        total += blocks;
        total <= RAW_BLOCKS_AT_ONCE
    };
    blocks.take_while(fits).count().max(1)
}

pub(crate) fn refer(blocks: &[(BlockKey, Bytes)]) -> Vec<StoredBlock<'_>> {
    blocks
        .iter()
        .map(|(key, bytes)| StoredBlock { granularity: key.granularity, span: (key.first, key.last), bytes })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use gnudi_drivers::{
        aggregates::{AggregateStore as _, Fence, MetricWrite, memory::MemoryAggregates},
        incoming::{Append as _, Batch, memory::MemoryIncoming},
    };
    use gnudi_indexer::{ArchivePolicies as _, MemoryIndexer, Metrics as _, NewMetric};
    use gnudi_model::{AggregationMethod, ArchivePolicy, ArchivePolicyItem, Measure, SackCount, Statistic};

    use super::*;
    use crate::{Engine, damage::tests::newer};

    #[test]
    fn metrics_with_many_blocks_are_merged_by_themselves() {
        let fitting = |blocks: &[usize]| fitting(blocks.iter().copied());
        assert_eq!(fitting(&[1, 2, 0]), 3);
        assert_eq!(fitting(&[RAW_BLOCKS_AT_ONCE, 0, 1]), 2);
        assert_eq!(fitting(&[RAW_BLOCKS_AT_ONCE + 1, 0]), 1);
    }

    #[tokio::test]
    async fn late_points_wait_for_a_program_that_knows_their_block() {
        let (metric, minute) = (MetricId(uuid::Uuid::from_u128(7)), Timespan::from_secs(60));
        let (definition, sum) =
            (vec![ArchivePolicyItem::unlimited(minute)], AggregationMethod::new(Statistic::Sum));
        let policy = ArchivePolicy::new("patient".to_owned(), 0, definition, [sum].into()).unwrap();
        let indexer = Arc::new(MemoryIndexer::default());
        let policy = ArchivePolicy { recomputes_late: true, ..policy };
        indexer.create_archive_policy(policy).await.unwrap();
        let new = NewMetric::new(metric, "admin", "patient", Timestamp::EPOCH);
        indexer.create_metrics(vec![new]).await.remove(0).unwrap();
        let incoming = Arc::new(MemoryIncoming::new(SackCount::DEFAULT, u64::MAX));
        let store = Arc::new(MemoryAggregates::default());
        let engine = Engine::new(indexer, incoming.clone(), store.clone(), || Timestamp::EPOCH);
        let refresh = async || engine.refresh(&[metric], Duration::from_secs(10)).await;
        let post = async |minutes: Range<i64>| {
            let point = |at| Measure { timestamp: Timestamp::from_secs(60 * at), value: 1.0 };
            let points: Vec<Measure> = minutes.map(point).collect();
            let mut batch = Batch::default();
            batch.push(metric, points.len() as u32, |out| gnudi_series::points::encode(&points, out));
            engine.append(batch).await.unwrap();
            refresh().await
        };
        post(0..200).await.unwrap();
        let range = BlockRange { metric, granularity: minute, from: Timestamp::EPOCH, to: Timestamp::MAX };
        let blocks = store.read_blocks(&[range]).await.remove(0).unwrap().whole;
        assert!(!blocks.is_empty());
        let head = store.read_heads(&[metric]).await.remove(0).unwrap().unwrap();
        let replace = async |blocks: Found| {
            let write = MetricWrite { metric, blocks, expired: Vec::new(), head: head.clone() };
            store.write(Fence::EVERYTHING, vec![write]).await.remove(0).unwrap();
        };
        replace(blocks.iter().map(|(key, bytes)| (*key, newer(bytes).into())).collect()).await;
        let refused = post(1..2).await.unwrap_err().to_string();
        assert!(refused.contains("a block has format version 200"), "{refused}");
        assert_eq!(incoming.backlog().await.unwrap().measures, 1);
        // The blocks of this version again, as if the newer program ran.
        replace(blocks).await;
        refresh().await.unwrap();
        assert_eq!(incoming.backlog().await.unwrap().measures, 0);
        let blocks = store.read_blocks(&[range]).await.remove(0).unwrap().whole;
        let (mut times, mut values) = (Vec::new(), Vec::new());
        gnudi_series::block::decode(&blocks[0].1, sum, &mut times, &mut values).unwrap();
        assert_eq!((times[1], values[1]), (Timestamp::from_secs(60), 2.0));
    }
}
