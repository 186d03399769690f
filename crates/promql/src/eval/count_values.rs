//! `count_values`: one series for each value of a group.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::Context;
use super::aggregate::groups;
use crate::error::{Error, Result};
use crate::labels::METADATA;
use crate::numbers::plain;
use crate::plan::{Aggregate, Node};
use crate::series::{Column, Grid, VectorSeries};

impl Context<'_> {
    pub(super) fn count_values(&self, aggregate: &Aggregate, grid: &Grid) -> Result<Vec<VectorSeries>> {
        let Some(Node::Text(label)) = &aggregate.param else { unreachable!("the plan is checked: a label") };
        if label.is_empty() {
            return Err(Error::execution(format!("invalid label name {label:?}")));
        }
        let vector = self.eval_vector(&aggregate.expr, grid)?;
        // A series' own label with that name does not affect grouping.
        let mut grouping = aggregate.grouping.clone();
        let dropped =
            grouping.without && (grouping.labels.contains(label) || METADATA.contains(&label.as_ref()));
        if grouping.without {
            grouping.labels.push(label.clone());
            grouping.labels.sort();
        } else {
            grouping.labels.retain(|name| name != label);
        }
        let mut results = Vec::new();
        for group in groups(&vector, &grouping) {
            let mut counts: HashMap<String, Column> = HashMap::new();
            for at in group.members {
                self.check()?;
                for (step, value) in vector[at].column.iter() {
                    let text = if dropped { String::new() } else { plain(value) };
                    let column = match counts.entry(text) {
                        Entry::Occupied(entry) => entry.into_mut(),
                        Entry::Vacant(entry) => {
                            self.budget.columns(1, grid.steps)?;
                            self.budget.texts(entry.key().len())?;
                            entry.insert(Column::new(grid.steps))
                        }
                    };
                    let count = column.get(step).unwrap_or(0.0);
                    column.set(step, count + 1.0);
                }
            }
            for (value, column) in counts {
                let labels = group.labels.with([(label.clone(), Arc::from(value))]);
                results.push(VectorSeries { labels, drop_name: false, column });
            }
        }
        results.sort_by(|a, b| a.labels.cmp(&b.labels));
        self.merge_result(results, grid)
    }
}
