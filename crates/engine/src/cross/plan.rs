//! Which aggregations a query across metrics reads, and at which granularities.

use std::collections::{BTreeMap, HashMap};

use gnudi_model::{AggregationMethod, MetricId, Timespan};
use gnudi_series::{
    cross::{CrossError, Unaggregable},
    operations::MetricName,
};

use super::{CrossMeasuresError, CrossMeasuresQuery, CrossReference, MetricRead};

/// The plan of a query's reads.
#[derive(Debug)]
pub(super) struct Plan {
    /// Coarsest first.
    pub granularities: Vec<Timespan>,
    /// Each metric once; for each of its methods, all granularities in order.
    pub reads: Vec<MetricRead>,
    /// Where to find each reference's series.
    pub places: Vec<Place>,
}

#[derive(Debug)]
pub(super) struct Place {
    pub read: usize,
    /// The aggregation of the first granularity; the others follow.
    pub first_aggregation: usize,
    /// Whether no later reference has the same place.
    pub is_last: bool,
}

pub(super) fn plan(query: &CrossMeasuresQuery) -> Result<Plan, CrossMeasuresError> {
    let references = &query.references;
    let mut granularities = match &query.granularities {
        Some(granularities) => granularities.clone(),
        None => common_granularities(references)?,
    };
    let methods = methods(references)?;
    check_granularities(references, &granularities)?;
    granularities.sort_unstable_by(|a, b| b.cmp(a));
    granularities.dedup();
    let (mut reads, mut by_metric): (Vec<MetricRead>, HashMap<MetricId, usize>) = Default::default();
    let mut places: Vec<Place> = Vec::with_capacity(references.len());
    let mut last_at: HashMap<(usize, usize), usize> = HashMap::new();
    for (reference, method) in references.iter().zip(methods) {
        let read = *by_metric.entry(reference.metric).or_insert_with(|| {
            let (metric, policy) = (reference.metric, reference.policy.clone());
            reads.push(MetricRead { metric, policy, aggregations: Vec::new() });
            reads.len() - 1
        });
        let aggregations = &mut reads[read].aggregations;
        let known = aggregations.iter().position(|aggregation| aggregation.method == method);
        let first_aggregation = known.unwrap_or(aggregations.len());
        if known.is_none() {
            let of = |granularity: &Timespan| reference.policy.aggregation(method, *granularity);
            aggregations
                .extend(granularities.iter().map(|granularity| of(granularity).expect("checked above")));
        }
        if let Some(before) = last_at.insert((read, first_aggregation), places.len()) {
            places[before].is_last = false;
        }
        places.push(Place { read, first_aggregation, is_last: true });
    }
    Ok(Plan { granularities, reads, places })
}

/// Granularities that every reference's policy has.
fn common_granularities(references: &[CrossReference]) -> Result<Vec<Timespan>, CrossMeasuresError> {
    let mut counts: BTreeMap<Timespan, usize> = BTreeMap::new();
    for item in references.iter().flat_map(|reference| &reference.policy.definition) {
        *counts.entry(item.granularity).or_default() += 1;
    }
    let common = counts.into_iter().filter(|(_, count)| *count == references.len());
    let common: Vec<Timespan> = common.map(|(granularity, _)| granularity).collect();
    if common.is_empty() {
        let names: Vec<MetricName> = references.iter().map(shown).collect();
        return Err(CrossError::unaggregable(&names, "No granularity match").into());
    }
    Ok(common)
}

/// Each reference's method, which its policy must keep.
fn methods(references: &[CrossReference]) -> Result<Vec<AggregationMethod>, CrossMeasuresError> {
    let method = |reference: &CrossReference| {
        let kept = |method: &AggregationMethod| reference.policy.aggregation_methods.contains(method);
        reference.name.aggregation.parse().ok().filter(kept).ok_or_else(|| {
            CrossMeasuresError::UnknownAggregation {
                metric: reference.metric,
                method: reference.name.aggregation.clone(),
                granularity: reference.policy.definition[0].granularity,
            }
        })
    };
    references.iter().map(method).collect()
}

fn check_granularities(references: &[CrossReference], wanted: &[Timespan]) -> Result<(), CrossMeasuresError> {
    let lacks = |reference: &CrossReference| {
        let has = |granularity: &Timespan| {
            reference.policy.definition.iter().any(|item| item.granularity == *granularity)
        };
        let missing = wanted.iter().find(|granularity| !has(granularity))?;
        Some((shown(reference), Some(*missing)))
    };
    let missing: Vec<_> = references.iter().filter_map(lacks).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let reason = "Granularities are missing".to_owned();
    Err(CrossError::Unaggregable(Box::new(Unaggregable { reason, references: missing })).into())
}

fn shown(reference: &CrossReference) -> MetricName {
    MetricName { name: reference.shown_name.clone(), aggregation: reference.name.aggregation.clone() }
}
