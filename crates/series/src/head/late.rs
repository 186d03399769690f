//! Late points of policies that keep raw points (others: [`super::late_update`]): they are merged into the
//! raw points, and every affected bucket is recomputed. The result equals that of the same points in order.
//!
//! The affected data is in blocks, so the caller reads blocks between the steps: [`Head::late_raw_needs`]
//! names the blocks of raw points, [`Head::merge_late`] merges, [`LateRows::needs`] names the blocks of
//! buckets, [`Head::set_late_rows`] replaces them. Blocks are immutable: [`Head::take_removed`] lists the old
//! ones, [`Head::take_sealed`] the new.

use std::{borrow::Cow, collections::BTreeSet, ops::Range};

use gnudi_model::{AggregationMethod, Measure, Timespan, Timestamp};

use super::{
    Head, SealedBlock,
    archive::{Archive, blocks_of},
    fold::merge,
    grain::{Buffers, GrainState, Open, Points, aggregated, blocks_of_rows},
    late_update,
    removal::raw_needs,
};
use crate::{
    Result, block,
    layout::{Layout, floor},
    raw,
    rows::{Rows, may_lack},
};

/// The times of the first and the last item of a stored block. Blocks of a granularity are in order and do not overlap.
pub type BlockSpan = (Timestamp, Timestamp);

/// A block read from the store.
#[derive(Clone, Copy, Debug)]
pub struct StoredBlock<'a> {
    pub granularity: Timespan,
    pub span: BlockSpan,
    pub bytes: &'a [u8],
}

/// Buckets changed by late points.
#[derive(Clone, Debug, Default)]
pub struct LateRows(pub(super) Vec<GrainRows>);

#[derive(Clone, Debug)]
pub(super) struct GrainRows {
    pub granularity: Timespan,
    /// Buckets that start in this range are removed, except `buckets`.
    pub cleared: Option<Range<Timestamp>>,
    /// In order.
    pub buckets: Vec<Timestamp>,
    pub new: New,
}

/// The replacement of changed buckets.
#[derive(Clone, Debug)]
pub(super) enum New {
    /// The new rows, of buckets that have points.
    Rows(Rows),
    /// The values to add to each bucket.
    Values(Vec<Vec<f64>>),
}

impl LateRows {
    pub fn granularities(&self) -> impl Iterator<Item = Timespan> + '_ {
        self.0.iter().map(|grain| grain.granularity)
    }

    /// The indexes of the blocks that contain the buckets, or into which they are inserted.
    pub fn needs(&self, granularity: Timespan, blocks: &[BlockSpan]) -> Vec<usize> {
        let Some(grain) = self.0.iter().find(|grain| grain.granularity == granularity) else {
            return Vec::new();
        };
        let cut = |index: &usize| grain.clears(blocks[*index]) && !grain.empties(blocks[*index]);
        let mut needed = grain.holders(blocks);
        needed.extend((0..blocks.len()).filter(cut));
        needed.into_iter().collect()
    }
}

/// Points before `raw`, with their origin.
pub(super) struct Part {
    origin: Origin,
    pub points: Vec<Measure>,
    is_changed: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Origin {
    Stored(BlockSpan),
    /// Sealed by this pass, not yet stored.
    Sealed,
    Open,
}

impl Head {
    /// Whether points are pending for [`Head::merge_late`]. Must be false when the head is stored.
    pub fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    /// Discards the pending late points; returns their number.
    pub fn drop_late(&mut self) -> usize {
        self.grains.iter_mut().for_each(|grain| grain.late.clear());
        std::mem::take(&mut self.late).len()
    }

    /// Removes and returns the spans of the blocks that were replaced.
    pub fn take_removed(&mut self) -> Vec<(Timespan, BlockSpan)> {
        std::mem::take(&mut self.removed)
    }

    /// The ranges of the blocks of raw points to read for a merge: those that get late points, those with
    /// other points of the same buckets, and for rates the neighbours. In order; blocks between points that are
    /// far apart are not read.
    pub fn late_raw_needs(&self, layout: &Layout, blocks: &[BlockSpan]) -> Vec<Range<usize>> {
        let mut needs: Vec<Range<usize>> = Vec::new();
        if layout.raw_timespan.is_none() {
            return needs;
        }
        for Measure { timestamp, .. } in &self.late {
            join_needs(&mut needs, raw_needs(layout, *timestamp, *timestamp, blocks));
        }
        needs
    }

    /// Merges the late points into the blocks of [`Head::late_raw_needs`] and computes the changed buckets.
    /// Without raw points [`Head::set_late_rows`] adds the points to the buckets.
    pub fn merge_late(&mut self, layout: &Layout, stored: &[StoredBlock<'_>]) -> Result<LateRows> {
        if layout.raw_timespan.is_none() {
            return Ok(self.added_rows());
        }
        let mut parts = self.parts(stored)?;
        let late = std::mem::take(&mut self.late);
        let in_raw = late.partition_point(|point| point.timestamp.0 < self.raw_start());
        let mut rest = &late[..in_raw];
        for part in &mut parts {
            rest = part.put_front(rest);
        }
        merge(&mut self.raw, &late[in_raw..]);
        let mut points: Vec<Measure> = parts.iter().flat_map(|part| part.points.iter().copied()).collect();
        self.put_parts(parts);
        points.extend_from_slice(&self.raw);
        let points = aggregated(&points, true);
        self.find_before(&late, &points);
        let changed = changed_times(&late, &points, layout.has_differences());
        let newest = self.newest_from(layout);
        for (grain, limits) in self.grains.iter_mut().zip(&layout.grains) {
            let oldest = grain.oldest_late(limits.timespan, newest);
            for point in &late {
                grain.note_late_gap(point.timestamp, oldest);
            }
        }
        let rows = self.grains.iter().zip(&layout.grains).map(|(grain, limits)| {
            grain.late_rows(&layout.methods, &points, &changed, grain.oldest_late(limits.timespan, newest))
        });
        Ok(LateRows(rows.filter(|rows| !rows.buckets.is_empty()).collect()))
    }

    /// The time from which points are in `raw`.
    pub(super) fn raw_start(&self) -> i64 {
        self.grains.iter().map(GrainState::points_from).fold(self.window, i64::min)
    }

    /// The points before `raw`, in order of time: stored blocks, blocks sealed in this pass, points that are
    /// not sealed.
    pub(super) fn parts(&mut self, stored: &[StoredBlock<'_>]) -> Result<Vec<Part>> {
        let mut parts = Vec::with_capacity(stored.len() + 1);
        let mut add = |origin, bytes: &[u8]| {
            let mut points = Vec::new();
            raw::decode_points(bytes, &mut points)?;
            parts.push(Part { origin, points, is_changed: false });
            Ok(())
        };
        stored.iter().try_for_each(|block| add(Origin::Stored(block.span), block.bytes))?;
        let is_raw = |block: &SealedBlock| block.granularity == raw::GRANULARITY;
        self.sealed
            .iter()
            .filter(|block| is_raw(block))
            .try_for_each(|block| add(Origin::Sealed, &block.bytes))?;
        self.sealed.retain(|block| !is_raw(block));
        let points = self.archive.as_ref().map_or_else(|| Ok(Vec::new()), Archive::points)?;
        parts.push(Part { origin: Origin::Open, points, is_changed: false });
        Ok(parts)
    }

    /// Puts the points back; changed parts become new blocks.
    pub(super) fn put_parts(&mut self, parts: Vec<Part>) {
        for part in parts {
            match part.origin {
                Origin::Stored(span) if part.is_changed => {
                    self.removed.push((raw::GRANULARITY, span));
                    self.sealed.extend(blocks_of(&part.points));
                }
                Origin::Stored(_) => {}
                Origin::Sealed => self.sealed.extend(blocks_of(&part.points)),
                Origin::Open => {
                    if let Some(archive) = self.archive.as_mut().filter(|_| part.is_changed) {
                        archive.set(&part.points, &mut self.sealed);
                    }
                }
            }
        }
    }

    /// Updates the point before `raw` if a late one is newer or has replaced it.
    fn find_before(&mut self, late: &[Measure], points: &[Measure]) {
        let first = self.raw.first().map_or(Timestamp::MAX, |first| first.timestamp);
        let found = points[..points.partition_point(|point| point.timestamp < first)].last();
        let is_kept = |before: &Measure| {
            let is_replaced = late.binary_search_by_key(&before.timestamp, |point| point.timestamp).is_ok();
            !is_replaced && found.is_none_or(|found| found.timestamp < before.timestamp)
        };
        self.before = self.before.filter(is_kept).or(found.copied());
    }

    /// Replaces the buckets in the blocks that [`LateRows::needs`] named.
    pub fn set_late_rows(
        &mut self,
        layout: &Layout,
        rows: &LateRows,
        stored: &[StoredBlock<'_>],
    ) -> Result<()> {
        for changed in &rows.0 {
            let blocks: Vec<&StoredBlock<'_>> =
                stored.iter().filter(|block| block.granularity == changed.granularity).collect();
            self.set_rows_of(layout, changed, &blocks)?;
        }
        Ok(())
    }

    fn set_rows_of(
        &mut self,
        layout: &Layout,
        changed: &GrainRows,
        stored: &[&StoredBlock<'_>],
    ) -> Result<()> {
        let methods = &layout.methods;
        let grain = self.grains.iter_mut().find(|grain| grain.granularity == changed.granularity);
        if let Some(grain) = grain {
            grain.seal_other_methods(methods, &mut self.sealed);
        }
        let sealed: Vec<SealedBlock> =
            self.sealed.extract_if(.., |block| block.granularity == changed.granularity).collect();
        let mut rest = Rest { of: changed, bucket: 0, row: 0 };
        for block in stored {
            let Some(part) = rest.take_until(block.span) else { continue };
            self.removed.push((changed.granularity, block.span));
            let (blocks, dropped) = part.rewritten(block.bytes, methods)?;
            self.sealed.extend(blocks);
            self.late_dropped += dropped as u64;
        }
        for block in sealed {
            match rest.take_until((block.first, block.last)) {
                Some(part) => {
                    let (blocks, dropped) = part.rewritten(&block.bytes, methods)?;
                    self.sealed.extend(blocks);
                    self.late_dropped += dropped as u64;
                }
                None => self.sealed.push(block),
            }
        }
        let rest = rest.take(Timestamp::MAX);
        let grain = self.grains.iter_mut().find(|grain| grain.granularity == changed.granularity);
        let Some(grain) = grain.filter(|grain| !rest.buckets.is_empty() || rest.clears_open(grain)) else {
            return Ok(());
        };
        let rows = grain.take_rows(methods, &mut self.sealed);
        grain.open = Open::Rows(rest.applied_to(methods, &rows));
        // No row may wait before a partial bucket, which is sealed on its own.
        if grain.is_full() || grain.partial.is_some() {
            grain.seal(methods, &mut self.sealed);
        }
        Ok(())
    }
}

impl Part {
    pub fn retain(&mut self, is_left: impl Fn(&Measure) -> bool) {
        let before = self.points.len();
        self.points.retain(is_left);
        self.is_changed |= self.points.len() < before;
    }

    /// Merges the points up to its last one, or all if it is not sealed; returns the rest. So a time between
    /// two blocks belongs to the later one.
    fn put_front<'p>(&mut self, points: &'p [Measure]) -> &'p [Measure] {
        let last = self.points.last().filter(|_| self.origin != Origin::Open).map(|last| last.timestamp);
        let count = last.map_or(points.len(), |last| points.partition_point(|point| point.timestamp <= last));
        let (own, rest) = points.split_at(count);
        merge(&mut self.points, own);
        self.is_changed |= count > 0;
        rest
    }
}

impl GrainState {
    /// The first bucket start for which late points count: the timespan keeps buckets from there on.
    pub(super) fn oldest_late(&self, timespan: Option<Timespan>, newest: Timestamp) -> i64 {
        let counted = timespan.map_or(i64::MIN, |timespan| self.oldest_counted(timespan, newest));
        self.kept_from.max(counted)
    }

    /// Buckets that start before this are older than the timespan.
    pub(super) fn oldest_counted(&self, timespan: Timespan, newest: Timestamp) -> i64 {
        floor(newest.0, self.granularity.0).saturating_sub(timespan.0).saturating_add(1)
    }

    /// The final buckets of `times` that start at `from` or later, computed from `points`, which include all
    /// of theirs.
    pub(super) fn late_rows(
        &self,
        methods: &[AggregationMethod],
        points: &[Measure],
        times: &[Timestamp],
        from: i64,
    ) -> GrainRows {
        let step = self.granularity.0;
        let starts = times.iter().map(|time| floor(time.0, step));
        let buckets: BTreeSet<i64> =
            starts.filter(|start| (from..self.final_until).contains(start)).collect();
        let mut rows = Rows::new(methods.len());
        let mut buffers = Buffers::default();
        for &start in &buckets {
            let bucket = GrainState::new(self.granularity, start);
            let points = Points { raw: points, before: None };
            bucket.push_lazy(points, methods, start.saturating_add(step), &mut buffers, &mut rows);
        }
        let buckets = buckets.into_iter().map(Timestamp).collect();
        GrainRows { granularity: self.granularity, cleared: None, buckets, new: New::Rows(rows) }
    }
}

/// Adds blocks to those to read, which start before or with them; ranges stay apart.
pub(super) fn join_needs(needs: &mut Vec<Range<usize>>, own: Range<usize>) {
    match needs.last_mut() {
        Some(last) if own.start <= last.end => last.end = last.end.max(own.end),
        _ => needs.push(own),
    }
}

/// The times whose buckets change: those of late points and, with differences, of the points after them.
fn changed_times(late: &[Measure], points: &[Measure], has_differences: bool) -> Vec<Timestamp> {
    let after = |time: Timestamp| points.get(points.partition_point(|point| point.timestamp <= time));
    let next =
        |point: &Measure| after(point.timestamp).filter(|_| has_differences).map(|point| point.timestamp);
    late.iter().flat_map(|point| [Some(point.timestamp), next(point)]).flatten().collect()
}

impl GrainRows {
    /// Whether a block has buckets to remove.
    fn clears(&self, (first, last): BlockSpan) -> bool {
        self.cleared.as_ref().is_some_and(|span| first < span.end && last >= span.start)
    }

    /// Whether a block has no other buckets than those to remove.
    pub fn empties(&self, (first, last): BlockSpan) -> bool {
        self.cleared.as_ref().is_some_and(|span| first >= span.start && last < span.end)
    }

    /// The indexes of the blocks that contain the buckets, or into which they are inserted.
    pub fn holders(&self, blocks: &[BlockSpan]) -> BTreeSet<usize> {
        let holder = |bucket: &Timestamp| blocks.partition_point(|(_, last)| last < bucket);
        self.buckets.iter().map(holder).filter(|index| *index < blocks.len()).collect()
    }

    fn clears_open(&self, grain: &GrainState) -> bool {
        let ends = grain.open.first().zip(grain.open.last());
        ends.is_some_and(|span| self.clears(span))
    }

    /// A block with these buckets replaced, as blocks, and the number of dropped values. A block sealed
    /// before the methods changed keeps its methods: it loses cleared buckets, is cut at recomputed ones, and
    /// gets late values only if all its methods can take them.
    fn rewritten(&self, bytes: &[u8], methods: &[AggregationMethod]) -> Result<(Vec<SealedBlock>, usize)> {
        let blocks = |methods: &[AggregationMethod], rows: &Rows| {
            blocks_of_rows(self.granularity, methods, rows).collect()
        };
        if let Some(rows) = block::decode_rows(bytes, methods)? {
            return Ok((blocks(methods, &self.applied_to(methods, &rows)), 0));
        }
        let (own, rows) = block::decode_all(bytes)?;
        match &self.new {
            New::Rows(new) if !new.is_empty() => Ok((self.between_others(methods, new, bytes)?, 0)),
            New::Values(values) if !late_update::take_values(&own) => {
                let dropped = values.iter().map(Vec::len).sum();
                let cleared = GrainRows { buckets: Vec::new(), new: New::Values(Vec::new()), ..self.clone() };
                Ok((blocks(&own, &cleared.applied_to(&own, &rows)), dropped))
            }
            _ => Ok((blocks(&own, &self.applied_to(&own, &rows)), 0)),
        }
    }

    /// The rows of a block with other methods, without these buckets, and the new rows in their places, as
    /// blocks. The new rows lack the rates that the block lacks: a conversion has computed what can be known,
    /// and the point before the first known one is not.
    fn between_others(
        &self,
        methods: &[AggregationMethod],
        new: &Rows,
        bytes: &[u8],
    ) -> Result<Vec<SealedBlock>> {
        let is_known = |method: AggregationMethod| -> Result<bool> {
            Ok(!method.rate || block::decode_rows(bytes, &[method])?.is_some())
        };
        let mut known = Vec::new();
        let mut new = new.clone();
        let columns = std::mem::take(&mut new.columns);
        for (&method, column) in methods.iter().zip(columns) {
            if is_known(method)? {
                known.push(method);
                new.columns.push(column);
            }
        }
        if known.iter().all(|&method| may_lack(method)) {
            new.drop_empty(0);
        }
        let (own, rows) = block::decode_all(bytes)?;
        let others = GrainRows { new: New::Rows(Rows::new(own.len())), ..self.clone() };
        let mut others = others.applied_to(&own, &rows);
        let before = |rows: &Rows, next: Option<&Timestamp>| {
            next.map_or(rows.len(), |next| rows.starts.partition_point(|start| start < next))
        };
        let mut blocks = Vec::new();
        while !new.is_empty() || !others.is_empty() {
            let count = before(&others, new.starts.first());
            blocks.extend(blocks_of_rows(self.granularity, &own, &others.split_front(count)));
            let count = before(&new, others.starts.first());
            blocks.extend(blocks_of_rows(self.granularity, &known, &new.split_front(count)));
        }
        Ok(blocks)
    }

    /// The rows with these buckets replaced.
    fn applied_to(&self, methods: &[AggregationMethod], rows: &Rows) -> Rows {
        let changed = match &self.new {
            New::Rows(rows) => Cow::Borrowed(rows),
            New::Values(values) => Cow::Owned(late_update::with_values(methods, rows, &self.buckets, values)),
        };
        let mut merged = Rows::new(rows.columns.len());
        let mut new = 0;
        for row in 0..rows.len() {
            let start = rows.starts[row];
            while changed.starts.get(new).is_some_and(|new| *new < start) {
                merged.push_row_of(&changed, new);
                new += 1;
            }
            let is_cleared = self.cleared.as_ref().is_some_and(|span| span.contains(&start));
            if !is_cleared && self.buckets.binary_search(&start).is_err() {
                merged.push_row_of(rows, row);
            }
        }
        (new..changed.len()).for_each(|row| merged.push_row_of(&changed, row));
        merged
    }
}

/// The changed buckets that are not in a block yet.
struct Rest<'a> {
    of: &'a GrainRows,
    /// The index of the next bucket.
    bucket: usize,
    /// The index of the next of the new rows.
    row: usize,
}

impl Rest<'_> {
    /// The part for one block, if there is one: the buckets up to its end, and the cleared range.
    fn take_until(&mut self, span: BlockSpan) -> Option<GrainRows> {
        let is_own = self.of.buckets.get(self.bucket).is_some_and(|bucket| *bucket <= span.1);
        (is_own || self.of.clears(span)).then(|| self.take(span.1))
    }

    /// The buckets up to `last`, and the cleared range.
    fn take(&mut self, last: Timestamp) -> GrainRows {
        let count = |starts: &[Timestamp]| starts.partition_point(|start| *start <= last);
        let from = self.bucket;
        self.bucket += count(&self.of.buckets[from..]);
        let new = match &self.of.new {
            New::Rows(rows) => {
                let row = self.row;
                self.row += count(&rows.starts[row..]);
                New::Rows(rows.slice(row..self.row))
            }
            New::Values(values) => New::Values(values[from..self.bucket].to_vec()),
        };
        GrainRows {
            granularity: self.of.granularity,
            cleared: self.of.cleared.clone(),
            buckets: self.of.buckets[from..self.bucket].to_vec(),
            new,
        }
    }
}

#[cfg(test)]
mod tests {
    use gnudi_model::{ArchivePolicy, ArchivePolicyItem};

    use super::*;
    use crate::head::grain::BLOCK_ROWS;

    #[test]
    fn a_time_between_blocks_goes_to_the_later_one() {
        let measure = |time: &i64| Measure { timestamp: Timestamp(*time), value: 0.0 };
        let part = |origin, times: &[i64]| Part {
            origin,
            points: times.iter().map(measure).collect(),
            is_changed: false,
        };
        let late: Vec<Measure> = [5, 10, 19, 20, 39, 40].iter().map(measure).collect();
        let (mut first, mut second) = (part(Origin::Sealed, &[10, 19]), part(Origin::Sealed, &[30, 39]));
        let rest = first.put_front(&late);
        assert_eq!(rest, &late[3..]);
        let rest = second.put_front(rest);
        assert_eq!(rest, &late[5..]);
        let mut open = part(Origin::Open, &[]);
        assert!(open.put_front(rest).is_empty());
        assert_eq!([&first, &second, &open].map(|part| part.points.len()), [3, 3, 1]);
        assert!(first.put_front(&[]).is_empty());
    }

    #[test]
    fn points_far_apart_need_no_blocks_between_them() {
        let definition = vec![ArchivePolicyItem::unlimited(Timespan::from_secs(60))];
        let methods = ["mean".parse().unwrap()].into();
        let policy = ArchivePolicy::new("p".to_owned(), 0, definition, methods).unwrap();
        let layout =
            Layout::of(&ArchivePolicy { raw_timespan: Some(Timespan::from_secs(1_000_000)), ..policy });
        let span = |first| (Timestamp::from_secs(first), Timestamp::from_secs(first + 999));
        let blocks: Vec<BlockSpan> = (0..100).map(|block| span(1000 * block)).collect();
        let needs = |times: &[i64]| {
            let late = |time: &i64| Measure { timestamp: Timestamp::from_secs(*time), value: 0.0 };
            let head = Head { late: times.iter().map(late).collect(), ..Head::new() };
            head.late_raw_needs(&layout, &blocks)
        };
        assert_eq!(needs(&[5_500, 80_500]), [4..7, 79..82]);
        assert_eq!(needs(&[5_500, 6_500, 80_500]), [4..8, 79..82]);
        assert!(needs(&[]).is_empty());
    }

    #[test]
    fn blocks_of_changed_rows_are_cut() {
        let methods = ["mean".parse().unwrap()];
        let starts: Vec<Timestamp> = (0..=BLOCK_ROWS as i64).map(Timestamp::from_secs).collect();
        let rows = Rows { columns: vec![vec![1.0; starts.len()]], starts };
        let blocks: Vec<_> = blocks_of_rows(Timespan::from_secs(1), &methods, &rows).collect();
        assert_eq!(blocks.len(), 2);
        assert_eq!(blocks[0].last, Timestamp::from_secs(512));
    }
}
