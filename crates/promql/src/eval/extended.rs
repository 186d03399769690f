//! `anchored` and `smoothed` selectors without a function. `functions::extended` has their functions.

use super::Context;
use super::selector::PartitionPointNear;
use crate::error::Result;
use crate::functions::{Samples, extended};
use crate::plan::{Extension, Window};
use crate::series::{Column, Grid, RangeSeries, VectorSeries};

/// How far outside of a window samples are read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reach {
    pub before: i64,
    pub behind: i64,
}

impl Context<'_> {
    pub(super) fn reach(&self, series: &RangeSeries<'_>, extension: Option<Extension>) -> Reach {
        let lookback_ms = series.lookback_ms.unwrap_or(self.options.lookback_ms);
        match extension {
            None => Reach::default(),
            Some(Extension::Anchored) => Reach { before: lookback_ms, behind: 0 },
            Some(Extension::Smoothed) => Reach { before: lookback_ms, behind: lookback_ms },
        }
    }

    /// An instant vector interpolated between samples; after the last sample its value stays.
    pub(super) fn smoothed_vector(&self, selector: usize, grid: &Grid) -> Result<Vec<VectorSeries>> {
        let window = self.plan.selectors[selector].window;
        let ranges = self.ranges(selector)?;
        let samples: usize = ranges.iter().map(|series| series.times.len()).sum();
        self.for_each(&ranges, samples + ranges.len() * grid.steps, |series| {
            self.budget.columns(1, grid.steps)?;
            let mut column = Column::new(grid.steps);
            let (times, values) = (&series.times, &series.values);
            let reach = self.reach(series, Some(Extension::Smoothed));
            let mut before = 0;
            for (step, time) in grid.times().enumerate() {
                let reference = window.reference(time);
                before += times[before..].partition_point_near(reference);
                let Some(last) = before.checked_sub(1) else { continue };
                if times[last] <= reference - reach.before {
                    continue;
                }
                let next = times.get(before).filter(|next| **next <= reference + reach.behind);
                let value = match next {
                    Some(next) if times[last] < reference => {
                        let share = (reference - times[last]) as f64;
                        values[last] + (values[before] - values[last]) * share / (next - times[last]) as f64
                    }
                    _ => values[last],
                };
                column.set(step, value);
            }
            let count = column.present.count();
            self.budget.samples(count)?;
            self.budget.count_samples(count, count);
            Ok(VectorSeries { labels: series.labels.clone(), drop_name: false, column })
        })
    }

    /// The samples of a window, with one at each of its borders.
    pub(super) fn bordered(
        &self,
        series: &mut RangeSeries<'_>,
        window: &Window,
        end: i64,
        extension: Extension,
    ) {
        let reach = self.reach(series, Some(extension));
        let (start, times) = (end - window.range, &series.times);
        let first = times.partition_point(|time| *time <= start - reach.before);
        let last = times.partition_point(|time| *time <= end + reach.behind).max(first);
        let (mut times, mut values) = (Vec::new(), Vec::new());
        if first < last {
            let samples = Samples {
                times: &series.times[first..last],
                values: &series.values[first..last],
                counts: None,
                time: end,
                window_start: start,
                window_end: end,
            };
            if let Some(found) = extended::borders(&samples, extension == Extension::Smoothed, false) {
                times = [&[start], found.times, &[end]].concat();
                values = [&[found.left], found.values, &[found.right]].concat();
            }
        }
        (series.times, series.values, series.counts) = (times.into(), values.into(), None);
    }
}
