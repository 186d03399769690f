//! Functions of range vectors, evaluated with a sliding window over each series.

use std::collections::HashSet;
use std::sync::Arc;

use super::extended::Reach;
use super::selector::PartitionPointNear;
use super::{Context, Evaluated, Meter};
use crate::error::Result;
use crate::functions::{Function, OverTime, Samples, extended, over_time};
use crate::labels::Labels;
use crate::plan::{Call, Extension, MatchOp, Node, ValueKind, Window};
use crate::series::{Bits, Column, Grid, RangeSeries, VectorSeries};

/// A range vector, and the window of its series at each step.
struct Range<'a> {
    series: Vec<RangeSeries<'a>>,
    window: Window,
    extension: Option<Extension>,
    is_subquery: bool,
}

/// The samples of a series that each step reads.
#[derive(Clone, Copy)]
pub(super) struct Slide {
    pub window: Window,
    pub reach: Reach,
    /// The samples come from a subquery, which has already counted them.
    pub is_counted: bool,
}

/// A function of a range vector, evaluated for one series at a time.
#[derive(Clone, Copy)]
pub(super) struct Windowed<'w> {
    pub apply: OverTime,
    pub slide: Slide,
    /// The scalar arguments, at each step.
    pub scalars: &'w [Vec<f64>],
    pub grid: Grid,
}

impl Windowed<'_> {
    pub fn column(&self, series: &RangeSeries<'_>, meter: Meter<'_>) -> Result<Column> {
        meter.budget.columns(1, self.grid.steps)?;
        let mut column = Column::new(self.grid.steps);
        let mut arguments = vec![0.0; self.scalars.len()];
        self.slide.each(series, &self.grid, meter, |step, samples| {
            for (argument, values) in arguments.iter_mut().zip(self.scalars) {
                *argument = values[step];
            }
            if let Some(value) = (self.apply)(samples, &arguments)? {
                column.set(step, value);
            }
            Ok(())
        })?;
        meter.budget.samples(column.present.count())?;
        Ok(column)
    }
}

impl Slide {
    /// Calls `each` with the samples of each step that has some.
    fn each(
        self,
        series: &RangeSeries<'_>,
        grid: &Grid,
        meter: Meter<'_>,
        mut each: impl FnMut(usize, &Samples<'_>) -> Result<()>,
    ) -> Result<()> {
        let Slide { window, reach, is_counted } = self;
        let (mut first, mut end) = (0, 0);
        let mut polls = meter.polls();
        let (mut queried, mut read, mut most) = (0, 0, 0);
        for (step, time) in grid.times().enumerate() {
            let window_end = window.reference(time);
            let window_start = window_end - window.range;
            first += series.times[first..].partition_point_near(window_start - reach.before);
            let read_end = end;
            end = end.max(first);
            end += series.times[end..].partition_point_near(window_end + reach.behind);
            if first == end {
                continue;
            }
            meter.budget.samples_fit(end - first)?;
            queried += end - first;
            read += end - first.max(read_end);
            most = most.max(end - first);
            polls.before(end - first)?;
            let (times, values) = (&series.times[first..end], &series.values[first..end]);
            let counts = series.counts.as_ref().map(|counts| &counts[first..end]);
            each(step, &Samples { times, values, counts, time, window_start, window_end })?;
        }
        meter.budget.note_window(most);
        if !is_counted {
            meter.budget.count_samples(queried, read);
        }
        Ok(())
    }
}

impl<'a> Context<'a> {
    fn range_argument(&self, node: &Node, grid: &Grid) -> Result<Range<'a>> {
        match node {
            Node::Range { selector } => {
                let (window, extension) =
                    (self.plan.selectors[*selector].window, self.plan.selectors[*selector].extension);
                Ok(Range { series: self.ranges(*selector)?, window, extension, is_subquery: false })
            }
            Node::Subquery { window, .. } => match self.eval(node, grid)? {
                Evaluated::Range(series) => {
                    Ok(Range { series, window: *window, extension: None, is_subquery: true })
                }
                other => unreachable!("a subquery gives a range vector, not {other:?}"),
            },
            other => unreachable!("the plan is checked: a range vector, not {other:?}"),
        }
    }

    pub(super) fn over_time(&self, call: &Call, apply: OverTime, grid: &Grid) -> Result<Vec<VectorSeries>> {
        let function = call.function;
        let mut scalars = Vec::new();
        let mut range = None;
        for arg in &call.args {
            if arg.kind() == ValueKind::Scalar {
                scalars.push(self.eval_scalar(arg, grid)?);
            } else {
                range = Some(arg);
            }
        }
        let Some(range) = range else { unreachable!("the plan is checked: a range vector") };
        let evaluated = if let Node::Range { selector } = range { self.evaluated(*selector) } else { None };
        let vector = evaluated.unwrap_or_else(|| self.windowed(function, apply, &scalars, range, grid))?;
        self.annotate_over_time(call, &scalars, &vector);
        if function.keeps_name() {
            // As in Prometheus, a name that `group_left` has added to a subquery's series of `bool` is dropped here.
            return if self.options.delayed_name_removal { Ok(vector) } else { self.finish_names(vector) };
        }
        self.drop_names(vector)
    }

    fn windowed(
        &self,
        function: &Function,
        mut apply: OverTime,
        scalars: &[Vec<f64>],
        range: &Node,
        grid: &Grid,
    ) -> Result<Vec<VectorSeries>> {
        let Range { series: ranges, window, extension, is_subquery } = self.range_argument(range, grid)?;
        if let Some(extension) = extension {
            apply = extended::function(function.name, extension)?;
        }
        let samples: usize = ranges.iter().map(|series| series.values.len()).sum();
        let work = samples + ranges.len() * grid.steps;
        self.for_each(&ranges, work, |series| {
            let slide = Slide { window, reach: self.reach(series, extension), is_counted: is_subquery };
            let column = Windowed { apply, slide, scalars, grid: *grid }.column(series, self.meter())?;
            Ok(VectorSeries { labels: series.labels.clone(), drop_name: series.drop_name, column })
        })
    }

    fn annotate_over_time(&self, call: &Call, scalars: &[Vec<f64>], vector: &[VectorSeries]) {
        let function = call.function;
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
                        "integral" => annotations.integral_strategy(*number, call.args_at[1]),
                        _ => annotations.quantile_out_of_range(*number, call.args_at[0]),
                    });
                }
            }
        }
        if function.expects_counter() {
            for series in vector {
                let name = series.labels.metric_name();
                let named_as_counter =
                    ["_total", "_sum", "_count", "_bucket"].iter().any(|suffix| name.ends_with(suffix));
                if !name.is_empty() && !named_as_counter {
                    self.annotate(|annotations| annotations.possible_non_counter(name, call.args_at[0]));
                }
            }
        }
    }

    /// 1 at each step at which no series has samples.
    pub(super) fn absent_over_time(&self, arg: &Node, grid: &Grid) -> Result<Vec<VectorSeries>> {
        let Range { series: ranges, window, extension, is_subquery } = self.range_argument(arg, grid)?;
        if let Some(extension) = extension {
            extended::function("absent_over_time", extension)?;
        }
        let slide = Slide { window, reach: Reach::default(), is_counted: is_subquery };
        self.budget.columns(1, grid.steps)?;
        let mut present = Bits::new(grid.steps);
        for series in &ranges {
            self.check()?;
            slide.each(series, grid, self.meter(), |step, _| {
                present.set(step);
                Ok(())
            })?;
        }
        Ok(self.absent_where(&present, arg, grid))
    }

    /// `absent` of an instant vector.
    pub(super) fn absent(&self, arg: &Node, grid: &Grid) -> Result<Vec<VectorSeries>> {
        let vector = self.eval_vector(arg, grid)?;
        self.budget.columns(1, grid.steps)?;
        let present = Bits::union(grid.steps, vector.iter().map(|series| &series.column));
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

    /// The labels of an absent series: the selector's equality matchers. As in Prometheus, a label is left out if
    /// another matcher of it follows its first equality matcher.
    fn labels_of_absent(&self, arg: &Node) -> Labels {
        let (Node::Vector { selector } | Node::Range { selector }) = arg else { return Labels::empty() };
        let mut labels: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        let mut seen: HashSet<&str> = HashSet::new();
        for matcher in &self.plan.selectors[*selector].matchers {
            let is_first = matches!(matcher.op, MatchOp::Equal) && seen.insert(matcher.name.as_str());
            let value = if is_first { matcher.value.as_str() } else { "" };
            labels.push((matcher.name.as_str().into(), value.into()));
        }
        Labels::new(labels).without_metadata()
    }
}
