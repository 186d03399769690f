//! Evaluates a plan: each node over a grid of steps. `call`, `over_time`, `aggregate`, `rank`, `binary`, `set` and
//! `subquery` have the operations; this file has what they share, and the results.

mod aggregate;
mod binary;
mod call;
mod count_values;
mod extended;
mod histogram;
mod info;
mod merge;
mod operator;
mod over_time;
mod pushdown;
mod rank;
mod selector;
mod set;
mod subquery;

use std::sync::{Arc, Mutex, PoisonError};

use crate::annotations::Annotations;
use crate::error::{Error, Interrupt, Result};
use crate::limits::{Budget, Limits, column_bytes};
use crate::plan::{Node, Plan, QueryTimes, ValueKind};
use crate::series::{Column, Grid, RangeSeries, VectorSeries};
use crate::value::{QueryResult, Sample, SampleSeries, Value};

pub use pushdown::{EvaluatedSeries, Pushdown, Selected, StepSeries, Steps};

/// How a query is evaluated.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// How far an instant vector looks back for a sample (`--query.lookback-delta`).
    pub lookback_ms: i64,
    /// The default step of subqueries (Prometheus: the global evaluation interval).
    pub subquery_step_ms: i64,
    /// Metric names are dropped at the end of the evaluation (`--enable-feature=promql-delayed-name-removal`).
    pub delayed_name_removal: bool,
    pub limits: Limits,
    /// Threads for the series of one selector.
    pub threads: usize,
    /// Polled frequently: whether to stop.
    pub interrupt: &'a (dyn Fn() -> Option<Interrupt> + Sync),
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            lookback_ms: 300_000,
            subquery_step_ms: 60_000,
            delayed_name_removal: false,
            limits: Limits::default(),
            threads: 1,
            interrupt: &|| None,
        }
    }
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Options").field("lookback_ms", &self.lookback_ms).finish_non_exhaustive()
    }
}

/// A plan with the series it is evaluated on.
#[derive(Debug)]
pub struct Evaluation<'a> {
    pub plan: &'a Plan,
    /// The series of each selection, in the order of `Plan::selections`.
    pub series: &'a [Selected],
    pub options: Options<'a>,
}

impl Evaluation<'_> {
    /// Evaluate the plan. An instant query gives a value of its type; a range query a matrix, sorted by labels.
    pub fn run(&self) -> Result<QueryResult> {
        let times = self.plan.times;
        assert_eq!(self.series.len(), self.plan.selectors.len(), "one list of series for each selector");
        let selected: usize = self.series.iter().map(Selected::len).sum();
        if selected > self.options.limits.series_max {
            return Err(Error::execution("query would load too many series into memory in query execution"));
        }
        let grid = Grid::of(&times);
        let context = Context {
            plan: self.plan,
            times,
            series: self.series,
            options: self.options,
            budget: Budget::new(&self.options.limits),
            annotations: Mutex::new(Annotations::default()),
        };
        let evaluated = context.eval(&self.plan.root, &grid)?;
        let value = context.value(evaluated, &grid)?;
        let usage = context.budget.usage();
        let annotations = context.annotations.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (warnings, infos) = annotations.into_texts(&self.plan.query);
        Ok(QueryResult { value, warnings, infos, usage })
    }
}

/// The value of a node over a grid.
#[derive(Debug)]
enum Evaluated<'a> {
    Scalar(Vec<f64>),
    Text(Arc<str>),
    Vector(Vec<VectorSeries>),
    Range(Vec<RangeSeries<'a>>),
}

impl Evaluated<'_> {
    fn samples(&self) -> usize {
        match self {
            Evaluated::Scalar(values) => values.len(),
            Evaluated::Text(_) => 0,
            Evaluated::Vector(series) => series.iter().map(|series| series.column.present.count()).sum(),
            Evaluated::Range(series) => series.iter().map(|series| series.values.len()).sum(),
        }
    }

    fn bytes(&self, grid: &Grid) -> usize {
        match self {
            Evaluated::Scalar(values) => values.len() * 8,
            Evaluated::Text(_) => 0,
            Evaluated::Vector(series) => series.len() * column_bytes(grid.steps),
            Evaluated::Range(_) => self.samples() * 16,
        }
    }

    fn into_vector(self) -> Vec<VectorSeries> {
        match self {
            Evaluated::Vector(vector) => vector,
            other => unreachable!("the plan is checked: a vector, not {other:?}"),
        }
    }
}

/// What the evaluation of a series polls and counts.
#[derive(Clone, Copy)]
struct Meter<'a> {
    budget: &'a Budget,
    interrupt: &'a (dyn Fn() -> Option<Interrupt> + Sync),
}

impl<'a> Meter<'a> {
    fn check(&self) -> Result<()> {
        (self.interrupt)().map_or(Ok(()), |interrupt| Err(interrupt.into()))
    }

    fn polls(self) -> Polls<'a> {
        Polls { meter: self, unchecked: 0 }
    }
}

/// Samples processed between two polls for an interrupt.
const SAMPLES_UNCHECKED_MAX: usize = 1 << 16;

/// Polls for an interrupt now and then during work on many samples.
struct Polls<'a> {
    meter: Meter<'a>,
    unchecked: usize,
}

impl Polls<'_> {
    /// Before so many more samples are processed.
    fn before(&mut self, samples: usize) -> Result<()> {
        self.unchecked += samples;
        if self.unchecked > SAMPLES_UNCHECKED_MAX {
            self.meter.check()?;
            self.unchecked = 0;
        }
        Ok(())
    }
}

struct Context<'a> {
    plan: &'a Plan,
    times: QueryTimes,
    series: &'a [Selected],
    options: Options<'a>,
    budget: Budget,
    annotations: Mutex<Annotations>,
}

impl<'a> Context<'a> {
    fn meter(&self) -> Meter<'_> {
        Meter { budget: &self.budget, interrupt: self.options.interrupt }
    }

    fn check(&self) -> Result<()> {
        self.meter().check()
    }

    fn annotate(&self, add: impl FnOnce(&mut Annotations)) {
        add(&mut self.annotations.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Evaluates a node. Memory of its operands is returned to the budget.
    fn eval(&self, node: &Node, grid: &Grid) -> Result<Evaluated<'a>> {
        self.check()?;
        let mark = self.budget.mark();
        let repeats = !grid.is_instant()
            && matches!(node.kind(), ValueKind::Scalar | ValueKind::Vector)
            && !matches!(node, Node::Number(_))
            && node.is_invariant(&self.plan.selectors);
        let result = if repeats {
            let before = self.budget.usage().queried_samples;
            let once = self.eval_node(node, &grid.first_step())?;
            let of_step = self.budget.usage().queried_samples - before;
            self.budget.count_samples(of_step as usize * (grid.steps - 1), 0);
            self.repeat(once, grid)?
        } else {
            self.eval_node(node, grid)?
        };
        self.budget.keep(mark, result.samples(), result.bytes(grid))?;
        Ok(result)
    }

    fn eval_node(&self, node: &Node, grid: &Grid) -> Result<Evaluated<'a>> {
        match node {
            Node::Number(number) => {
                self.budget.columns(1, grid.steps)?;
                Ok(Evaluated::Scalar(vec![*number; grid.steps]))
            }
            Node::Text(text) => Ok(Evaluated::Text(text.clone())),
            Node::Vector { selector } => Ok(Evaluated::Vector(self.vector(*selector, grid)?)),
            Node::Range { selector } => Ok(Evaluated::Range(self.range_of_instant(*selector, grid)?)),
            Node::Subquery { expr, window, step } => {
                Ok(Evaluated::Range(self.subquery(expr, window, *step, grid)?))
            }
            Node::Call(call) => self.call(call, grid),
            Node::Info(info) => Ok(Evaluated::Vector(self.info(info, grid)?)),
            Node::Aggregate(aggregate) => Ok(Evaluated::Vector(self.aggregate(aggregate, grid)?)),
            Node::Binary(_) => self.binary_chain(node, grid),
            Node::Negate { expr, .. } => match self.eval(expr, grid)? {
                Evaluated::Scalar(values) => {
                    Ok(Evaluated::Scalar(values.into_iter().map(|value| -value).collect()))
                }
                other => {
                    let mut vector = other.into_vector();
                    for series in &mut vector {
                        series.column.map(|value| -value);
                    }
                    Ok(Evaluated::Vector(self.drop_names(vector)?))
                }
            },
        }
    }

    /// Repeats the value of one step at all steps.
    fn repeat(&self, once: Evaluated<'a>, grid: &Grid) -> Result<Evaluated<'a>> {
        match once {
            Evaluated::Scalar(values) => {
                self.budget.columns(1, grid.steps)?;
                Ok(Evaluated::Scalar(vec![values[0]; grid.steps]))
            }
            Evaluated::Vector(vector) => {
                self.budget.columns(vector.len(), grid.steps)?;
                self.budget.samples(vector.len().saturating_mul(grid.steps - 1))?;
                let mut repeated = Vec::with_capacity(vector.len());
                for mut series in vector {
                    if let Some(value) = series.column.get(0) {
                        series.column = Column::repeated(value, grid.steps);
                        repeated.push(series);
                    }
                }
                Ok(Evaluated::Vector(repeated))
            }
            other => Ok(other),
        }
    }

    fn eval_vector(&self, node: &Node, grid: &Grid) -> Result<Vec<VectorSeries>> {
        Ok(self.eval(node, grid)?.into_vector())
    }

    fn eval_scalar(&self, node: &Node, grid: &Grid) -> Result<Vec<f64>> {
        match self.eval(node, grid)? {
            Evaluated::Scalar(values) => Ok(values),
            other => unreachable!("the plan is checked: a scalar, not {other:?}"),
        }
    }

    /// The result of the whole query.
    fn value(&self, evaluated: Evaluated<'a>, grid: &Grid) -> Result<Value> {
        let time_ms = grid.start;
        let instant = self.times.is_instant();
        Ok(match evaluated {
            Evaluated::Text(text) => Value::String { time_ms, value: text.to_string() },
            Evaluated::Scalar(values) if instant => Value::Scalar { time_ms, value: values[0] },
            Evaluated::Scalar(values) => {
                let samples = grid.times().zip(values).collect();
                Value::Matrix(vec![SampleSeries { labels: crate::labels::Labels::empty(), samples }])
            }
            Evaluated::Vector(vector) => {
                // Otherwise each operation has dropped names and merged series.
                let is_unfinished = self.options.delayed_name_removal;
                let vector = if is_unfinished { self.finish_names(vector)? } else { vector };
                if instant {
                    Value::Vector(vector.into_iter().filter_map(|series| sample(series, time_ms)).collect())
                } else {
                    let mut matrix: Vec<SampleSeries> =
                        vector.into_iter().map(|series| sample_series(series, grid)).collect();
                    matrix.retain(|series| !series.samples.is_empty());
                    matrix.sort_by(|a, b| a.labels.cmp(&b.labels));
                    Value::Matrix(matrix)
                }
            }
            Evaluated::Range(ranges) => Value::Matrix(self.finish_ranges(ranges)?),
        })
    }
}

fn sample(series: VectorSeries, time_ms: i64) -> Option<Sample> {
    let value = series.column.get(0)?;
    Some(Sample { labels: series.labels, time_ms, value })
}

fn sample_series(series: VectorSeries, grid: &Grid) -> SampleSeries {
    let samples = series.column.iter().map(|(step, value)| (grid.time(step), value)).collect();
    SampleSeries { labels: series.labels, samples }
}
