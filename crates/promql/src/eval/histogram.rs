//! Functions of classic histograms: series that differ in the label `le` only are the buckets of one histogram.

use std::collections::HashMap;

use super::Context;
use super::call::texts;
use crate::error::Result;
use crate::functions::histogram::{Bucket, fraction, quantile};
use crate::labels::Labels;
use crate::numbers::general;
use crate::plan::{Call, Node};
use crate::series::{Bits, Column, Grid, VectorSeries};

const BUCKET: &str = "le";

/// A histogram over all steps.
struct Histogram {
    labels: Labels,
    buckets: Vec<(f64, Column)>,
}

impl Histogram {
    fn steps(&self, grid: &Grid) -> Bits {
        Bits::union(grid.steps, self.buckets.iter().map(|(_, column)| column))
    }

    fn at(&self, step: usize) -> Vec<Bucket> {
        let bucket = |(upper_bound, column): &(f64, Column)| {
            column.get(step).map(|count| Bucket { upper_bound: *upper_bound, count })
        };
        self.buckets.iter().filter_map(bucket).collect()
    }
}

/// A bound as Go reads it: `+Inf`, `1e3` and so on. NaN is no bound, and neither is a number that is too large. Go's hexadecimal
/// numbers and underscores are not supported.
fn bound(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    let overflows = number.is_infinite() && text.contains(|c: char| c.is_ascii_digit());
    (!number.is_nan() && !overflows).then_some(number)
}

impl Context<'_> {
    fn histograms(&self, arg: &Node, at: usize, grid: &Grid) -> Result<Vec<Histogram>> {
        let vector = self.eval_vector(arg, grid)?;
        let mut places: HashMap<Labels, usize> = HashMap::new();
        let mut histograms: Vec<Histogram> = Vec::new();
        for series in vector {
            let text = series.labels.get(BUCKET);
            let Some(upper_bound) = bound(text) else {
                let name = self.name_of(&series.labels);
                self.annotate(|annotations| annotations.bad_bucket_label(name, text, at));
                continue;
            };
            let labels = series.labels.filtered(|name| name != BUCKET);
            let place = *places.entry(labels.clone()).or_insert_with(|| {
                histograms.push(Histogram { labels, buckets: Vec::new() });
                histograms.len() - 1
            });
            histograms[place].buckets.push((upper_bound, series.column));
        }
        Ok(histograms)
    }

    /// The metric's name for annotations.
    fn name_of<'l>(&self, labels: &'l Labels) -> &'l str {
        if self.options.delayed_name_removal { labels.metric_name() } else { "" }
    }

    fn check_histogram_quantiles(&self, qs: &[f64], at: usize) {
        for q in qs.iter().filter(|q| !(0.0..=1.0).contains(*q)) {
            self.annotate(|annotations| annotations.quantile_out_of_range(*q, at));
        }
    }

    /// The quantile of one histogram at one step.
    fn quantile_at(&self, q: f64, histogram: &Histogram, at: usize, step: usize, grid: &Grid) -> f64 {
        let (value, forced) = quantile(q, histogram.at(step));
        if let Some(forced) = forced {
            let (name, time) = (self.name_of(&histogram.labels), grid.time(step));
            self.annotate(|annotations| annotations.forced_monotonicity(name, forced, time, at));
        }
        value
    }

    /// A value for each histogram and step.
    fn of_histograms(
        &self,
        histograms: &[Histogram],
        grid: &Grid,
        value: impl Fn(&Histogram, usize) -> f64,
    ) -> Result<Vec<VectorSeries>> {
        let mut vector = Vec::with_capacity(histograms.len());
        let mut polls = self.meter().polls();
        for histogram in histograms {
            self.budget.columns(1, grid.steps)?;
            let mut column = Column::new(grid.steps);
            for step in histogram.steps(grid).iter() {
                polls.before(histogram.buckets.len())?;
                column.set(step, value(histogram, step));
            }
            vector.push(VectorSeries { labels: histogram.labels.clone(), drop_name: false, column });
        }
        self.drop_names(vector)
    }

    pub(super) fn histogram_quantile(&self, call: &Call, grid: &Grid) -> Result<Vec<VectorSeries>> {
        let (args, at) = (&call.args, &call.args_at);
        let qs = self.eval_scalar(&args[0], grid)?;
        let histograms = self.histograms(&args[1], at[1], grid)?;
        self.check_histogram_quantiles(&qs, at[0]);
        self.of_histograms(&histograms, grid, |histogram, step| {
            self.quantile_at(qs[step], histogram, at[1], step, grid)
        })
    }

    pub(super) fn histogram_fraction(&self, call: &Call, grid: &Grid) -> Result<Vec<VectorSeries>> {
        let args = &call.args;
        let (lower, upper) = (self.eval_scalar(&args[0], grid)?, self.eval_scalar(&args[1], grid)?);
        let histograms = self.histograms(&args[2], call.args_at[2], grid)?;
        self.of_histograms(&histograms, grid, |histogram, step| {
            fraction(lower[step], upper[step], histogram.at(step))
        })
    }

    /// Several quantiles at once, told apart by a label.
    pub(super) fn histogram_quantiles(&self, call: &Call, grid: &Grid) -> Result<Vec<VectorSeries>> {
        let (args, at) = (&call.args, &call.args_at);
        let label = texts(&args[1..2]).remove(0);
        let histograms = self.histograms(&args[0], at[0], grid)?;
        let mut vector = Vec::new();
        for (arg, arg_at) in args.iter().zip(at).skip(2) {
            let qs = self.eval_scalar(arg, grid)?;
            self.check_histogram_quantiles(&qs, *arg_at);
            let values = self.of_histograms(&histograms, grid, |histogram, step| {
                self.quantile_at(qs[step], histogram, at[0], step, grid)
            })?;
            for series in values {
                let mut columns: HashMap<u64, Column> = HashMap::new();
                for (step, value) in series.column.iter() {
                    let column = match columns.entry(qs[step].to_bits()) {
                        std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
                        std::collections::hash_map::Entry::Vacant(entry) => {
                            self.budget.columns(1, grid.steps)?;
                            entry.insert(Column::new(grid.steps))
                        }
                    };
                    column.set(step, value);
                }
                for (q, column) in columns {
                    let text = quantile_text(f64::from_bits(q));
                    let labels = series.labels.with([(label.clone(), text.into())]);
                    vector.push(VectorSeries { labels, drop_name: series.drop_name, column });
                }
            }
        }
        self.merge_result(vector, grid)
    }
}

/// A number as the text format of `OpenMetrics` has it: `1.0` rather than `1`.
fn quantile_text(q: f64) -> String {
    // Zero has no sign.
    let text = general(q + 0.0);
    if q.is_finite() && !text.contains(['.', 'e']) { format!("{text}.0") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_labels_of_open_metrics() {
        for (q, text) in [(0.0, "0.0"), (-0.0, "0.0"), (1.0, "1.0"), (0.99, "0.99"), (f64::NAN, "NaN")] {
            assert_eq!(quantile_text(q), text);
        }
    }
}
