//! Calls of functions, except those of range vectors (`over_time`) and of histograms (`histogram`).

use std::sync::Arc;

use super::{Context, Evaluated};
use crate::error::Result;
use crate::functions::date::Civil;
use crate::functions::labels::{Join, Replace};
use crate::functions::{Kind, math, sort};
use crate::labels::{Labels, METRIC_NAME};
use crate::numbers::nan_first;
use crate::plan::{Call, Node};
use crate::series::{Column, Grid, VectorSeries};

impl<'a> Context<'a> {
    pub(super) fn call(&self, call: &Call, grid: &Grid) -> Result<Evaluated<'a>> {
        let args = &call.args[..];
        let vector = match call.function.kind {
            Kind::Time => return self.scalars(grid, |step| grid.time(step) as f64 / 1000.0),
            Kind::Pi => return self.scalars(grid, |_| std::f64::consts::PI),
            Kind::QueryStart => return self.scalars(grid, |_| self.times.start_ms as f64 / 1000.0),
            Kind::QueryEnd => return self.scalars(grid, |_| self.times.end_ms as f64 / 1000.0),
            Kind::QueryStep => {
                // As in Prometheus, there is no step to another time if there is none.
                let has_steps = self.times.start_ms < self.times.end_ms;
                let step_ms = if has_steps { self.times.step_ms } else { 0 };
                return self.scalars(grid, |_| step_ms as f64 / 1000.0);
            }
            Kind::QueryRange => {
                let range_ms = self.times.end_ms - self.times.start_ms;
                return self.scalars(grid, |_| range_ms as f64 / 1000.0);
            }
            Kind::MinOf => return self.of_two(args, grid, math::min),
            Kind::MaxOf => return self.of_two(args, grid, math::max),
            Kind::Scalar => return self.scalar(&args[0], grid),
            Kind::Vector => {
                let column = Column::full(self.eval_scalar(&args[0], grid)?);
                vec![VectorSeries { labels: Labels::empty(), drop_name: false, column }]
            }
            Kind::Math(apply) => self.map(&args[0], grid, apply)?,
            Kind::Date(part) => self.date(args, grid, part)?,
            Kind::Timestamp => self.timestamp(&args[0], grid)?,
            Kind::StartTimestamp | Kind::NativeHistogram | Kind::Info => Vec::new(),
            Kind::Round => self.round(args, grid)?,
            Kind::Clamp | Kind::ClampMin | Kind::ClampMax => self.clamp(call.function.kind, args, grid)?,
            Kind::Absent => self.absent(&args[0], grid)?,
            Kind::AbsentOverTime => self.absent_over_time(&args[0], grid)?,
            Kind::OverTime(apply) => self.over_time(call, apply, grid)?,
            Kind::Sort { descending } => self.sort(call, grid, descending)?,
            Kind::SortByLabel { descending } => self.sort_by_label(call, grid, descending)?,
            Kind::LabelReplace => self.label_replace(args, grid)?,
            Kind::LabelJoin => self.label_join(args, grid)?,
            Kind::HistogramQuantile => self.histogram_quantile(call, grid)?,
            Kind::HistogramQuantiles => self.histogram_quantiles(call, grid)?,
            Kind::HistogramFraction => self.histogram_fraction(call, grid)?,
        };
        Ok(Evaluated::Vector(vector))
    }

    fn scalars(&self, grid: &Grid, value: impl Fn(usize) -> f64) -> Result<Evaluated<'a>> {
        self.budget.columns(1, grid.steps)?;
        Ok(Evaluated::Scalar((0..grid.steps).map(value).collect()))
    }

    fn of_two(&self, args: &[Node], grid: &Grid, apply: fn(f64, f64) -> f64) -> Result<Evaluated<'a>> {
        let (left, right) = (self.eval_scalar(&args[0], grid)?, self.eval_scalar(&args[1], grid)?);
        Ok(Evaluated::Scalar(left.into_iter().zip(right).map(|(left, right)| apply(left, right)).collect()))
    }

    /// The value of the only series; NaN where there are none or several.
    fn scalar(&self, arg: &Node, grid: &Grid) -> Result<Evaluated<'a>> {
        let vector = self.eval_vector(arg, grid)?;
        self.budget.columns(1, grid.steps)?;
        let mut found: Vec<Option<f64>> = vec![None; grid.steps];
        for series in &vector {
            for (step, value) in series.column.iter() {
                found[step] = Some(if found[step].is_some() { f64::NAN } else { value });
            }
        }
        Ok(Evaluated::Scalar(found.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect()))
    }

    fn map(&self, arg: &Node, grid: &Grid, apply: impl Fn(f64) -> f64) -> Result<Vec<VectorSeries>> {
        let mut vector = self.eval_vector(arg, grid)?;
        for series in &mut vector {
            series.column.map(&apply);
        }
        self.drop_names(vector)
    }

    fn date(&self, args: &[Node], grid: &Grid, part: fn(&Civil) -> f64) -> Result<Vec<VectorSeries>> {
        if let Some(arg) = args.first() {
            return self.map(arg, grid, |seconds| part(&Civil::of_float(seconds)));
        }
        self.budget.columns(1, grid.steps)?;
        // As in Prometheus, times before 1970 are rounded up to seconds.
        let values = grid.times().map(|time| part(&Civil::new(time / 1000))).collect();
        Ok(vec![VectorSeries { labels: Labels::empty(), drop_name: false, column: Column::full(values) }])
    }

    /// The times of a selector's samples; of any other vector, those of the steps.
    fn timestamp(&self, arg: &Node, grid: &Grid) -> Result<Vec<VectorSeries>> {
        if let Node::Vector { selector } = arg {
            return self.drop_names(self.timestamps(*selector, grid)?);
        }
        let mut vector = self.eval_vector(arg, grid)?;
        for series in &mut vector {
            series.column.values = grid.times().map(|time| time as f64 / 1000.0).collect();
        }
        self.drop_names(vector)
    }

    fn round(&self, args: &[Node], grid: &Grid) -> Result<Vec<VectorSeries>> {
        let nearest = match args.get(1) {
            Some(arg) => self.eval_scalar(arg, grid)?,
            None => vec![1.0; grid.steps],
        };
        let mut vector = self.eval_vector(&args[0], grid)?;
        for series in &mut vector {
            for (value, nearest) in series.column.values.iter_mut().zip(&nearest) {
                *value = math::round_to(*value, *nearest);
            }
        }
        self.drop_names(vector)
    }

    fn clamp(&self, kind: Kind, args: &[Node], grid: &Grid) -> Result<Vec<VectorSeries>> {
        let first = self.eval_scalar(&args[1], grid)?;
        let (least, most) = match kind {
            Kind::ClampMin => (first, vec![f64::INFINITY; grid.steps]),
            Kind::ClampMax => (vec![f64::NEG_INFINITY; grid.steps], first),
            _ => (first, self.eval_scalar(&args[2], grid)?),
        };
        let mut vector = self.eval_vector(&args[0], grid)?;
        for series in &mut vector {
            let column = &mut series.column;
            for step in 0..grid.steps {
                if most[step] < least[step] {
                    column.present.clear(step);
                } else {
                    column.values[step] = math::max(least[step], math::min(most[step], column.values[step]));
                }
            }
        }
        vector.retain(|series| series.column.present.any());
        self.drop_names(vector)
    }

    /// Sorts the result of an instant query. Results of range queries are sorted by labels.
    fn sorted(
        &self,
        mut vector: Vec<VectorSeries>,
        call: &Call,
        grid: &Grid,
        compare: impl Fn(&VectorSeries, &VectorSeries) -> std::cmp::Ordering,
    ) -> Vec<VectorSeries> {
        if grid.is_instant() {
            vector.sort_by(compare);
        } else {
            self.annotate(|annotations| annotations.sort_in_range_query(call.at));
        }
        vector
    }

    fn sort(&self, call: &Call, grid: &Grid, descending: bool) -> Result<Vec<VectorSeries>> {
        let vector = self.eval_vector(&call.args[0], grid)?;
        Ok(self.sorted(vector, call, grid, |a, b| {
            let (a, b) = (a.column.values[0], b.column.values[0]);
            let order = a.is_nan().cmp(&b.is_nan());
            order.then_with(|| if descending { nan_first(b, a) } else { nan_first(a, b) })
        }))
    }

    fn sort_by_label(&self, call: &Call, grid: &Grid, descending: bool) -> Result<Vec<VectorSeries>> {
        let vector = self.eval_vector(&call.args[0], grid)?;
        let mut names = texts(&call.args[1..]);
        // A comparison looks at each name until one differs: leave out those that no series has.
        names.retain(|name| vector.iter().any(|series| !series.labels.get(name).is_empty()));
        Ok(self.sorted(vector, call, grid, |a, b| {
            let mut by_names = names.iter().map(|name| sort::natural(a.labels.get(name), b.labels.get(name)));
            let order = by_names.find(|order| order.is_ne()).unwrap_or_else(|| a.labels.cmp(&b.labels));
            if descending { order.reverse() } else { order }
        }))
    }

    fn label_replace(&self, args: &[Node], grid: &Grid) -> Result<Vec<VectorSeries>> {
        let texts = texts(&args[1..]);
        let replace = Replace::new(&texts[0], &texts[1], &texts[2], &texts[3])?;
        let mut vector = self.eval_vector(&args[0], grid)?;
        for series in &mut vector {
            self.check()?;
            replace.check_search(&series.labels)?;
            self.budget.texts(replace.value_bytes_max(&series.labels))?;
            if let Some(labels) = replace.apply(&series.labels) {
                series.labels = labels;
                series.drop_name &= *replace.destination != *METRIC_NAME;
            }
        }
        self.merge(vector)
    }

    fn label_join(&self, args: &[Node], grid: &Grid) -> Result<Vec<VectorSeries>> {
        let texts = texts(&args[1..]);
        let sources = texts[2..].iter().map(ToString::to_string).collect();
        let join = Join::new(&texts[0], &texts[1], sources)?;
        let mut vector = self.eval_vector(&args[0], grid)?;
        for series in &mut vector {
            self.check()?;
            self.budget.texts(join.value_bytes_max(&series.labels))?;
            series.labels = join.apply(&series.labels);
            series.drop_name &= *join.destination != *METRIC_NAME;
        }
        self.merge(vector)
    }
}

/// The string literals among arguments.
pub(super) fn texts(args: &[Node]) -> Vec<Arc<str>> {
    let text = |arg: &Node| match arg {
        Node::Text(text) => text.clone(),
        other => unreachable!("the plan is checked: a string literal, not {other:?}"),
    };
    args.iter().map(text).collect()
}
