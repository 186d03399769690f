//! Removes the points and buckets of a time span, as if the points had never been sent.
//!
//! With raw points, buckets that the span cuts are recomputed from the remaining points. Without them, or if
//! they are gone, a final bucket is removed if it starts in the span, and otherwise unchanged.
//!
//! If the newest point is removed, timespans count from the one before it: a metric whose clock was ahead accepts measures
//! again. Buckets that had been too old, and are not any more, are computed from the raw points. If the window is left
//! without points, it moves back to the end of the last remaining bucket.
//!
//! The steps are those of [`super::late`]: the caller reads blocks between them. Blocks of which nothing is left are not
//! read.

use std::{collections::HashSet, ops::Range};

use gnudi_model::{Measure, Timespan, Timestamp};

use super::{
    Head,
    grain::{GrainState, aggregated},
    late::{BlockSpan, LateRows, StoredBlock, join_needs},
};
use crate::{
    Result,
    layout::{Layout, ceil, floor},
    raw,
};

/// The most blocks of raw points to read for buckets that count again, newest first: 4 million points.
const RAW_BLOCKS_MAX: usize = 4096;

/// The raw points from which a granularity's buckets that count again are computed.
struct Source {
    /// The blocks to read.
    blocks: Range<usize>,
    /// All points from this time on are in these blocks or in the head.
    known_from: i64,
}

impl Head {
    /// The ranges of the blocks of raw points to read to remove a span, in order.
    pub fn removal_raw_needs(
        &self,
        layout: &Layout,
        span: &Range<Timestamp>,
        blocks: &[BlockSpan],
    ) -> Vec<Range<usize>> {
        if self.archive.is_none() {
            return Vec::new();
        }
        let sources = self.sources_again(layout, span, blocks).into_iter().flatten();
        let mut own: Vec<Range<usize>> = sources.map(|source| source.blocks).collect();
        own.push(raw_needs(layout, span.start, span.end, blocks));
        own.sort_unstable_by_key(|needs| needs.start);
        let mut needs = Vec::new();
        for own in own {
            join_needs(&mut needs, own);
        }
        let emptied = emptied(span, blocks);
        if emptied.is_empty() {
            return needs;
        }
        let around = |needs: Range<usize>| {
            [needs.start..needs.end.min(emptied.start), needs.start.max(emptied.end)..needs.end]
        };
        needs.into_iter().flat_map(around).filter(|needs| !needs.is_empty()).collect()
    }

    /// For each granularity with buckets that count again if the removal of the span moves the newest point back: what they
    /// are computed from. `blocks` are those of raw points before the removal.
    fn sources_again(
        &self,
        layout: &Layout,
        span: &Range<Timestamp>,
        blocks: &[BlockSpan],
    ) -> Vec<Option<Source>> {
        let newest = self.newest_from(layout);
        let pending = self.archive.iter().flat_map(|archive| &archive.open).map(|part| part.extent.first);
        let firsts = blocks.iter().map(|(first, _)| *first).chain(pending);
        let firsts = firsts.chain(self.raw.iter().map(|point| point.timestamp));
        // The newest point that is left is not older.
        let left = firsts.take_while(|first| *first < span.start).last();
        let left = left.filter(|_| span.contains(&newest));
        let blocks_max = RAW_BLOCKS_MAX / self.grains.len().max(1);
        let lost = self.lost_before.map_or(0, |lost| lost.0);
        let source = |grain: &GrainState, timespan: Option<Timespan>| {
            let again = grain.counted_again(timespan?, newest, left?, 0)?;
            let Some(archive) = &self.archive else {
                return Some(Source { blocks: 0..0, known_from: self.window.max(lost) });
            };
            let needs = raw_needs(layout, Timestamp(again.start), Timestamp(again.end - 1), blocks);
            let start = needs.start.max(needs.end.saturating_sub(blocks_max));
            // The first point read has no difference.
            let cut = blocks.get(start).filter(|_| start > 0);
            let known_from = cut.map_or(0, |(first, _)| first.0.saturating_add(1));
            let known_from = known_from.max(archive.from).max(archive.kept_from);
            Some(Source { blocks: start..needs.end, known_from })
        };
        let grains = self.grains.iter().zip(&layout.grains);
        grains.map(|(grain, limits)| source(grain, limits.timespan)).collect()
    }

    /// Removes the points of a span, as the request at `position`; `stored` are the blocks of
    /// [`Head::removal_raw_needs`], `blocks` the spans of all blocks of raw points. Returns the changed buckets.
    pub fn remove_points(
        &mut self,
        layout: &Layout,
        position: u64,
        span: &Range<Timestamp>,
        blocks: &[BlockSpan],
        stored: &[StoredBlock<'_>],
    ) -> Result<LateRows> {
        self.applied = self.applied.max(position);
        self.match_grains(layout);
        let (newest, raw_start) = (self.newest_from(layout), self.raw_start());
        let sources = self.sources_again(layout, span, blocks);
        let is_left = |point: &Measure| !span.contains(&point.timestamp);
        let mut parts = self.parts(stored)?;
        for part in &mut parts {
            part.retain(is_left);
        }
        self.raw.retain(is_left);
        let mut points: Vec<Measure> = parts.iter().flat_map(|part| part.points.iter().copied()).collect();
        let older = points.len();
        self.put_parts(parts);
        points.extend_from_slice(&self.raw);
        if self.before.is_some_and(|before| span.contains(&before.timestamp)) {
            self.before = aggregated(&points[..older], true).last().copied();
        }
        let left = self.newest_from(layout);
        let points = aggregated(&points, true);
        let from = self.archive.as_ref().map(|archive| archive.from.max(archive.kept_from));
        let window = self.window;
        let grains = self.grains.iter_mut().zip(&layout.grains).zip(sources);
        let rows = grains.map(|((grain, limits), source)| {
            grain.clear(span);
            let again = limits.timespan.zip(source).and_then(|(timespan, source)| {
                grain.counted_again(timespan, newest, left, source.known_from)
            });
            let mut cleared = span.clone();
            let mut times = from.map_or_else(Vec::new, |from| grain.cut_by(layout, span, from, &points));
            if let Some(again) = again {
                grain.count_again(&again, raw_start, window);
                // Buckets from there on are computed when read.
                cleared.start = cleared.start.min(Timestamp(grain.final_until));
                let known = points.iter().map(|point| point.timestamp);
                times.extend(known.filter(|time| again.contains(&time.0)));
            }
            let mut rows = grain.late_rows(&layout.methods, &points, &times, 0);
            rows.cleared = Some(cleared);
            rows
        });
        Ok(LateRows(rows.collect()))
    }

    /// Removes the blocks that [`Head::remove_points`], with the result `changed`, leaves nothing of. `blocks` gives the
    /// spans of a granularity's blocks before the removal.
    pub fn remove_emptied(
        &mut self,
        span: &Range<Timestamp>,
        changed: &LateRows,
        blocks: impl Fn(Timespan) -> Vec<BlockSpan>,
    ) {
        if self.archive.is_some() {
            let points = blocks(raw::GRANULARITY);
            self.removed.extend(points[emptied(span, &points)].iter().map(|span| (raw::GRANULARITY, *span)));
        }
        for grain in &changed.0 {
            let blocks = blocks(grain.granularity);
            let holders = grain.holders(&blocks);
            for (index, span) in blocks.into_iter().enumerate() {
                if grain.empties(span) && !holders.contains(&index) {
                    self.removed.push((grain.granularity, span));
                }
            }
        }
    }

    /// If the window has no points left, moves it back to the end of the last remaining bucket. `blocks`
    /// gives the spans of a granularity's blocks before the removal.
    pub fn reopen(&mut self, layout: &Layout, blocks: impl Fn(Timespan) -> Vec<BlockSpan>) {
        if self.last().is_some_and(|last| last.0 >= self.window) {
            return;
        }
        let removed: HashSet<(Timespan, BlockSpan)> = self.removed.iter().copied().collect();
        let left = |granularity| {
            let stored =
                blocks(granularity).into_iter().filter(|span| !removed.contains(&(granularity, *span)));
            let sealed = self.sealed.iter().filter(|block| block.granularity == granularity);
            stored.chain(sealed.map(|block| (block.first, block.last))).reduce(joined)
        };
        let mut end = 0;
        let mut first_left = Vec::with_capacity(self.grains.len());
        for grain in &self.grains {
            let open = grain.open.first().zip(grain.open.last());
            let partial = grain.partial.map(|partial| (Timestamp(partial.start), Timestamp(partial.start)));
            let rows = [left(grain.granularity), open, partial].into_iter().flatten().reduce(joined);
            end = end.max(rows.map_or(0, |(_, last)| last.0.saturating_add(grain.granularity.0)));
            first_left.push(rows.map_or(i64::MAX, |(first, _)| first.0));
        }
        // From here on buckets can be recomputed.
        let mut points_from = i64::MAX;
        if let Some(archive) = &mut self.archive {
            let last = left(raw::GRANULARITY).map(|(_, last)| last).max(archive.last());
            // The end of the bucket of the last point, in each granularity.
            if let Some(last) = last {
                let ends = layout.granularities().map(|step| floor(last.0, step.0).saturating_add(step.0));
                end = ends.fold(end, i64::max);
            }
            archive.from = archive.from.max(archive.kept_from.min(end));
            archive.kept_from = 0;
            points_from = archive.from;
        }
        self.window = self.window.min(end);
        for (grain, first_left) in self.grains.iter_mut().zip(first_left) {
            let step = grain.granularity.0;
            // A bucket whose points are not known stays final.
            let unknown = grain.gap_until.min(ceil(points_from, step));
            grain.final_until = grain.final_until.min(floor(end, step).max(unknown));
            // Buckets that had expired count again, as far as they are left. Older ones are still missing.
            let known_from = first_left.min(ceil(points_from, step)).min(grain.final_until);
            grain.kept_from = grain.kept_from.min(known_from);
            grain.marks.forget(&[], grain.final_until);
        }
    }
}

impl GrainState {
    /// Forgets what is known of points in the span, besides rows.
    fn clear(&mut self, span: &Range<Timestamp>) {
        // Buckets within the span have no points any more.
        let start = ceil(span.start.0.max(0), self.granularity.0);
        if (start..=span.end.0).contains(&self.gap_until) {
            self.gap_until = start;
        }
        self.marks.cuts.retain(|cut| !span.contains(&Timestamp(cut.time)));
        // Treat it as a final bucket: its points are gone.
        if let Some(partial) = self.partial.take_if(|partial| span.contains(&Timestamp(partial.start))) {
            self.final_until = partial.start.saturating_add(self.granularity.0);
        }
    }

    /// The buckets that the timespan hides while `newest` is the newest point, but not once it is `left`; those whose points
    /// from `known_from` on are known.
    fn counted_again(
        &self,
        timespan: Timespan,
        newest: Timestamp,
        left: Timestamp,
        known_from: i64,
    ) -> Option<Range<i64>> {
        let from = ceil(self.oldest_counted(timespan, left).max(known_from), self.granularity.0);
        let until = ceil(self.oldest_late(Some(timespan), newest), self.granularity.0);
        (from < until).then_some(from..until)
    }

    /// Shows buckets again, which are computed from their points; those whose points are all in the head, from `raw_start`
    /// on, and that may get others are not final any more.
    fn count_again(&mut self, again: &Range<i64>, raw_start: i64, window: i64) {
        let step = self.granularity.0;
        self.kept_from = self.kept_from.min(again.start);
        if self.gap_until <= again.end {
            self.gap_until = self.gap_until.min(again.start);
        }
        if self.partial.is_none() {
            let open = ceil(raw_start, step).max(floor(window, step));
            self.final_until = self.final_until.min(open.max(again.start));
        }
    }

    /// Times in the buckets that the span cuts or that change by the rate of the point after it; only buckets
    /// that can be recomputed.
    fn cut_by(
        &self,
        layout: &Layout,
        span: &Range<Timestamp>,
        from: i64,
        points: &[Measure],
    ) -> Vec<Timestamp> {
        let next = points.get(points.partition_point(|point| point.timestamp < span.end));
        let next = next.filter(|_| layout.has_differences()).map(|point| point.timestamp);
        let is_whole = |time: &Timestamp| floor(time.0, self.granularity.0) >= from;
        let mut times = vec![span.start, Timestamp(span.end.0.saturating_sub(1).max(span.start.0))];
        times.extend(next);
        times.sort_unstable();
        times.retain(is_whole);
        times
    }
}

/// The blocks of raw points within a span.
fn emptied(span: &Range<Timestamp>, blocks: &[BlockSpan]) -> Range<usize> {
    let start = blocks.partition_point(|(first, _)| *first < span.start);
    let end = blocks.partition_point(|(_, last)| *last < span.end);
    start..end.max(start)
}

/// From the first to the last bucket of both.
fn joined(one: BlockSpan, other: BlockSpan) -> BlockSpan {
    (one.0.min(other.0), one.1.max(other.1))
}

/// The range of the blocks of raw points from `first` to `last`, with other points of these buckets and the
/// neighbours that rates need.
pub(super) fn raw_needs(
    layout: &Layout,
    first: Timestamp,
    last: Timestamp,
    blocks: &[BlockSpan],
) -> Range<usize> {
    let step = layout.block_size.0;
    let steps = layout.granularities().map(|granularity| granularity.0);
    let start = steps.map(|step| floor(first.0, step)).min().expect("a policy has a granularity");
    let from = blocks.partition_point(|(_, last)| last.0 < start);
    // The point before the first bucket, and the point after the last time: its rate changes.
    let next = blocks.get(blocks.partition_point(|(_, end)| *end <= last));
    let end = next.map_or(last, |(_, end)| *end).0;
    let end = floor(end, step).saturating_add(step.saturating_mul(2));
    let to = blocks.partition_point(|(first, _)| first.0 < end);
    from.saturating_sub(1)..to.max(from)
}

#[cfg(test)]
mod tests {
    use gnudi_model::{ArchivePolicy, ArchivePolicyItem};

    use super::*;
    use crate::{
        head::{
            archive::Archive,
            late::{GrainRows, New},
        },
        rows::Rows,
    };

    #[test]
    fn buckets_that_count_again_need_their_blocks() {
        let minute = Timespan::from_secs(60);
        let methods = ["mean".parse().unwrap()].into();
        let timespan = Some(Timespan::from_secs(10_000));
        let definition = vec![ArchivePolicyItem { granularity: minute, points: None, timespan }];
        let policy = ArchivePolicy::new("p".to_owned(), 0, definition, methods).unwrap();
        let layout = Layout::of(&ArchivePolicy { raw_timespan: Some(minute), ..policy });
        let block = |first| (Timestamp::from_secs(first), Timestamp::from_secs(first + 999));
        let blocks: Vec<BlockSpan> = (0..100).map(|number| block(1000 * number)).collect();
        let newest = Measure { timestamp: Timestamp::from_secs(200_000), value: 0.0 };
        let head = Head {
            raw: vec![newest],
            grains: vec![GrainState::new(minute, newest.timestamp.0)],
            archive: Some(Archive::default()),
            ..Head::new()
        };
        let needs = |from, to| {
            let span = Timestamp::from_secs(from)..Timestamp::from_secs(to);
            let needs = head.removal_raw_needs(&layout, &span, &blocks).into_iter();
            needs.map(|needs| (needs.start, needs.end)).collect::<Vec<_>>()
        };
        // The newest point that is left is not before 99,000 s, and the minutes of 89,040 s and later count then.
        assert_eq!(needs(150_000, 300_000), [(88, 100)]);
        assert_eq!(needs(150_000, 160_000), [(99, 100)]);
        assert!(needs(0, 300_000).is_empty());
    }

    #[test]
    fn blocks_within_the_span_are_not_read() {
        let minute = Timespan::from_secs(60);
        let methods = ["mean".parse().unwrap()].into();
        let definition = vec![ArchivePolicyItem::unlimited(minute)];
        let policy = ArchivePolicy::new("p".to_owned(), 0, definition, methods).unwrap();
        let layout = Layout::of(&ArchivePolicy { raw_timespan: Some(minute), ..policy });
        let block = |first| (Timestamp::from_secs(first), Timestamp::from_secs(first + 999));
        let blocks: Vec<BlockSpan> = (0..100).map(|number| block(1000 * number)).collect();
        let span = Timestamp::from_secs(5_500)..Timestamp::from_secs(80_500);
        let mut head = Head { archive: Some(Archive::default()), ..Head::new() };
        assert_eq!(head.removal_raw_needs(&layout, &span, &blocks), [4..6, 80..82]);
        let changed = LateRows(vec![GrainRows {
            granularity: minute,
            cleared: Some(span.clone()),
            buckets: [5_460, 80_460].map(Timestamp::from_secs).to_vec(),
            new: New::Rows(Rows::new(0)),
        }]);
        assert_eq!(changed.needs(minute, &blocks), [5, 80]);
        head.remove_emptied(&span, &changed, |_| blocks.clone());
        let removed = |granularity| {
            let all = head.removed.iter().filter(|(of, _)| *of == granularity);
            all.map(|(_, span)| *span).collect::<Vec<_>>()
        };
        assert_eq!(removed(raw::GRANULARITY), blocks[6..80]);
        assert_eq!(removed(minute), blocks[6..80]);
    }
}
