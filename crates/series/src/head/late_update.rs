//! Late points of policies that keep no raw points and accept late points: each is added to the final buckets
//! of its time. Such policies have only methods that can be updated from the stored values and one more point
//! ([`gnudi_model::ArchivePolicy::check_late`]).
//!
//! Counts, minima and maxima are exact. Sums accumulate in order of arrival, so the last digit may differ
//! from a sum in time order; sums of whole numbers are exact. The points of a final bucket are unknown, so a
//! point that is sent twice counts twice.
//!
//! The steps are those of [`super::late`], without the blocks of raw points.

use gnudi_model::{AggregationMethod, ArchivePolicy, Measure, Timestamp};

use super::{
    Head,
    fold::merge,
    late::{GrainRows, LateRows, New},
};
use crate::{
    aggregate,
    layout::{Layout, floor},
    rows::Rows,
};

impl Head {
    /// Takes late points, in order. Points of buckets that are not final are merged into `raw`, or added to
    /// the known part of a partial bucket; those of final buckets wait for [`Head::merge_late`]. Returns the
    /// number of dropped points: all their buckets have expired or may lack other points, or their time is taken.
    pub(super) fn add_late(&mut self, layout: &Layout, points: &[Measure]) -> usize {
        let newest = self.newest_from(layout);
        let mut open = Vec::new();
        let mut dropped = 0;
        for point in points {
            if self.raw.binary_search_by_key(&point.timestamp, |known| known.timestamp).is_ok() {
                dropped += 1;
                continue;
            }
            let (mut is_open, mut is_added, mut is_composed) = (false, false, false);
            for (grain, limits) in self.grains.iter_mut().zip(&layout.grains) {
                let start = floor(point.timestamp.0, grain.granularity.0);
                let partial = grain.partial.as_mut();
                if let Some(partial) = partial.filter(|partial| partial.includes(start, point.timestamp)) {
                    partial.composite.add_late(point.value);
                    is_composed = true;
                } else if start >= grain.final_until {
                    is_open = true;
                } else if start >= grain.oldest_late(limits.timespan, newest).max(grain.gap_until) {
                    grain.late.push((Timestamp(start), point.value));
                    is_added = true;
                }
            }
            if is_open {
                open.push(*point);
            }
            if is_added {
                self.late.push(*point);
            }
            if !is_open && !is_added && !is_composed {
                dropped += 1;
                continue;
            }
            for (grain, limits) in self.grains.iter_mut().zip(&layout.grains) {
                grain.note_late_gap(point.timestamp, grain.oldest_late(limits.timespan, newest));
            }
        }
        merge(&mut self.raw, &open);
        dropped
    }

    /// The pending points of [`Head::add_late`], by bucket.
    pub(super) fn added_rows(&mut self) -> LateRows {
        self.late.clear();
        let grains = self.grains.iter_mut().filter(|grain| !grain.late.is_empty());
        let rows = grains.map(|grain| {
            let mut late = std::mem::take(&mut grain.late);
            // Drops what has expired since.
            late.retain(|(start, _)| start.0 >= grain.kept_from);
            // Stable: the values of a bucket stay in order of arrival.
            late.sort_by_key(|(start, _)| *start);
            let of_buckets = late.chunk_by(|a, b| a.0 == b.0);
            let (buckets, values) = of_buckets
                .map(|of_bucket| (of_bucket[0].0, of_bucket.iter().map(|(_, value)| *value).collect()))
                .unzip();
            GrainRows { granularity: grain.granularity, cleared: None, buckets, new: New::Values(values) }
        });
        LateRows(rows.filter(|rows| !rows.buckets.is_empty()).collect())
    }
}

/// Whether values can be added to buckets of these methods.
pub(super) fn take_values(methods: &[AggregationMethod]) -> bool {
    ArchivePolicy::refused_for_late(&methods.iter().copied().collect()).is_empty()
}

/// The rows of `buckets` after adding `values`; those in `stored` are updated.
pub(super) fn with_values(
    methods: &[AggregationMethod],
    stored: &Rows,
    buckets: &[Timestamp],
    values: &[Vec<f64>],
) -> Rows {
    let mut rows = Rows::new(methods.len());
    for (bucket, values) in buckets.iter().zip(values) {
        let row = stored.starts.binary_search(bucket).ok().map(|row| stored.row(row));
        rows.starts.push(*bucket);
        let row = aggregate::with_values(methods, row.as_deref(), values);
        rows.columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
    }
    rows
}
