//! `info`: adds the labels of info series with the same `instance` and `job`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Context;
use crate::error::{Error, Result};
use crate::labels::{Labels, METADATA};
use crate::plan::Info;
use crate::series::{Bits, Grid, VectorSeries};

/// Labels that identify the target of an info series.
const IDENTIFYING: [&str; 2] = ["instance", "job"];

/// Info series by identifying labels, and by name.
type Found = HashMap<Labels, BTreeMap<String, Vec<VectorSeries>>>;

fn identity(labels: &Labels) -> Labels {
    labels.filtered(|name| IDENTIFYING.contains(&name))
}

impl Info {
    /// Whether a series is an info series itself: such series are returned unchanged.
    fn is_info(&self, labels: &Labels) -> bool {
        self.names.iter().all(|matcher| matcher.matches(labels.metric_name()))
    }

    /// The labels that a series gets from its info series.
    fn labels(&self, labels: &Labels, infos: &[&Labels]) -> Result<Labels> {
        let mut added: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
        for info in infos {
            for (name, value) in info.iter() {
                let asked =
                    self.matchers.is_empty() || self.matchers.iter().any(|matcher| matcher.name == name);
                if METADATA.contains(&name) || !asked {
                    continue;
                }
                if added.get(name).is_some_and(|known| known.as_ref() != value) {
                    return Err(Error::execution(format!("conflicting label: {name}")));
                }
                if labels.get(name).is_empty() {
                    added.insert(name.into(), value.into());
                }
            }
        }
        Ok(labels.with(added))
    }
}

impl Context<'_> {
    pub(super) fn info(&self, info: &Info, grid: &Grid) -> Result<Vec<VectorSeries>> {
        let base = self.eval_vector(&info.expr, grid)?;
        let mut found = Found::new();
        for series in &base {
            let identity = identity(&series.labels);
            if !info.is_info(&series.labels) && !identity.is_empty() {
                found.entry(identity).or_default();
            }
        }
        // If several have the same labels, the newest sample counts.
        for series in self.times_of(info.selector, self.plan.selectors[info.selector].window, grid)? {
            if let Some(by_name) = found.get_mut(&identity(&series.labels)) {
                by_name.entry(series.labels.metric_name().to_owned()).or_default().push(series);
            }
        }
        let mut result = Vec::with_capacity(base.len());
        for series in base {
            self.check()?;
            if info.is_info(&series.labels) {
                result.push(series);
                continue;
            }
            let none = BTreeMap::new();
            let by_name = found.get(&identity(&series.labels)).unwrap_or(&none);
            self.enrich(info, &series, by_name, grid, &mut result)?;
        }
        self.merge(result)
    }

    /// Splits the series by the label sets that it gets at different steps.
    fn enrich(
        &self,
        info: &Info,
        series: &VectorSeries,
        by_name: &BTreeMap<String, Vec<VectorSeries>>,
        grid: &Grid,
        result: &mut Vec<VectorSeries>,
    ) -> Result<()> {
        let mut pieces: BTreeMap<Vec<(usize, usize)>, Bits> = BTreeMap::new();
        for step in series.column.present.iter() {
            let mut key = Vec::new();
            for (place, candidates) in by_name.values().enumerate() {
                if let Some(newest) = newest(candidates, step)? {
                    key.push((place, newest));
                }
            }
            pieces.entry(key).or_insert_with(|| Bits::new(grid.steps)).set(step);
        }
        let candidates: Vec<&Vec<VectorSeries>> = by_name.values().collect();
        for (key, steps) in pieces {
            if key.is_empty() && info.matchers.iter().any(|matcher| !matcher.matches("")) {
                continue;
            }
            let infos: Vec<&Labels> =
                key.iter().map(|(place, newest)| &candidates[*place][*newest].labels).collect();
            self.budget.columns(1, grid.steps)?;
            let mut piece = series.clone();
            piece.labels = info.labels(&series.labels, &infos)?;
            piece.column.present.intersect(&steps);
            result.push(piece);
        }
        Ok(())
    }
}

/// The info series with the newest sample at a step. Two of the same age are an error.
fn newest(candidates: &[VectorSeries], step: usize) -> Result<Option<usize>> {
    let mut newest: Option<(usize, f64)> = None;
    for (at, candidate) in candidates.iter().enumerate() {
        let Some(time) = candidate.column.get(step) else { continue };
        match newest {
            Some((known, known_time)) if known_time == time => {
                let (known, new) = (&candidates[known].labels, &candidate.labels);
                let time_ms = (time * 1000.0).round();
                return Err(Error::execution(format!(
                    "found duplicate series for info metric: existing {known} @ {time_ms}, new {new} @ {time_ms}"
                )));
            }
            Some((_, known_time)) if known_time > time => {}
            _ => newest = Some((at, time)),
        }
    }
    Ok(newest.map(|newest| newest.0))
}
