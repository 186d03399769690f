//! Applies one request to a head; the result equals a Gnocchi pass over that request alone.

use gnudi_model::{AggregationMethod, Measure, Statistic, Timestamp};

use super::{
    Head,
    archive::{Archive, oldest_needed},
    grain::{GrainState, Open, Points, aggregated},
    marks::{Cut, Pass},
};
use crate::{
    aggregate::Workspace,
    layout::{Layout, ceil, floor, split_start},
};

/// Raw points expire in steps of this fraction of their timespan.
const EXPIRY_STEPS: i64 = 32;

/// The numbers of a request's accepted and late points, by distinct times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoldOutcome {
    /// Includes those that [`Head::merge_late`] has to merge.
    pub accepted: usize,
    /// Dropped: older than the back window and than the range in which the policy accepts late points.
    pub late: usize,
}

/// A bucket's rates before the request was merged.
#[derive(Clone, Copy, Debug, Default)]
struct OldRates {
    points: usize,
    rate: Option<f64>,
    std: Option<f64>,
}

impl Head {
    /// Applies the points of the request at `position`, in any order; sorts them. A position not after
    /// [`Head::applied`] changes nothing. A new point replaces an old one with the same time; within a
    /// request the smallest value of a time stays, NaN being the largest.
    pub fn fold(&mut self, layout: &Layout, position: u64, points: &mut Vec<Measure>) -> FoldOutcome {
        if position <= self.applied {
            return FoldOutcome::default();
        }
        self.applied = position;
        if layout.raw_timespan.is_none() && points.iter().any(Measure::is_end_marker) {
            points.retain(|point| !point.is_end_marker());
        }
        sort_and_dedup(points);
        let Some(first) = points.first() else { return FoldOutcome::default() };
        let earliest = first.timestamp.0;
        self.match_grains(layout);
        let limit = match self.last() {
            Some(last) => layout.window_start(last).0.max(self.window),
            None => self.window,
        };
        let before_window = points.partition_point(|point| point.timestamp.0 < limit);
        let late = self.take_late(layout, &points[..before_window]);
        let accepted = &points[before_window..];
        self.late_dropped += late as u64;
        let outcome = FoldOutcome { accepted: points.len() - late, late };
        let Some(newest) = accepted.last().or(self.raw.last()).map(|point| point.timestamp) else {
            return outcome;
        };
        // Even if all points are late: the policy's window may have changed.
        let newest = self.last().map_or(newest, |last| last.max(newest));
        let window = layout.window_start(newest);
        self.expire(layout, newest, window);
        self.note_gaps(accepted);
        if layout.depends_on_passes() {
            self.merge_marked(layout, earliest, accepted);
        } else {
            merge(&mut self.raw, accepted);
        }
        self.move_window(layout, window.0);
        outcome
    }

    /// Applies the measures that wait in the store that the head was imported from, as one pass over all of
    /// them does there. Returns how many of them the head does not have with the same value: an earlier import
    /// may have taken some.
    pub fn fold_waiting(&mut self, layout: &Layout, mut points: Vec<Measure>) -> usize {
        sort_and_dedup(&mut points);
        let missing = self.missing(&points);
        let count = missing.len();
        // A pass begins at its first point, also at one that came once more. (Such a head is always made of the
        // other store's data alone: [`Head::follows`].)
        let mut points = if layout.depends_on_passes() { points } else { missing };
        self.fold_import(layout, &mut points);
        count
    }

    /// Queues the late points that the policy accepts, with raw points or by adding them to buckets. Returns
    /// the number of dropped points.
    fn take_late(&mut self, layout: &Layout, points: &[Measure]) -> usize {
        let Some(timespan) = layout.raw_timespan else {
            return if layout.adds_late { self.add_late(layout, points) } else { points.len() };
        };
        if self.archive.is_none() {
            // Earlier points are gone, except those in `raw`. Those from before a loss may be missing too.
            let lost = self.lost_before.map_or(0, |lost| lost.0);
            let from = self.raw_start().max(lost);
            let mut archive = Archive { from, ..Archive::default() };
            // A late point recomputes the first bucket, whose first rate needs the point before.
            let before = self.before.filter(|before| (lost..from).contains(&before.timestamp.0));
            archive.push(before.as_slice(), &mut self.sealed);
            self.archive = Some(archive);
        }
        let Some(archive) = self.archive.as_ref().filter(|_| !points.is_empty()) else { return points.len() };
        // A bucket is computed from all of its points or not at all. Some have expired if the timespan was shorter.
        let from = archive.from.max(archive.kept_from);
        let whole = layout.granularities().map(|granularity| ceil(from, granularity.0));
        let whole = whole.max().unwrap_or(0);
        let reach = self.newest_from(layout).0.saturating_sub(timespan.0).max(whole);
        let dropped = points.partition_point(|point| point.timestamp.0 < reach);
        merge(&mut self.late, &points[dropped..]);
        dropped
    }

    /// Creates the grains at the first fold, and adopts the layout's methods. If granularities changed, the
    /// head has been converted before.
    pub(super) fn match_grains(&mut self, layout: &Layout) {
        if self.methods != layout.methods {
            let methods = std::mem::replace(&mut self.methods, layout.methods.clone());
            for grain in self.grains.iter_mut().filter(|grain| matches!(grain.open, Open::Rows(_))) {
                grain.seal(&methods, &mut self.sealed);
            }
        }
        let fits = self.grains.iter().map(|grain| grain.granularity).eq(layout.granularities());
        if !fits {
            let mut old = std::mem::take(&mut self.grains);
            let window = self.window;
            self.grains.extend(layout.granularities().map(|granularity| {
                let known = old.iter().position(|grain| grain.granularity == granularity);
                known.map_or_else(
                    || GrainState::new(granularity, floor(window, granularity.0)),
                    |index| old.swap_remove(index),
                )
            }));
        }
    }

    /// Before a merge that makes `newest` the newest point: finalises buckets older than the timespan, and
    /// expires splits. Gnocchi stores no bucket older than the timespan, so a stored bucket inside the window
    /// keeps its current value.
    fn expire(&mut self, layout: &Layout, newest: Timestamp, window: Timestamp) {
        let previous = self.last().map(|last| layout.window_start(last));
        for (grain, limits) in self.grains.iter_mut().zip(&layout.grains) {
            let Some(timespan) = limits.timespan else { continue };
            let step = grain.granularity;
            let passed = || Timestamp(floor(newest.0, step.0).saturating_sub(timespan.0));
            if newest.0.saturating_sub(timespan.0).saturating_add(step.0) > grain.final_until {
                let until = floor(passed().0, step.0).saturating_add(step.0);
                let raw = aggregated(&self.raw, self.archive.is_some());
                let points = Points { raw: &raw, before: self.before };
                grain.finalise(points, &layout.methods, until, &mut self.buffers, &mut self.sealed);
            }
            let split = |window| split_start(window, step);
            if previous.is_some_and(|previous| previous != window && split(previous) != split(window)) {
                let oldest = split(passed()).0;
                if oldest > grain.kept_from {
                    grain.kept_from = oldest;
                    self.expiry_moved = true;
                }
            }
        }
        if let (Some(archive), Some(timespan)) = (&mut self.archive, layout.raw_timespan) {
            // In steps, so that blocks are checked only occasionally.
            let step = (timespan.0 / EXPIRY_STEPS).max(layout.block_size.0);
            let oldest = oldest_needed(newest, timespan, layout.block_size);
            if oldest >= archive.kept_from.saturating_add(step) {
                archive.kept_from = floor(oldest, step);
                self.expiry_moved = true;
            }
        }
    }

    /// Before merging: records which final buckets lack some of these points. They are older than the
    /// timespan, or than a new granularity.
    fn note_gaps(&mut self, accepted: &[Measure]) {
        let Some(first) = accepted.first() else { return };
        for grain in self.grains.iter_mut().filter(|grain| first.timestamp.0 < grain.final_until) {
            let count = accepted.partition_point(|point| point.timestamp.0 < grain.final_until);
            let last = floor(accepted[count - 1].timestamp.0, grain.granularity.0);
            grain.gap_until = grain.gap_until.max(last.saturating_add(grain.granularity.0));
        }
    }

    /// Merges; records for each granularity where this pass computes from and which point has no rate.
    fn merge_marked(&mut self, layout: &Layout, earliest: i64, accepted: &[Measure]) {
        let in_window = self.raw.partition_point(|point| point.timestamp.0 < self.window);
        let oldest = [self.raw.get(in_window), accepted.first()];
        // None if all points are late and the window's points were removed.
        let oldest = oldest.into_iter().flatten().map(|point| point.timestamp.0).min();
        let Some(oldest) = oldest else { return };
        let start = oldest.max(earliest);
        let old_rates = |grain| layout.has_rate.then(|| self.old_rates(grain, start, accepted));
        let old: Vec<Option<OldRates>> = self.grains.iter().map(old_rates).collect();
        merge(&mut self.raw, accepted);
        let window = self.window;
        for (grain, old) in self.grains.iter_mut().zip(old) {
            let step = grain.granularity.0;
            let start = floor(start, step);
            let cut = old.and_then(|old| new_cut(&self.raw, step, start, window, old));
            let pass = Pass { start, dropped: 0, cut: cut.is_some() };
            // A final bucket already has its rates.
            let cut = cut.filter(|cut| cut.time >= grain.final_until);
            grain.marks.record(start.max(grain.final_until), cut, layout.has_percentile.then_some(pass));
        }
    }

    /// Before merging `accepted`: the rates of the bucket that will contain the pass's first point. The pass
    /// computes from the bucket of `start` on; the first point may be in a later one, as `start` may be a
    /// late point's time.
    fn old_rates(&self, grain: &GrainState, start: i64, accepted: &[Measure]) -> OldRates {
        let step = grain.granularity.0;
        let after = |points: &[Measure], time| points.partition_point(|point| point.timestamp.0 < time);
        let start = floor(start, step);
        let held = self.raw.get(after(&self.raw, start));
        let first = [held, accepted.get(after(accepted, start))].into_iter().flatten();
        let bucket = first.map(|point| floor(point.timestamp.0, step)).min().expect("a pass has points");
        let from = after(&self.raw, bucket);
        let points = after(&self.raw[from..], bucket.saturating_add(step));
        let previous = if from > 0 { Some(self.raw[from - 1]) } else { self.before };
        let value = |index: usize| self.raw[from + index].value;
        let cut = (points > 0).then(|| grain.marks.cut_at(self.raw[from].timestamp.0)).flatten();
        let first = previous.filter(|_| points > 0).map(|previous| value(0) - previous.value);
        let mut old = OldRates { points, rate: None, std: None };
        match (points, cut, first) {
            (1, Some(cut), _) => old.rate = cut.rate,
            (1, None, first) => old.rate = first,
            (2, Some(cut), _) => old.std = cut.std,
            (2, None, Some(first)) => old.std = Some(std_of_two(first, value(1) - value(0))),
            _ => {}
        }
        old
    }

    /// After a merge: finalises the buckets that leave the window and drops their points.
    fn move_window(&mut self, layout: &Layout, window: i64) {
        if window > self.window {
            self.window = window;
            let raw = aggregated(&self.raw, self.archive.is_some());
            let points = Points { raw: &raw, before: self.before };
            for grain in &mut self.grains {
                let until = floor(window, grain.granularity.0);
                grain.finalise(points, &layout.methods, until, &mut self.buffers, &mut self.sealed);
            }
            let oldest = self.grains.iter().map(|grain| grain.final_until).fold(window, i64::min);
            let count = self.raw.partition_point(|point| point.timestamp.0 < oldest);
            for grain in &mut self.grains {
                grain.marks.forget(&self.raw[..count], grain.final_until);
            }
            if let Some(before) = raw[..raw.partition_point(|point| point.timestamp.0 < oldest)].last() {
                let is_needed = layout.has_differences() || self.archive.is_some();
                self.before = is_needed.then_some(*before);
            }
            if let Some(archive) = &mut self.archive {
                archive.push(&self.raw[..count], &mut self.sealed);
            }
            self.raw.drain(..count);
        }
        for grain in self.grains.iter_mut().filter(|grain| grain.is_full()) {
            grain.seal(&layout.methods, &mut self.sealed);
        }
    }
}

/// The std of two values, bit for bit as [`Workspace`] computes it.
fn std_of_two(a: f64, b: f64) -> f64 {
    let mut column = [Vec::new()];
    Workspace::whole(vec![a, b]).push_columns(&[AggregationMethod::new(Statistic::Std)], &mut column);
    column[0][0]
}

/// The cut of a pass that computes from `start`: its first point, unless the point before is at most one
/// bucket earlier and still in the window.
fn new_cut(raw: &[Measure], step: i64, start: i64, window: i64, old: OldRates) -> Option<Cut> {
    let first = raw.partition_point(|point| point.timestamp.0 < start);
    let reach = floor(window, step).max(start.saturating_sub(step));
    if first > 0 && raw[first - 1].timestamp.0 >= reach {
        return None;
    }
    let end = floor(raw[first].timestamp.0, step).saturating_add(step);
    let points = raw[first..].partition_point(|point| point.timestamp.0 < end);
    Some(Cut {
        time: raw[first].timestamp.0,
        rate: old.rate.filter(|_| points == 1 && old.points == 1),
        std: old.std.filter(|_| points == 2 && old.points == 2),
    })
}

/// Sorts by time and keeps the smallest value of each time, NaN being the largest; of 0.0 and -0.0 the first.
fn sort_and_dedup(points: &mut Vec<Measure>) {
    if points.windows(2).all(|pair| pair[0].timestamp < pair[1].timestamp) {
        return;
    }
    points.sort_by(|a, b| {
        let nan_last = || a.value.is_nan().cmp(&b.value.is_nan());
        a.timestamp.cmp(&b.timestamp).then_with(|| a.value.partial_cmp(&b.value).unwrap_or_else(nan_last))
    });
    points.dedup_by_key(|point| point.timestamp);
}

/// Merges two series, each with distinct times; `new` wins where both have a time.
pub(super) fn merge(raw: &mut Vec<Measure>, new: &[Measure]) {
    let Some(first) = new.first() else { return };
    let from = match raw.last() {
        Some(last) if last.timestamp >= first.timestamp => {
            raw.partition_point(|point| point.timestamp < first.timestamp)
        }
        _ => raw.len(),
    };
    if from == raw.len() {
        raw.extend_from_slice(new);
        return;
    }
    let old = raw.split_off(from);
    let (mut old, mut new) = (old.as_slice(), new);
    while let ([point, old_rest @ ..], [next, new_rest @ ..]) = (old, new) {
        if point.timestamp < next.timestamp {
            raw.push(*point);
            old = old_rest;
        } else {
            raw.push(*next);
            new = new_rest;
            if point.timestamp == next.timestamp {
                old = old_rest;
            }
        }
    }
    raw.extend_from_slice(old);
    raw.extend_from_slice(new);
}
