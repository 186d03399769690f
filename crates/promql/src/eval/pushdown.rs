//! Pushdown: a selector, or the function directly around it, is evaluated for each series right after it was read.
//! The query then holds a value for each step instead of all samples.

use std::sync::{Mutex, PoisonError};

use super::over_time::{Slide, Windowed};
use super::selector::{Latest, without_stale};
use super::{Context, Meter, extended::Reach};
use crate::error::{Interrupt, Result};
use crate::functions::{Function, Kind, OverTime};
use crate::labels::Labels;
use crate::limits::{Budget, Limits};
use crate::plan::{Call, Node, Plan, Window};
use crate::series::{Column, Grid, Series, VectorSeries};
use crate::value::Usage;

/// The series of a selection.
#[derive(Debug)]
pub enum Selected {
    Samples(Vec<Series>),
    Steps(EvaluatedSeries),
}

/// Series that [`Pushdown`] has evaluated.
#[derive(Debug)]
pub struct EvaluatedSeries {
    count: usize,
    uses: usize,
    /// Moved out by the selector's only use; cloned for each if there are several.
    series: Mutex<Vec<StepSeries>>,
    usage: Usage,
}

impl Selected {
    /// The number of series.
    pub fn len(&self) -> usize {
        match self {
            Selected::Samples(series) => series.len(),
            Selected::Steps(evaluated) => evaluated.count,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A series with its value at each step.
#[derive(Clone, Debug)]
pub struct StepSeries {
    pub labels: Labels,
    pub steps: Steps,
}

/// The values of a series at the steps of the query.
#[derive(Clone, Debug)]
pub struct Steps(Column);

impl Steps {
    /// The number of steps that have a value.
    pub fn count(&self) -> usize {
        self.0.present.count()
    }
}

/// The evaluation of a selection series by series.
#[derive(Debug)]
pub struct Pushdown {
    operation: Operation,
    /// How often the query uses the selector.
    uses: usize,
    window: Window,
    grid: Grid,
    budget: Budget,
}

#[derive(Debug)]
enum Operation {
    /// The selector itself: an instant vector.
    Latest { lookback_ms: i64 },
    /// A function of a range vector, with its scalar arguments at each step.
    Function(OverTime, Vec<Vec<f64>>),
}

impl Pushdown {
    /// Evaluates a series; labels are not used. Polls `interrupt`.
    pub fn evaluate(
        &self,
        series: &Series,
        interrupt: &(dyn Fn() -> Option<Interrupt> + Sync),
    ) -> Result<Steps> {
        let meter = Meter { budget: &self.budget, interrupt };
        meter.check()?;
        let (window, grid) = (self.window, self.grid);
        let column = match &self.operation {
            Operation::Latest { lookback_ms } => {
                let latest = Latest { window, lookback_ms: *lookback_ms, grid };
                latest.column(series, meter, |series, at| series.values[at])
            }
            Operation::Function(apply, scalars) => {
                let slide = Slide { window, reach: Reach::default(), is_counted: false };
                let windowed = Windowed { apply: *apply, slide, scalars, grid };
                windowed.column(&without_stale(series), meter)
            }
        };
        column.map(Steps)
    }

    /// The bytes of the results so far. They are held until the whole query is evaluated, so the limit for the
    /// selections after this one is lower by as much.
    pub fn held_bytes(&self) -> usize {
        self.budget.held_bytes()
    }

    /// The result for all series of the selection.
    pub fn finish(&self, series: Vec<StepSeries>) -> Selected {
        let (count, uses, usage) = (series.len(), self.uses, self.budget.usage());
        Selected::Steps(EvaluatedSeries { count, uses, series: Mutex::new(series), usage })
    }
}

impl Plan {
    /// How to evaluate a selection while it is read. `None` if a use of it needs samples: in a subquery, with `@`,
    /// `anchored` or `smoothed`, with arguments that are not numbers, for several series together, or with another
    /// function.
    pub fn pushdown(&self, selection: usize, lookback_ms: i64, limits: &Limits) -> Option<Pushdown> {
        let selector = &self.selectors[selection];
        if selector.window.at.is_some() || selector.extension.is_some() || !selector.subqueries.is_empty() {
            return None;
        }
        let mut uses = Vec::new();
        add_uses(selection, &self.root, &mut uses);
        let (first, others) = uses.split_first()?;
        if others.iter().any(|other| other != first) {
            return None;
        }
        let grid = Grid::of(&self.times);
        let operation = match first {
            Use::Samples => return None,
            Use::Itself => Operation::Latest { lookback_ms },
            Use::Function { name, numbers } => {
                let Kind::OverTime(apply) = Function::by_name(name)?.kind else { return None };
                let scalars = numbers.iter().map(|bits| vec![f64::from_bits(*bits); grid.steps]);
                Operation::Function(apply, scalars.collect())
            }
        };
        let budget = Budget::new(limits);
        Some(Pushdown { operation, uses: uses.len(), window: selector.window, grid, budget })
    }
}

/// A use of a selector.
#[derive(PartialEq, Eq)]
enum Use {
    /// Needs the samples, or several series together.
    Samples,
    /// Reads it as an instant vector.
    Itself,
    /// Passes it to a function of range vectors, whose other arguments are numbers (here their bits).
    Function { name: &'static str, numbers: Vec<u64> },
}

fn add_uses(selector: usize, node: &Node, uses: &mut Vec<Use>) {
    let is_it = |node: &Node| match node {
        Node::Vector { selector: this } | Node::Range { selector: this } => *this == selector,
        _ => false,
    };
    match node {
        Node::Number(_) | Node::Text(_) => {}
        Node::Vector { .. } => uses.extend(is_it(node).then_some(Use::Itself)),
        Node::Range { .. } => uses.extend(is_it(node).then_some(Use::Samples)),
        Node::Subquery { expr, .. } | Node::Negate { expr, .. } => add_uses(selector, expr, uses),
        Node::Call(call) if call.args.iter().any(is_it) => match call.function.kind {
            // It reads the times of samples.
            Kind::Timestamp => uses.push(Use::Samples),
            Kind::OverTime(_) => uses.push(function(call)),
            _ => call.args.iter().for_each(|arg| add_uses(selector, arg, uses)),
        },
        Node::Call(call) => call.args.iter().for_each(|arg| add_uses(selector, arg, uses)),
        Node::Info(info) => {
            uses.extend((info.selector == selector).then_some(Use::Samples));
            add_uses(selector, &info.expr, uses);
        }
        Node::Aggregate(aggregate) => {
            add_uses(selector, &aggregate.expr, uses);
            aggregate.param.iter().for_each(|param| add_uses(selector, param, uses));
        }
        Node::Binary(binary) => {
            add_uses(selector, &binary.left, uses);
            add_uses(selector, &binary.right, uses);
        }
    }
}

fn function(call: &Call) -> Use {
    let number = |arg: &Node| if let Node::Number(number) = arg { Some(number.to_bits()) } else { None };
    let others = call.args.iter().filter(|arg| !matches!(arg, Node::Range { .. }));
    let numbers: Option<Vec<u64>> = others.map(number).collect();
    numbers.map_or(Use::Samples, |numbers| Use::Function { name: call.function.name, numbers })
}

impl Context<'_> {
    /// The value of a range vector's function, or of an instant vector, if it was evaluated while reading.
    pub(super) fn evaluated(&self, selector: usize) -> Option<Result<Vec<VectorSeries>>> {
        let Selected::Steps(evaluated) = &self.series[selector] else { return None };
        self.budget.count_series(evaluated.count);
        self.budget.count_usage(&evaluated.usage);
        let mut series = evaluated.series.lock().unwrap_or_else(PoisonError::into_inner);
        let series = if evaluated.uses > 1 { series.clone() } else { std::mem::take(&mut *series) };
        let vector = series.into_iter().filter(|series| series.steps.0.present.any());
        let vector = vector.map(|StepSeries { labels, steps: Steps(column) }| {
            self.budget.columns(1, column.values.len())?;
            self.budget.samples(column.present.count())?;
            Ok(VectorSeries { labels, drop_name: false, column })
        });
        Some(vector.collect())
    }
}
