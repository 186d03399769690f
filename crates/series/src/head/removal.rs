//! Removes the points and buckets of a time span, as if the points had never been sent.
//!
//! With raw points, buckets that the span cuts are recomputed from the remaining points. Without them, or if
//! they are gone, a final bucket is removed if it starts in the span, and otherwise unchanged.
//!
//! If the newest point is removed, the window moves back to the end of the last remaining bucket: a metric
//! whose clock was ahead accepts measures again.
//!
//! The steps are those of [`super::late`]: the caller reads blocks between them. Blocks of which nothing is left are not
//! read.

use std::{collections::HashSet, ops::Range};

use gnudi_model::{Measure, Timespan, Timestamp};

use super::{
    Head,
    grain::{GrainState, aggregated},
    late::{BlockSpan, LateRows, StoredBlock},
};
use crate::{
    Result,
    layout::{Layout, ceil, floor},
    raw,
};

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
        let (needs, emptied) = (raw_needs(layout, span.start, span.end, blocks), emptied(span, blocks));
        if emptied.is_empty() {
            return vec![needs];
        }
        vec![needs.start..emptied.start, emptied.end..needs.end]
    }

    /// Removes the points of a span, as the request at `position`; `stored` are the blocks of
    /// [`Head::removal_raw_needs`]. Returns the changed buckets.
    pub fn remove_points(
        &mut self,
        layout: &Layout,
        position: u64,
        span: &Range<Timestamp>,
        stored: &[StoredBlock<'_>],
    ) -> Result<LateRows> {
        self.applied = self.applied.max(position);
        self.match_grains(layout);
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
        for grain in &mut self.grains {
            // Buckets within the span have no points any more.
            let start = ceil(span.start.0.max(0), grain.granularity.0);
            if (start..=span.end.0).contains(&grain.gap_until) {
                grain.gap_until = start;
            }
            grain.marks.cuts.retain(|cut| !span.contains(&Timestamp(cut.time)));
            // Treat it as a final bucket: its points are gone.
            if let Some(partial) = grain.partial.take_if(|partial| span.contains(&Timestamp(partial.start))) {
                grain.final_until = partial.start.saturating_add(grain.granularity.0);
            }
        }
        let points = aggregated(&points, true);
        let from = self.archive.as_ref().map(|archive| archive.from.max(archive.kept_from));
        let rows = self.grains.iter().map(|grain| {
            let cut = from.map_or_else(Vec::new, |from| grain.cut_by(layout, span, from, &points));
            let mut rows = grain.late_rows(&layout.methods, &points, &cut, 0);
            rows.cleared = Some(span.clone());
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
