//! Aggregations with one result series per group. The group of a series is determined once.

use std::collections::HashMap;

use super::{Context, Meter};
use crate::error::Result;
use crate::functions::math;
use crate::labels::Labels;
use crate::numbers::{Mean, add_compensated, quantile};
use crate::plan::{Aggregate, AggregateOp, Grouping, listed};
use crate::series::{Bits, Column, Grid, VectorSeries};

/// Series of one group, in their order.
pub(super) struct Group {
    pub labels: Labels,
    pub members: Vec<usize>,
}

pub(super) fn groups(vector: &[VectorSeries], grouping: &Grouping) -> Vec<Group> {
    if !grouping.without && grouping.labels.is_empty() && !vector.is_empty() {
        return vec![Group { labels: Labels::empty(), members: (0..vector.len()).collect() }];
    }
    let mut places: HashMap<Labels, usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for (at, series) in vector.iter().enumerate() {
        let labels = listed(&series.labels, &grouping.labels, !grouping.without);
        let place = *places.entry(labels.clone()).or_insert_with(|| {
            groups.push(Group { labels, members: Vec::new() });
            groups.len() - 1
        });
        groups[place].members.push(at);
    }
    groups
}

/// Count, mean, and sum of squared distances from it (Welford).
#[derive(Clone, Copy)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn new(first: f64) -> Moments {
        Moments { count: 1.0, mean: first, squares: if first.is_finite() { 0.0 } else { f64::NAN } }
    }

    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let delta = value - self.mean;
        self.mean += delta / self.count;
        self.squares += delta * (value - self.mean);
    }

    fn variance(self) -> f64 {
        self.squares / self.count
    }
}

/// One state for each step, from the group's values in their order.
fn fold<T: Copy>(
    columns: &[&Column],
    grid: &Grid,
    start: impl Fn(f64) -> T,
    add: impl Fn(&mut T, f64),
    finish: impl Fn(T) -> f64,
) -> Column {
    let mut states: Vec<Option<T>> = vec![None; grid.steps];
    for column in columns {
        for (step, value) in column.iter() {
            match &mut states[step] {
                Some(state) => add(state, value),
                empty => *empty = Some(start(value)),
            }
        }
    }
    let mut column = Column::new(grid.steps);
    for (step, state) in states.into_iter().enumerate() {
        if let Some(state) = state {
            column.set(step, finish(state));
        }
    }
    column
}

fn quantiles(columns: &[&Column], qs: &[f64], grid: &Grid, meter: Meter<'_>) -> Result<Column> {
    let present = Bits::union(grid.steps, columns.iter().copied());
    let mut result = Column::new(grid.steps);
    let mut values = Vec::with_capacity(columns.len());
    let mut polls = meter.polls();
    for step in present.iter() {
        polls.before(columns.len())?;
        values.clear();
        values.extend(columns.iter().filter_map(|column| column.get(step)));
        result.set(step, quantile(qs[step], &mut values));
    }
    Ok(result)
}

fn aggregated(
    op: AggregateOp,
    columns: &[&Column],
    qs: &[f64],
    grid: &Grid,
    meter: Meter<'_>,
) -> Result<Column> {
    Ok(match op {
        AggregateOp::Sum => {
            let add = |state: &mut (f64, f64), value| *state = add_compensated(value, state.0, state.1);
            fold(columns, grid, |first| (first, 0.0), add, |(sum, rest)| sum + rest)
        }
        AggregateOp::Avg => fold(columns, grid, Mean::new, Mean::add, |mean| mean.value()),
        AggregateOp::Count => fold(columns, grid, |_| 1.0, |count, _| *count += 1.0, |count| count),
        AggregateOp::Group => fold(columns, grid, |_| 1.0, |_, _| {}, |one| one),
        AggregateOp::Min => {
            let add = |least: &mut f64, value| {
                if *least > value || least.is_nan() {
                    *least = value;
                }
            };
            fold(columns, grid, |first| first, add, |least| least)
        }
        AggregateOp::Max => {
            let add = |most: &mut f64, value| {
                if *most < value || most.is_nan() {
                    *most = value;
                }
            };
            fold(columns, grid, |first| first, add, |most| most)
        }
        AggregateOp::Stdvar => fold(columns, grid, Moments::new, Moments::add, Moments::variance),
        AggregateOp::Stddev => {
            fold(columns, grid, Moments::new, Moments::add, |moments| moments.variance().sqrt())
        }
        AggregateOp::Quantile => quantiles(columns, qs, grid, meter)?,
        AggregateOp::Topk
        | AggregateOp::Bottomk
        | AggregateOp::Limitk
        | AggregateOp::LimitRatio
        | AggregateOp::CountValues => unreachable!("{op:?} is elsewhere"),
    })
}

impl Context<'_> {
    /// Of invalid quantiles, the extremes are reported.
    fn check_quantiles(&self, qs: &[f64], at: usize) {
        let nan = qs.iter().copied().find(|q| q.is_nan());
        // With NaN among them only an infinity is an extreme.
        let most = qs.iter().copied().reduce(math::max).filter(|q| *q > 1.0);
        let least = qs.iter().copied().reduce(math::min).filter(|q| *q < 0.0);
        for q in [nan, most, least].into_iter().flatten() {
            self.annotate(|annotations| annotations.quantile_out_of_range(q, at));
        }
    }

    pub(super) fn aggregate(&self, aggregate: &Aggregate, grid: &Grid) -> Result<Vec<VectorSeries>> {
        match aggregate.op {
            AggregateOp::CountValues => return self.count_values(aggregate, grid),
            AggregateOp::Topk | AggregateOp::Bottomk | AggregateOp::Limitk | AggregateOp::LimitRatio => {
                return self.rank(aggregate, grid);
            }
            _ => {}
        }
        let qs = match &aggregate.param {
            Some(param) => self.eval_scalar(param, grid)?,
            None => Vec::new(),
        };
        let vector = self.eval_vector(&aggregate.expr, grid)?;
        self.check_quantiles(&qs, aggregate.param_at);
        let groups = groups(&vector, &aggregate.grouping);
        // A state is at most four numbers.
        self.budget.columns(groups.len(), grid.steps)?;
        self.budget.columns(self.options.threads.max(1) * 5, grid.steps)?;
        let work = vector.len() * grid.steps;
        self.for_each(&groups, work, |group| {
            let columns: Vec<&Column> = group.members.iter().map(|at| &vector[*at].column).collect();
            let drop_name = group.members.iter().any(|at| vector[*at].drop_name);
            let column = aggregated(aggregate.op, &columns, &qs, grid, self.meter())?;
            Ok(VectorSeries { labels: group.labels.clone(), drop_name, column })
        })
    }
}
