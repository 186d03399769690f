//! Converts a head to another layout: the metric's policy was replaced, or its methods changed.
//!
//! Aggregations of both layouts stay. With raw points, all buckets from the first complete one on are
//! recomputed, and those of new granularities computed. Older buckets of a new granularity are composed from
//! a finer one ([`super::compose`]). Aggregations that cannot be computed start at the first whole bucket;
//! [`outcome`] lists them.
//!
//! The steps: [`Head::conversion_raw_needs`] names the blocks of raw points to read; pass them to
//! [`Head::begin_conversion`]. Add the source blocks to [`Conversion::composers`]. Read the blocks of
//! [`Conversion::cuts`] and pass them to [`Head::finish_conversion`]. Removed and new blocks are reported as
//! for late points.

use std::ops::Range;

use gnudi_model::{AggregationMethod, ArchivePolicy, ArchivePolicyItem, Measure, Timespan};

use super::{
    BlockSpan, Head, SealedBlock, StoredBlock,
    compose::{Composed, Composer, composes},
    grain::{Buffers, GrainState, Open, Points, aggregated, blocks_of_rows},
    late::Part,
};
use crate::{
    Result, block,
    layout::{Layout, ceil, floor},
    raw,
    rows::Rows,
};

/// The most blocks of raw points to read, newest first: 4 million points.
const RAW_BLOCKS_MAX: usize = 4096;

/// What happens to an aggregation when a policy replaces another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Was stored before.
    Kept,
    /// Is computed from raw points or other aggregations.
    Computed,
    /// Starts empty, with the points from now on.
    Begins,
}

/// The origin of each aggregation of `new`, by granularity and method, when `new` replaces `old`.
pub fn outcome(old: &ArchivePolicy, new: &ArchivePolicy) -> Vec<(Timespan, AggregationMethod, Origin)> {
    let stored: Vec<AggregationMethod> = old.aggregation_methods.iter().copied().collect();
    let origin = |granularity: Timespan, method: AggregationMethod| {
        let is_stored = old.definition.iter().any(|item| item.granularity == granularity);
        // Within one granularity only the mean can be computed from other methods.
        let is_source = |item: &ArchivePolicyItem| divides(item.granularity, granularity);
        let is_composed = || (is_stored || old.definition.iter().any(is_source)) && composes(method, &stored);
        if is_stored && stored.contains(&method) {
            Origin::Kept
        } else if old.raw_timespan.is_some() || is_composed() {
            Origin::Computed
        } else {
            Origin::Begins
        }
    };
    let of_item = |item: &ArchivePolicyItem| {
        let granularity = item.granularity;
        let methods = new.aggregation_methods.iter();
        methods.map(move |method| (granularity, *method, origin(granularity, *method))).collect::<Vec<_>>()
    };
    new.definition.iter().flat_map(of_item).collect()
}

/// Whether each bucket of a granularity consists of whole buckets of a finer one.
fn divides(finer: Timespan, granularity: Timespan) -> bool {
    finer < granularity && granularity.0 % finer.0 == 0
}

/// A conversion in progress.
pub struct Conversion {
    /// One for each new granularity that has a source. Add the blocks of the source in order, then its
    /// [`Head::open_block`].
    pub composers: Vec<Composer>,
    /// Blocks to read because some of their buckets are recomputed.
    pub cuts: Vec<(Timespan, BlockSpan)>,
    /// All points from `points_from` on, and those known from before.
    points: Vec<Measure>,
    /// The points before `raw`, if blocks of raw points are kept.
    parts: Vec<Part>,
    points_from: i64,
    /// Whether stored buckets are recomputed.
    recomputes: bool,
}

impl Head {
    /// Whether the head needs no conversion: same granularities, raw points kept only if the layout keeps
    /// them, then same methods.
    pub fn fits(&self, layout: &Layout) -> bool {
        let granularities = self.grains.iter().map(|grain| grain.granularity);
        self.grains.is_empty()
            || (granularities.eq(layout.granularities())
                && (self.archive.is_none() || layout.raw_timespan.is_some())
                && !self.recomputes(layout))
    }

    /// Whether new methods can be computed from raw points. Heads of earlier versions do not store their
    /// methods.
    fn recomputes(&self, layout: &Layout) -> bool {
        let is_stored = |method| self.methods.contains(method);
        self.archive.is_some() && !self.methods.is_empty() && !layout.methods.iter().all(is_stored)
    }

    /// The granularities of the head, finest first.
    pub fn granularities(&self) -> impl Iterator<Item = Timespan> + '_ {
        self.grains.iter().map(|grain| grain.granularity)
    }

    /// The final buckets of a granularity that are not sealed, as a block.
    pub fn open_block(&self, granularity: Timespan) -> Option<&[u8]> {
        match &self.grain(granularity)?.open {
            Open::Packed { bytes, .. } => Some(bytes),
            Open::Rows(_) => None,
        }
    }

    /// The range of the blocks of raw points that a conversion has to read.
    pub fn conversion_raw_needs(&self, blocks: &[BlockSpan]) -> Range<usize> {
        if self.archive.is_none() { 0..0 } else { blocks.len().saturating_sub(RAW_BLOCKS_MAX)..blocks.len() }
    }

    /// Starts a conversion. `stored` are the blocks of [`Head::conversion_raw_needs`]; `spans` lists all
    /// blocks.
    pub fn begin_conversion(
        &mut self,
        layout: &Layout,
        stored: &[StoredBlock<'_>],
        spans: impl Fn(Timespan) -> Vec<BlockSpan>,
    ) -> Result<Conversion> {
        let keeps_raw = self.archive.is_some();
        let parts = if keeps_raw { self.parts(stored)? } else { Vec::new() };
        let mut points: Vec<Measure> = parts.iter().flat_map(|part| part.points.iter().copied()).collect();
        points.extend_from_slice(&self.raw);
        let points = aggregated(&points, keeps_raw).into_owned();
        let is_cut = stored.len() < spans(raw::GRANULARITY).len();
        let points_from = self.complete_from(layout, &points, is_cut);
        let mut conversion = Conversion {
            composers: Vec::new(),
            cuts: Vec::new(),
            points,
            parts,
            points_from,
            recomputes: self.recomputes(layout),
        };
        for granularity in layout.granularities() {
            match self.grain(granularity) {
                Some(grain) if conversion.recomputes => {
                    let from = conversion.first_whole(granularity);
                    let is_cut = |(first, last): &BlockSpan| first.0 < from && last.0 >= from;
                    let cut = spans(granularity).into_iter().find(is_cut);
                    conversion
                        .cuts
                        .extend(cut.filter(|_| from < grain.final_until).map(|span| (granularity, span)));
                }
                Some(_) => {}
                None => conversion.composers.extend(self.composer(layout, granularity, &conversion)),
            }
        }
        Ok(conversion)
    }

    /// The time from which all points are known.
    fn complete_from(&self, layout: &Layout, points: &[Measure], is_cut: bool) -> i64 {
        let Some(archive) = &self.archive else { return self.raw_start() };
        let first = points.first().map_or(0, |point| point.timestamp.0);
        let known_from = if is_cut { archive.from.max(first) } else { archive.from };
        let from = known_from.max(archive.kept_from);
        // The first point has no difference, unless it is the metric's first. After expiry, one older point
        // remains.
        if layout.has_differences() && known_from > 0 && first >= known_from {
            return from.max(first.saturating_add(1));
        }
        from
    }

    fn composer(&self, layout: &Layout, granularity: Timespan, conversion: &Conversion) -> Option<Composer> {
        // Prefer the granularity that reaches back farthest, then the coarsest.
        let candidates = self.grains.iter().filter(|grain| divides(grain.granularity, granularity));
        let source =
            candidates.min_by_key(|grain| (grain.whole_from(), std::cmp::Reverse(grain.granularity)))?;
        let lost = self.lost_before.map_or(0, |lost| lost.0);
        let from = ceil(source.whole_from().max(lost), granularity.0);
        let first = conversion.first_whole(granularity);
        let mut until = first.min(source.final_until);
        if self.archive.is_none() {
            // Points that are in the head may still be joined by others. Buckets older than the timespan are
            // final before that.
            until = until.min(ceil(conversion.points_from, source.granularity.0));
        }
        let tail = source.partial.filter(|partial| partial.start < first && partial.start == until);
        Some(Composer::new(granularity, source.granularity, &layout.methods, from..until, tail))
    }

    /// Finishes a conversion after its composers got their blocks; `cuts` are the blocks of
    /// [`Conversion::cuts`].
    pub fn finish_conversion(
        &mut self,
        layout: &Layout,
        mut conversion: Conversion,
        cuts: &[StoredBlock<'_>],
        spans: impl Fn(Timespan) -> Vec<BlockSpan>,
    ) -> Result<()> {
        let mut composers = std::mem::take(&mut conversion.composers);
        let mut old = std::mem::take(&mut self.grains);
        let raw_start = old.iter().map(GrainState::points_from).fold(self.window, i64::min);
        let mut grains = Vec::new();
        for granularity in layout.granularities() {
            let known = old.iter().position(|grain| grain.granularity == granularity);
            let grain = if let Some(index) = known {
                let mut grain = old.swap_remove(index);
                if conversion.recomputes {
                    self.recompute(layout, &mut grain, &conversion, cuts, &spans(granularity))?;
                }
                grain
            } else {
                let index = composers.iter().position(|composer| composer.granularity == granularity);
                let composer = index.map(|index| composers.swap_remove(index));
                self.new_grain(layout, granularity, &conversion, composer)
            };
            grains.push(grain);
        }
        for grain in old {
            let granularity = grain.granularity;
            self.removed.extend(spans(granularity).into_iter().map(|span| (granularity, span)));
        }
        self.grains = grains;
        self.methods.clone_from(&layout.methods);
        self.place_points(layout, conversion, raw_start, &spans(raw::GRANULARITY));
        Ok(())
    }

    /// The grain of a granularity that was not stored.
    fn new_grain(
        &mut self,
        layout: &Layout,
        granularity: Timespan,
        conversion: &Conversion,
        composer: Option<Composer>,
    ) -> GrainState {
        let first = conversion.first_whole(granularity);
        let mut grain = GrainState::new(granularity, first);
        // Older buckets do not exist.
        grain.kept_from = first;
        if let Some(composer) = composer {
            let from = composer.from;
            let lacks_buckets = composer.lacks_buckets || (composer.is_empty && self.before.is_some());
            let Composed { blocks, open, partial, gap_until } = composer.finish();
            self.sealed.extend(blocks);
            grain.gap_until = gap_until;
            if open >= from && (partial.is_some() || !lacks_buckets) {
                grain.kept_from = from.min(first);
                grain.final_until = open.min(first);
                grain.partial = partial;
            }
        }
        let points =
            Points { raw: &conversion.points, before: self.before.filter(|_| conversion.parts.is_empty()) };
        let until = floor(self.window, granularity.0);
        grain.finalise(points, &layout.methods, until, &mut Buffers::default(), &mut self.sealed);
        grain.seal(&layout.methods, &mut self.sealed);
        grain
    }

    /// Recomputes the final buckets of a stored granularity, from the first whose points are all known.
    fn recompute(
        &mut self,
        layout: &Layout,
        grain: &mut GrainState,
        conversion: &Conversion,
        cuts: &[StoredBlock<'_>],
        spans: &[BlockSpan],
    ) -> Result<()> {
        let granularity = grain.granularity;
        let from = conversion.first_whole(granularity).max(grain.kept_from);
        if from >= grain.final_until {
            return Ok(());
        }
        if let Open::Packed { bytes, .. } = std::mem::take(&mut grain.open) {
            self.sealed.extend(before(granularity, &bytes, from)?);
        }
        for span in spans.iter().filter(|(_, last)| last.0 >= from) {
            self.removed.push((granularity, *span));
        }
        for cut in cuts.iter().filter(|cut| cut.granularity == granularity) {
            self.sealed.extend(before(granularity, cut.bytes, from)?);
        }
        let mut rows = Rows::new(layout.methods.len());
        let points = Points { raw: &conversion.points, before: None };
        let mut buffers = Buffers::default();
        let whole = GrainState::new(granularity, from);
        if let Some(dropped) =
            whole.push_lazy(points, &layout.methods, grain.final_until, &mut buffers, &mut rows)
        {
            grain.gap_until = dropped.0.saturating_add(granularity.0);
        }
        if !rows.is_empty() {
            self.sealed.extend(blocks_of_rows(granularity, &layout.methods, &rows));
        }
        Ok(())
    }

    /// Moves points that open buckets need back into the window; removes raw points if the layout keeps none.
    fn place_points(&mut self, layout: &Layout, conversion: Conversion, raw_start: i64, spans: &[BlockSpan]) {
        if self.archive.is_none() {
            return;
        }
        let start = self.raw_start();
        let mut parts = conversion.parts;
        if start < raw_start {
            let is_before = |point: &Measure| point.timestamp.0 < start;
            let points = parts.iter().flat_map(|part| part.points.iter());
            let mut raw: Vec<Measure> = points.filter(|point| !is_before(point)).copied().collect();
            raw.append(&mut self.raw);
            self.raw = raw;
            for part in &mut parts {
                part.retain(is_before);
            }
            let known = conversion.points.partition_point(is_before);
            self.before = conversion.points[..known].last().copied();
        }
        if layout.raw_timespan.is_some() {
            self.put_parts(parts);
            // Coarser buckets may start before the oldest points left.
            if let Some(archive) = &mut self.archive {
                archive.from = archive.from.max(archive.kept_from);
            }
        } else {
            self.archive = None;
            self.raw.retain(|point| !point.is_end_marker());
            self.removed.extend(spans.iter().map(|span| (raw::GRANULARITY, *span)));
        }
    }
}

impl Conversion {
    /// The first bucket of a granularity whose points are all known.
    fn first_whole(&self, granularity: Timespan) -> i64 {
        ceil(self.points_from, granularity.0)
    }
}

/// The buckets of a block that start before `time`, as blocks.
fn before(granularity: Timespan, bytes: &[u8], time: i64) -> Result<Vec<SealedBlock>> {
    let (methods, mut rows) = block::decode_all(bytes)?;
    rows.truncate(rows.starts.partition_point(|start| start.0 < time));
    let blocks = blocks_of_rows(granularity, &methods, &rows);
    Ok(if rows.is_empty() { Vec::new() } else { blocks.collect() })
}
