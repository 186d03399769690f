//! Drops metric names, and merges series that have the same labels afterwards.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::Context;
use crate::error::{Error, Result};
use crate::labels::Labels;
use crate::series::{Grid, RangeSeries, VectorSeries};
use crate::value::SampleSeries;

impl Context<'_> {
    /// One series per label set (series that lose their names at the end of the evaluation stay separate). Two of them must not have
    /// a value at the same step.
    pub(super) fn merge(&self, vector: Vec<VectorSeries>) -> Result<Vec<VectorSeries>> {
        let delayed = self.options.delayed_name_removal;
        let mut places: HashMap<(Labels, bool), usize> = HashMap::with_capacity(vector.len());
        let mut merged: Vec<VectorSeries> = Vec::with_capacity(vector.len());
        for series in vector {
            match places.entry((series.labels.clone(), delayed && series.drop_name)) {
                Entry::Vacant(entry) => {
                    entry.insert(merged.len());
                    merged.push(series);
                }
                Entry::Occupied(entry) => {
                    let into = &mut merged[*entry.get()];
                    if into.column.present.intersects(&series.column.present) {
                        return Err(Error::same_labelset());
                    }
                    for (step, value) in series.column.iter() {
                        into.column.set(step, value);
                    }
                }
            }
        }
        Ok(merged)
    }

    /// Drop the metric names: at once, or at the end of the evaluation.
    pub(super) fn drop_names(&self, mut vector: Vec<VectorSeries>) -> Result<Vec<VectorSeries>> {
        if self.options.delayed_name_removal {
            for series in &mut vector {
                series.drop_name = true;
            }
            return Ok(vector);
        }
        for series in &mut vector {
            series.labels = series.labels.without_metadata();
        }
        self.merge(vector)
    }

    /// Merges the result of an operation. For an instant query with delayed name removal, Prometheus does not check for
    /// duplicates here.
    pub(super) fn merge_result(&self, vector: Vec<VectorSeries>, grid: &Grid) -> Result<Vec<VectorSeries>> {
        if self.options.delayed_name_removal && grid.is_instant() {
            return Ok(vector);
        }
        self.merge(vector)
    }

    /// Drops the names marked for removal.
    pub(super) fn finish_names(&self, mut vector: Vec<VectorSeries>) -> Result<Vec<VectorSeries>> {
        for series in vector.iter_mut().filter(|series| series.drop_name) {
            series.labels = series.labels.without_metadata();
            series.drop_name = false;
        }
        self.merge(vector)
    }

    /// The matrix of an instant query whose value is a range vector.
    pub(super) fn finish_ranges(&self, ranges: Vec<RangeSeries<'_>>) -> Result<Vec<SampleSeries>> {
        let delayed = self.options.delayed_name_removal;
        let sample_series = |series: RangeSeries<'_>| {
            let drops = delayed && series.drop_name;
            let labels = if drops { series.labels.without_metadata() } else { series.labels };
            let samples = series.times.iter().copied().zip(series.values.iter().copied()).collect();
            SampleSeries { labels, samples }
        };
        let mut matrix: Vec<SampleSeries> = ranges.into_iter().map(sample_series).collect();
        matrix.retain(|series| !series.samples.is_empty());
        matrix.sort_by(|a, b| a.labels.cmp(&b.labels));
        let mut merged: Vec<SampleSeries> = Vec::with_capacity(matrix.len());
        for series in matrix {
            match merged.last_mut() {
                Some(last) if last.labels == series.labels => {
                    last.samples.extend(series.samples);
                    last.samples.sort_by_key(|sample| sample.0);
                    if last.samples.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                        return Err(Error::same_labelset());
                    }
                }
                _ => merged.push(series),
            }
        }
        Ok(merged)
    }
}
