//! Functions of range vectors: a window slides over each series.

use std::collections::HashSet;
use std::sync::Arc;

use super::selector::PartitionPointNear;
use super::{Context, Evaluated};
use crate::error::Error;
use crate::functions::{Function, OverTime, Samples, over_time};
use crate::labels::Labels;
use crate::plan::{MatchOp, Node, ValueKind, Window};
use crate::series::{Bits, Column, Grid, RangeSeries, VectorSeries};

/// Samples that are read between two questions whether to give up.
const SAMPLES_UNCHECKED_MAX: usize = 1 << 16;

impl<'a> Context<'a> {
    /// The series of a range vector, and the window that is read of them at each step.
    fn range_argument(&self, node: &Node, grid: &Grid) -> Result<(Vec<RangeSeries<'a>>, Window), Error> {
        match node {
            Node::Range { selector } => Ok((self.ranges(*selector)?, self.plan.selectors[*selector].window)),
            Node::Subquery { window, .. } => match self.eval(node, grid)? {
                Evaluated::Range(ranges) => Ok((ranges, *window)),
                other => unreachable!("a subquery gives a range vector, not {other:?}"),
            },
            other => unreachable!("the plan is checked: a range vector, not {other:?}"),
        }
    }

    /// `each` gets the samples of each step that has some.
    fn slide(
        &self,
        series: &RangeSeries<'_>,
        window: &Window,
        grid: &Grid,
        mut each: impl FnMut(usize, &Samples<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut first, mut end) = (0, 0);
        let mut unchecked = 0;
        for (step, time) in grid.times().enumerate() {
            let window_end = self.reference(window, time);
            let window_start = window_end - window.range;
            first += series.times[first..].partition_point_near(window_start);
            end = end.max(first);
            end += series.times[end..].partition_point_near(window_end);
            if first == end {
                continue;
            }
            self.budget.samples_fit(end - first)?;
            unchecked += end - first;
            if unchecked > SAMPLES_UNCHECKED_MAX {
                self.check()?;
                unchecked = 0;
            }
            let (times, values) = (&series.times[first..end], &series.values[first..end]);
            let counts = series.counts.as_ref().map(|counts| &counts[first..end]);
            each(step, &Samples { times, values, counts, time, window_start, window_end })?;
        }
        Ok(())
    }

    pub(super) fn over_time(
        &self,
        function: &'static Function,
        apply: OverTime,
        args: &[Node],
        grid: &Grid,
    ) -> Result<Vec<VectorSeries>, Error> {
        let mut scalars = Vec::new();
        let mut range = None;
        for arg in args {
            if arg.kind() == ValueKind::Scalar {
                scalars.push(self.eval_scalar(arg, grid)?);
            } else {
                range = Some(self.range_argument(arg, grid)?);
            }
        }
        let Some((ranges, window)) = range else { unreachable!("the plan is checked: a range vector") };
        let samples: usize = ranges.iter().map(|series| series.values.len()).sum();
        let work = samples + ranges.len() * grid.steps;
        let vector = self.for_each(&ranges, work, |series| {
            self.budget.columns(1, grid.steps)?;
            let mut column = Column::new(grid.steps);
            let mut arguments = vec![0.0; scalars.len()];
            self.slide(series, &window, grid, |step, samples| {
                for (argument, values) in arguments.iter_mut().zip(&scalars) {
                    *argument = values[step];
                }
                if let Some(value) = apply(samples, &arguments)? {
                    column.set(step, value);
                }
                Ok(())
            })?;
            self.budget.samples(column.present.count())?;
            Ok(VectorSeries { labels: series.labels.clone(), drop_name: series.drop_name, column })
        })?;
        let vector: Vec<VectorSeries> =
            vector.into_iter().filter(|series| series.column.present.any()).collect();
        self.annotate_over_time(function, &scalars, &vector);
        if function.keeps_name() {
            return if self.options.delayed_name_removal { Ok(vector) } else { super::merge::merge(vector) };
        }
        self.drop_names(vector)
    }

    fn annotate_over_time(&self, function: &Function, scalars: &[Vec<f64>], vector: &[VectorSeries]) {
        if vector.is_empty() {
            return;
        }
        let has_value = |step: usize| vector.iter().any(|series| series.column.present.get(step));
        if function.name == "quantile_over_time" || function.name == "integral" {
            for (step, number) in scalars.first().into_iter().flatten().enumerate() {
                let valid = if function.name == "integral" {
                    over_time::integral_strategy(*number).is_some()
                } else {
                    (0.0..=1.0).contains(number)
                };
                if !valid && has_value(step) {
                    self.annotate(|annotations| match function.name {
                        "integral" => annotations.integral_strategy(*number),
                        _ => annotations.quantile_out_of_range(*number),
                    });
                }
            }
        }
        if function.expects_counter() {
            for series in vector {
                let name = series.labels.metric_name();
                let counts =
                    ["_total", "_sum", "_count", "_bucket"].iter().any(|suffix| name.ends_with(suffix));
                if !name.is_empty() && !counts {
                    self.annotate(|annotations| annotations.possible_non_counter(name));
                }
            }
        }
    }

    /// 1 at each step at which no series has samples.
    pub(super) fn absent_over_time(&self, arg: &Node, grid: &Grid) -> Result<Vec<VectorSeries>, Error> {
        let (ranges, window) = self.range_argument(arg, grid)?;
        self.budget.columns(1, grid.steps)?;
        let mut present = Bits::new(grid.steps);
        for series in &ranges {
            self.check()?;
            self.slide(series, &window, grid, |step, _| {
                present.set(step);
                Ok(())
            })?;
        }
        Ok(self.absent_where(&present, arg, grid))
    }

    /// `absent` of an instant vector.
    pub(super) fn absent(&self, arg: &Node, grid: &Grid) -> Result<Vec<VectorSeries>, Error> {
        let vector = self.eval_vector(arg, grid)?;
        self.budget.columns(1, grid.steps)?;
        let mut present = Bits::new(grid.steps);
        for series in &vector {
            present.unite(&series.column.present);
        }
        Ok(self.absent_where(&present, arg, grid))
    }

    fn absent_where(&self, present: &Bits, arg: &Node, grid: &Grid) -> Vec<VectorSeries> {
        let mut column = Column::repeated(1.0, grid.steps);
        column.present.subtract(present);
        if !column.present.any() {
            return Vec::new();
        }
        vec![VectorSeries { labels: self.labels_of_absent(arg), drop_name: false, column }]
    }

    /// The labels that a selector demands: those with one matcher, which is an equality.
    fn labels_of_absent(&self, arg: &Node) -> Labels {
        let (Node::Vector { selector } | Node::Range { selector }) = arg else { return Labels::empty() };
        let mut labels: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        let mut seen: HashSet<&str> = HashSet::new();
        for matcher in &self.plan.selectors[*selector].matchers {
            let equal = matches!(matcher.op, MatchOp::Equal);
            let value =
                if equal && !seen.contains(matcher.name.as_str()) { matcher.value.as_str() } else { "" };
            if equal {
                seen.insert(&matcher.name);
            }
            labels.push((matcher.name.as_str().into(), value.into()));
        }
        Labels::new(labels).without_metadata()
    }
}
