//! Arithmetic and comparisons between vectors. Series with the same matching labels form a group, in which one side has
//! at most one series at a step.

use std::collections::HashMap;

use super::Context;
use super::operator::apply;
use crate::error::{Error, Result};
use crate::labels::{Labels, METADATA};
use crate::plan::{Binary, Cardinality, Matching, listed, lists};
use crate::series::{Bits, Column, Grid, VectorSeries};

/// The labels by which series match.
pub(super) fn signature(labels: &Labels, matching: &Matching) -> Labels {
    listed(labels, &matching.labels, matching.on)
}

/// Places of the series with one signature.
struct Group {
    signature: Labels,
    many: Vec<usize>,
    one: Vec<usize>,
}

/// Both operands. `many` may have several series in a group, `one` may not.
struct Sides<'b> {
    binary: &'b Binary,
    many: Vec<VectorSeries>,
    one: Vec<VectorSeries>,
    /// `many` is the right operand.
    swapped: bool,
    /// What stands in for a missing series of `many`, of `one`.
    fill_many: Option<f64>,
    fill_one: Option<f64>,
    /// Steps at which the operation takes place.
    steps: Bits,
    /// Names are dropped at once.
    drop_name: bool,
}

/// The results of a group's matches so far.
struct Matched {
    /// Steps with a match.
    steps: Bits,
    /// Steps by the labels of the result, for many-to-one matching.
    by_labels: HashMap<Labels, Bits>,
}

impl<'b> Sides<'b> {
    fn new(
        context: &Context<'_>,
        binary: &'b Binary,
        left: Vec<VectorSeries>,
        right: Vec<VectorSeries>,
        grid: &Grid,
    ) -> Self {
        let matching = &binary.matching;
        let swapped = matching.cardinality == Cardinality::OneToMany;
        let (many, one) = if swapped { (right, left) } else { (left, right) };
        let (fill_many, fill_one) = if swapped {
            (matching.fill_right, matching.fill_left)
        } else {
            (matching.fill_left, matching.fill_right)
        };
        let present =
            |side: &[VectorSeries]| Bits::union(grid.steps, side.iter().map(|series| &series.column));
        let mut steps = present(&many);
        if fill_many.is_none() && fill_one.is_none() {
            steps.intersect(&present(&one));
        } else {
            steps.unite(&present(&one));
        }
        let drop_name = binary.returns_bool && !context.options.delayed_name_removal;
        Sides { binary, many, one, swapped, fill_many, fill_one, steps, drop_name }
    }

    fn groups(&self) -> Vec<Group> {
        let mut places: HashMap<Labels, usize> = HashMap::new();
        let mut groups: Vec<Group> = Vec::new();
        let mut place = |series: &VectorSeries, groups: &mut Vec<Group>| {
            let signature = signature(&series.labels, &self.binary.matching);
            *places.entry(signature.clone()).or_insert_with(|| {
                groups.push(Group { signature, many: Vec::new(), one: Vec::new() });
                groups.len() - 1
            })
        };
        for (at, series) in self.many.iter().enumerate() {
            let group = place(series, &mut groups);
            groups[group].many.push(at);
        }
        for (at, series) in self.one.iter().enumerate() {
            let group = place(series, &mut groups);
            groups[group].one.push(at);
        }
        groups
    }

    /// Two series of the "one" side at the same step are an error.
    fn check_one(&self, group: &Group, grid: &Grid) -> Result<()> {
        let mut seen = Bits::new(grid.steps);
        for (at, later) in group.one.iter().map(|place| &self.one[*place]).enumerate() {
            let mut both = later.column.present.clone();
            both.intersect(&self.steps);
            if both.intersects(&seen) {
                both.intersect(&seen);
                let mut before = group.one[..at].iter().map(|place| &self.one[*place]);
                let earlier = before.find(|series| series.column.present.intersects(&both)).unwrap_or(later);
                return Err(self.duplicate(later, earlier));
            }
            seen.unite(&both);
        }
        Ok(())
    }

    fn duplicate(&self, later: &VectorSeries, earlier: &VectorSeries) -> Error {
        let side = if self.swapped { "left" } else { "right" };
        let mut names = [later.labels.to_string(), earlier.labels.to_string()];
        names.sort();
        let group = signature(&later.labels, &self.binary.matching);
        Error::execution(format!(
            "found duplicate series for the match group {group} on the {side} hand-side of the operation: [{}]\
             ;many-to-many matching not allowed: matching labels must be unique on one side",
            names.join(", ")
        ))
    }

    /// The series of the "one" side at each step, if there are several.
    fn owners(&self, group: &Group, grid: &Grid) -> Vec<Option<usize>> {
        if group.one.len() < 2 {
            return Vec::new();
        }
        let mut owners = vec![None; grid.steps];
        for place in &group.one {
            for step in self.one[*place].column.present.iter() {
                owners[step] = Some(*place);
            }
        }
        owners
    }

    /// The series of the "one" side that may match at these steps.
    fn partners(group: &Group, owners: &[Option<usize>], steps: &Bits) -> Vec<usize> {
        if owners.is_empty() {
            return group.one.clone();
        }
        let mut partners: Vec<usize> = steps.iter().filter_map(|step| owners[step]).collect();
        partners.sort_unstable();
        partners.dedup();
        partners
    }

    /// The labels of a result.
    fn result_labels(&self, many: &Labels, one: &Labels) -> Labels {
        let matching = &self.binary.matching;
        let drops = self.drop_name || !self.binary.op.is_comparison();
        let named = |name: &str| lists(&matching.labels, name);
        let one_to_one = matching.cardinality == Cardinality::OneToOne;
        let labels = many.filtered(|name| {
            let dropped = drops && METADATA.contains(&name);
            !dropped && (!one_to_one || named(name) == matching.on)
        });
        if matching.include.is_empty() {
            return labels;
        }
        let taken = matching.include.iter().map(|name| {
            let value = one.get_shared(name).unwrap_or_else(|| "".into());
            (name.clone(), value)
        });
        // A name may be among them: as in Prometheus 3.16, it stays.
        labels.with(taken)
    }

    /// Records matches at `steps` whose result has these labels.
    fn note(&self, matched: &mut Matched, labels: &Labels, steps: &Bits, grid: &Grid) -> Result<()> {
        if self.binary.matching.cardinality == Cardinality::OneToOne {
            if matched.steps.intersects(steps) {
                return Err(Error::execution(
                    "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)",
                ));
            }
        } else {
            let known = matched.by_labels.entry(labels.clone()).or_insert_with(|| Bits::new(grid.steps));
            if known.intersects(steps) {
                return Err(Error::execution(
                    "multiple matches for labels: grouping labels must ensure unique matches",
                ));
            }
            known.unite(steps);
        }
        matched.steps.unite(steps);
        Ok(())
    }

    /// Applies the operation at some steps. A side that is `None` has the fill value.
    fn column(&self, many: Option<&Column>, one: Option<&Column>, steps: &Bits, grid: &Grid) -> Column {
        let mut column = Column::new(grid.steps);
        let value_at = |side: Option<&Column>, fill: Option<f64>, step: usize| match side {
            Some(column) => column.values[step],
            None => fill.unwrap_or(f64::NAN),
        };
        for step in steps.iter() {
            let of_many = value_at(many, self.fill_many, step);
            let of_one = value_at(one, self.fill_one, step);
            let (left, right) = if self.swapped { (of_one, of_many) } else { (of_many, of_one) };
            let (value, holds) = apply(self.binary.op, left, right);
            if self.binary.returns_bool {
                column.set(step, f64::from(u8::from(holds)));
            } else if holds {
                column.set(step, value);
            }
        }
        column
    }
}

impl Context<'_> {
    pub(super) fn match_vectors(
        &self,
        binary: &Binary,
        left: Vec<VectorSeries>,
        right: Vec<VectorSeries>,
        grid: &Grid,
    ) -> Result<Vec<VectorSeries>> {
        let sides = Sides::new(self, binary, left, right, grid);
        if !sides.steps.any() {
            return Ok(Vec::new());
        }
        // Results stand in the order of the "many" side.
        let mut results: Vec<(usize, VectorSeries)> = Vec::new();
        for group in sides.groups() {
            self.check()?;
            sides.check_one(&group, grid)?;
            self.match_group(&sides, &group, grid, &mut results)?;
        }
        results.sort_by_key(|result| result.0);
        let vector = results.into_iter().map(|result| result.1).filter(|series| series.column.present.any());
        self.merge_result(vector.collect(), grid)
    }

    fn match_group(
        &self,
        sides: &Sides<'_>,
        group: &Group,
        grid: &Grid,
        results: &mut Vec<(usize, VectorSeries)>,
    ) -> Result<()> {
        let mut matched = Matched { steps: Bits::new(grid.steps), by_labels: HashMap::new() };
        let owners = sides.owners(group, grid);
        // Also if names were dropped at once: `group_left` may have added one.
        let drop_name = sides.binary.returns_bool;
        let mut add = |place: usize, labels: Labels, column: Column| {
            results.push((place, VectorSeries { labels, drop_name, column }));
        };
        for place in &group.many {
            let many = &sides.many[*place];
            let mut alone = many.column.present.clone();
            alone.intersect(&sides.steps);
            for one in Sides::partners(group, &owners, &alone).into_iter().map(|place| &sides.one[place]) {
                let mut both = alone.clone();
                both.intersect(&one.column.present);
                if !both.any() {
                    continue;
                }
                alone.subtract(&both);
                let labels = sides.result_labels(&many.labels, &one.labels);
                sides.note(&mut matched, &labels, &both, grid)?;
                self.budget.columns(1, grid.steps)?;
                add(*place, labels, sides.column(Some(&many.column), Some(&one.column), &both, grid));
            }
            if sides.fill_one.is_some() && alone.any() {
                let labels = sides.result_labels(&many.labels, &group.signature);
                sides.note(&mut matched, &labels, &alone, grid)?;
                self.budget.columns(1, grid.steps)?;
                add(*place, labels, sides.column(Some(&many.column), None, &alone, grid));
            }
        }
        if sides.fill_many.is_some() {
            for one in group.one.iter().map(|place| &sides.one[*place]) {
                let mut alone = one.column.present.clone();
                alone.subtract(&matched.steps);
                if !alone.any() {
                    continue;
                }
                let labels = sides.result_labels(&group.signature, &one.labels);
                sides.note(&mut matched, &labels, &alone, grid)?;
                self.budget.columns(1, grid.steps)?;
                add(usize::MAX, labels, sides.column(None, Some(&one.column), &alone, grid));
            }
        }
        Ok(())
    }
}
