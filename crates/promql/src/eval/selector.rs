//! Selectors: instant vectors with lookback, samples of range vectors, and the distribution of series over threads.

use std::borrow::Cow;

use super::pushdown::Selected;
use super::{Context, Meter};
use crate::error::Result;
use crate::plan::{Extension, Window};
use crate::series::{Column, Grid, RangeSeries, Series, VectorSeries, is_stale};

/// Work (samples and steps) for each thread; less than twice as much stays on one.
const WORK_PER_THREAD: usize = 1 << 16;

impl<'a> Context<'a> {
    /// Applies a function to each item, using several threads if allowed and worthwhile. Results are in order, without series that
    /// have no value.
    pub(super) fn for_each<T: Sync>(
        &self,
        items: &[T],
        work: usize,
        apply: impl Fn(&T) -> Result<VectorSeries> + Sync,
    ) -> Result<Vec<VectorSeries>> {
        let run = |part: &[T]| -> Result<Vec<VectorSeries>> {
            let checked = |item| self.check().and_then(|()| apply(item));
            let mut vector: Vec<VectorSeries> = part.iter().map(checked).collect::<Result<_>>()?;
            vector.retain(|series| series.column.present.any());
            Ok(vector)
        };
        let threads = self.options.threads.min(work / WORK_PER_THREAD).min(items.len());
        if threads < 2 {
            return run(items);
        }
        let parts = items.chunks(items.len().div_ceil(threads));
        let results: Vec<Result<Vec<VectorSeries>>> = std::thread::scope(|scope| {
            let run = &run;
            let handles: Vec<_> = parts.map(|part| scope.spawn(move || run(part))).collect();
            let join = |handle: std::thread::ScopedJoinHandle<'_, _>| {
                handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            handles.into_iter().map(join).collect()
        });
        let mut joined = Vec::with_capacity(items.len());
        for result in results {
            joined.extend(result?);
        }
        Ok(joined)
    }

    /// The series of a selector, and the number of their samples.
    fn selected(&self, selector: usize) -> (&'a [Series], usize) {
        let Selected::Samples(series) = &self.series[selector] else {
            unreachable!("all uses of the selector take what was evaluated while reading");
        };
        self.budget.count_series(series.len());
        let samples = series.iter().map(|series| series.values.len()).sum();
        (series, samples)
    }

    /// An instant vector: at each step the last sample that is younger than the lookback, unless it is a staleness marker.
    pub(super) fn vector(&self, selector: usize, grid: &Grid) -> Result<Vec<VectorSeries>> {
        if let Some(vector) = self.evaluated(selector) {
            return vector;
        }
        if self.plan.selectors[selector].extension == Some(Extension::Smoothed) {
            return self.smoothed_vector(selector, grid);
        }
        let window = self.plan.selectors[selector].window;
        self.vector_of(selector, window, grid, |series, at| series.values[at])
    }

    /// The times that the function `timestamp` returns: with `@`, Prometheus reads samples with the offset, but evaluates without it.
    pub(super) fn timestamps(&self, selector: usize, grid: &Grid) -> Result<Vec<VectorSeries>> {
        let mut window = self.plan.selectors[selector].window;
        if window.at.is_some() {
            window.offset = 0;
        }
        self.times_of(selector, window, grid)
    }

    /// The times of an instant vector's samples, in seconds.
    pub(super) fn times_of(&self, selector: usize, window: Window, grid: &Grid) -> Result<Vec<VectorSeries>> {
        self.vector_of(selector, window, grid, |series, at| series.times_ms[at] as f64 / 1000.0)
    }

    fn vector_of(
        &self,
        selector: usize,
        window: Window,
        grid: &Grid,
        read: impl Fn(&Series, usize) -> f64 + Sync,
    ) -> Result<Vec<VectorSeries>> {
        let (selected, samples) = self.selected(selector);
        let work = samples + selected.len() * grid.steps;
        let latest = Latest { window, lookback_ms: self.options.lookback_ms, grid: *grid };
        self.for_each(selected, work, |series| {
            let column = latest.column(series, self.meter(), &read)?;
            Ok(VectorSeries { labels: series.labels.clone(), drop_name: false, column })
        })
    }

    /// All samples of a range vector's series, without staleness markers.
    pub(super) fn ranges(&self, selector: usize) -> Result<Vec<RangeSeries<'a>>> {
        let (selected, _) = self.selected(selector);
        let mut ranges = Vec::with_capacity(selected.len());
        for series in selected {
            self.check()?;
            ranges.push(without_stale(series));
        }
        Ok(ranges)
    }

    /// The value of a range selector without a function: its samples at the only step.
    pub(super) fn range_of_instant(&self, selector: usize, grid: &Grid) -> Result<Vec<RangeSeries<'a>>> {
        let window = self.plan.selectors[selector].window;
        let end = window.reference(grid.start);
        let mut ranges = self.ranges(selector)?;
        for series in &mut ranges {
            if let Some(extension) = self.plan.selectors[selector].extension {
                self.bordered(series, &window, end, extension);
                continue;
            }
            let first = series.times.partition_point(|time| *time <= end - window.range);
            let last = series.times.partition_point(|time| *time <= end).max(first);
            series.times = series.times[first..last].to_vec().into();
            series.values = series.values[first..last].to_vec().into();
            series.counts = series.counts.take().map(|counts| counts[first..last].to_vec().into());
        }
        ranges.retain(|series| !series.times.is_empty());
        let samples = ranges.iter().map(|series| series.times.len()).sum();
        self.budget.count_samples(samples, samples);
        Ok(ranges)
    }
}

/// An instant vector, evaluated for one series at a time.
#[derive(Clone, Copy)]
pub(super) struct Latest {
    pub window: Window,
    pub lookback_ms: i64,
    pub grid: Grid,
}

impl Latest {
    /// `read` gets the index of a sample.
    pub fn column(
        &self,
        series: &Series,
        meter: Meter<'_>,
        read: impl Fn(&Series, usize) -> f64,
    ) -> Result<Column> {
        meter.budget.columns(1, self.grid.steps)?;
        let mut column = Column::new(self.grid.steps);
        let lookback_ms = series.lookback_ms.unwrap_or(self.lookback_ms);
        let mut next = 0;
        for (step, time) in self.grid.times().enumerate() {
            let reference = self.window.reference(time);
            next += series.times_ms[next..].partition_point_near(reference);
            let Some(at) = next.checked_sub(1) else { continue };
            let young = series.times_ms[at] > reference - lookback_ms;
            if young && !is_stale(series.values[at]) {
                column.set(step, read(series, at));
            }
        }
        let count = column.present.count();
        meter.budget.samples(count)?;
        meter.budget.count_samples(count, count);
        Ok(column)
    }
}

/// All samples except staleness markers; borrowed if there are none of these.
pub(super) fn without_stale(series: &Series) -> RangeSeries<'_> {
    let (labels, drop_name, lookback_ms) = (series.labels.clone(), false, series.lookback_ms);
    if !series.values.iter().any(|value| is_stale(*value)) {
        let (times, values) = (Cow::Borrowed(&series.times_ms[..]), Cow::Borrowed(&series.values[..]));
        let counts = series.counts.as_ref().map(|counts| Cow::Borrowed(&counts[..]));
        return RangeSeries { labels, drop_name, times, values, lookback_ms, counts };
    }
    let kept = || (0..series.values.len()).filter(|at| !is_stale(series.values[*at]));
    RangeSeries {
        labels,
        drop_name,
        times: kept().map(|at| series.times_ms[at]).collect(),
        values: kept().map(|at| series.values[at]).collect(),
        lookback_ms,
        counts: series.counts.as_ref().map(|counts| kept().map(|at| counts[at]).collect()),
    }
}

/// A galloping search: fast if the result is near the start, as from one step to the next.
pub(super) trait PartitionPointNear {
    /// The number of leading times that are not after `limit`.
    fn partition_point_near(&self, limit: i64) -> usize;
}

impl PartitionPointNear for [i64] {
    fn partition_point_near(&self, limit: i64) -> usize {
        let mut reach = 1;
        while reach <= self.len() && self[reach - 1] <= limit {
            reach *= 2;
        }
        let low = reach / 2;
        let high = reach.min(self.len());
        low + self[low..high].partition_point(|time| *time <= limit)
    }
}
