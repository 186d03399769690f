//! Aggregations that return some of their series unchanged: `topk`, `bottomk`, `limitk`, `limit_ratio`.

use super::Context;
use super::aggregate::{Group, groups};
use crate::error::{Error, Result};
use crate::numbers::general;
use crate::plan::{Aggregate, AggregateOp};
use crate::series::{Bits, Grid, VectorSeries};

/// The greatest float below `i64::MAX`, which is not a float.
const K_MAX: f64 = 9_223_372_036_854_774_784.0;
const K_MIN: f64 = i64::MIN as f64;

fn check_ks(ks: &[f64]) -> Result<()> {
    if ks.iter().any(|k| k.is_nan()) {
        return Err(Error::execution("Parameter value is NaN"));
    }
    if let Some(k) = ks.iter().copied().reduce(f64::min).filter(|k| *k <= K_MIN) {
        return Err(Error::execution(format!("Scalar value {} underflows int64", general(k))));
    }
    if let Some(k) = ks.iter().copied().reduce(f64::max).filter(|k| *k >= K_MAX) {
        return Err(Error::execution(format!("Scalar value {} overflows int64", general(k))));
    }
    Ok(())
}

/// A binary heap whose first element is the next to be replaced. Which of equal values remain depends on its exact
/// steps, which are those of Go's `container/heap`.
struct Heap {
    entries: Vec<(f64, usize)>,
    /// The first element is the greatest, for `bottomk`.
    reversed: bool,
}

impl Heap {
    fn less(&self, a: usize, b: usize) -> bool {
        let (a, b) = (self.entries[a].0, self.entries[b].0);
        a.is_nan() || if self.reversed { a > b } else { a < b }
    }

    fn push(&mut self, entry: (f64, usize)) {
        self.entries.push(entry);
        let mut at = self.entries.len() - 1;
        while at > 0 {
            let parent = (at - 1) / 2;
            if !self.less(at, parent) {
                break;
            }
            self.entries.swap(at, parent);
            at = parent;
        }
    }

    /// The order in which Prometheus returns entries that it does not sort.
    fn unsorted(entries: impl Iterator<Item = (f64, usize)>) -> Vec<usize> {
        let mut heap = Heap { entries: Vec::new(), reversed: false };
        entries.for_each(|entry| heap.push(entry));
        heap.entries.into_iter().map(|entry| entry.1).collect()
    }

    /// Replaces the first entry if the new one is better.
    fn offer(&mut self, entry: (f64, usize)) {
        let first = self.entries[0].0;
        let better = if self.reversed { first > entry.0 } else { first < entry.0 };
        let replaces_nan = first.is_nan() && !entry.0.is_nan();
        if !(better || replaces_nan) {
            return;
        }
        self.entries[0] = entry;
        let mut at = 0;
        loop {
            let mut child = 2 * at + 1;
            if child >= self.entries.len() {
                return;
            }
            if child + 1 < self.entries.len() && self.less(child + 1, child) {
                child += 1;
            }
            if !self.less(child, at) {
                return;
            }
            self.entries.swap(at, child);
            at = child;
        }
    }

    /// Best first, NaN last.
    fn sorted(mut self) -> impl Iterator<Item = usize> {
        let reversed = self.reversed;
        self.entries.sort_by(|a, b| {
            let by_value = if reversed { a.0.partial_cmp(&b.0) } else { b.0.partial_cmp(&a.0) };
            a.0.is_nan().cmp(&b.0.is_nan()).then(by_value.unwrap_or(std::cmp::Ordering::Equal))
        });
        self.entries.into_iter().map(|entry| entry.1)
    }
}

/// Whether `limit_ratio` selects a series: its hash is below the ratio, or not below for a negative ratio.
fn in_ratio(series: &VectorSeries, ratio: f64) -> bool {
    let place = series.labels.hash64() as f64 / u64::MAX as f64;
    if ratio >= 0.0 { place < ratio } else { place >= 1.0 + ratio }
}

/// The series of a group selected at a step, in order.
fn selected(op: AggregateOp, group: &Group, vector: &[VectorSeries], param: f64, step: usize) -> Vec<usize> {
    let entries =
        group.members.iter().filter_map(|at| vector[*at].column.get(step).map(|value| (value, *at)));
    if op == AggregateOp::LimitRatio {
        let ratio = param.clamp(-1.0, 1.0);
        return Heap::unsorted(entries.filter(|(_, at)| ratio != 0.0 && in_ratio(&vector[*at], ratio)));
    }
    if param < 1.0 {
        return Vec::new();
    }
    let k = (param as usize).min(vector.len());
    if op == AggregateOp::Limitk {
        return Heap::unsorted(entries.take(k));
    }
    let mut heap = Heap { entries: Vec::new(), reversed: op == AggregateOp::Bottomk };
    for entry in entries {
        if heap.entries.len() < k {
            heap.push(entry);
        } else {
            heap.offer(entry);
        }
    }
    heap.sorted().collect()
}

impl Context<'_> {
    pub(super) fn rank(&self, aggregate: &Aggregate, grid: &Grid) -> Result<Vec<VectorSeries>> {
        let Some(param) = &aggregate.param else { unreachable!("the plan is checked: a parameter") };
        let params = self.eval_scalar(param, grid)?;
        let mut vector = self.eval_vector(&aggregate.expr, grid)?;
        if aggregate.op == AggregateOp::LimitRatio {
            self.check_ratios(&params, aggregate.param_at)?;
        } else if params.iter().all(|k| *k < 1.0) {
            return Ok(Vec::new());
        } else {
            check_ks(&params)?;
        }
        let groups = groups(&vector, &aggregate.grouping);
        let mut chosen = vec![Bits::new(grid.steps); vector.len()];
        let mut order = Vec::new();
        for (step, param) in params.iter().enumerate() {
            self.check()?;
            for group in &groups {
                for at in selected(aggregate.op, group, &vector, *param, step) {
                    chosen[at].set(step);
                    if grid.is_instant() {
                        order.push(at);
                    }
                }
            }
        }
        if grid.is_instant() {
            let mut places: Vec<Option<VectorSeries>> = vector.into_iter().map(Some).collect();
            return Ok(order.into_iter().filter_map(|at| places[at].take()).collect());
        }
        for (series, steps) in vector.iter_mut().zip(chosen) {
            series.column.present = steps;
        }
        vector.retain(|series| series.column.present.any());
        Ok(vector)
    }

    fn check_ratios(&self, ratios: &[f64], at: usize) -> Result<()> {
        if ratios.iter().any(|ratio| ratio.is_nan()) {
            return Err(Error::execution("Ratio value is NaN"));
        }
        let most = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        if most > 1.0 {
            self.annotate(|annotations| annotations.ratio_out_of_range(most, 1.0, at));
        }
        if least < -1.0 {
            self.annotate(|annotations| annotations.ratio_out_of_range(least, -1.0, at));
        }
        Ok(())
    }
}
