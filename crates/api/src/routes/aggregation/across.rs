//! One aggregation of several metrics, re-aggregated across them.

use std::sync::Arc;

use gnudi_app::query::{Argument, Query};
use gnudi_engine::{CrossMeasuresQuery, CrossReference, Engine, MeasuresQuery, ReadRange, Resample};
use gnudi_model::{Aggregation, AggregationMethod, ArchivePolicy, Metric, MetricId, Timespan};
use gnudi_series::{
    cross::CrossError,
    operations::{MetricName, Metrics, Operation, Reaggregation},
};

use crate::{
    measures::{document::Document, write::Column},
    routes::{
        aggregates::{Arguments, Policies, aggregated},
        metric::{no_aggregation, no_such_method, resample},
        prelude::*,
    },
};

/// The query's arguments.
pub(super) struct AcrossQuery<'q> {
    query: &'q Query,
    arguments: Arguments,
    aggregation: String,
    /// Defaults to `aggregation`.
    reaggregation: String,
}

impl<'q> AcrossQuery<'q> {
    /// # Errors
    /// Those of [`Arguments::of`].
    pub fn of(call: &Call<'_>, query: &'q Query) -> Result<Self> {
        let text = |name| match query.get(name) {
            None => None,
            Some(Argument::One(text)) => Some(text.to_owned()),
            Some(Argument::Several(texts)) => Some(Value::from(texts).repr()),
        };
        let arguments = Arguments::of(query, call.app.now(), call.app.options().empty_answers)?;
        let aggregation = text("aggregation").unwrap_or_else(|| "mean".to_owned());
        let reaggregation = text("reaggregation").unwrap_or_else(|| aggregation.clone());
        Ok(AcrossQuery { query, arguments, aggregation, reaggregation })
    }
}

/// A metric with its policy.
type Known = (Arc<Metric>, Arc<ArchivePolicy>);

/// What to read for a response.
pub(super) enum Reading {
    Nothing,
    /// One metric's aggregates, as stored.
    Stored {
        metric: MetricId,
        policy: Arc<ArchivePolicy>,
        query: MeasuresQuery,
    },
    /// Several metrics, aggregated to one series.
    Across(CrossMeasuresQuery),
}

impl Reading {
    /// The number of series that it reads.
    pub fn series(&self) -> usize {
        match self {
            Reading::Nothing => 0,
            Reading::Stored { query, .. } => query.aggregations.len(),
            Reading::Across(query) => query.references.len(),
        }
    }

    /// The points, coarsest granularity first.
    pub async fn columns(&self, engine: &Engine) -> Result<Vec<Column>> {
        match self {
            Reading::Nothing => Ok(Vec::new()),
            Reading::Stored { metric, policy, query } => {
                let found = engine.measures(*metric, policy, query).await?;
                Ok(found.into_iter().map(|measures| Column::of(measures, query.range.resample)).collect())
            }
            Reading::Across(query) => Ok(aggregated(engine.cross_measures(query.clone()).await?)),
        }
    }
}

/// The points of the metrics.
pub(super) async fn answer(call: &Call<'_>, asked: &AcrossQuery<'_>, metrics: &[Arc<Metric>]) -> Answer {
    let reading = reading(call, asked, metrics).await?;
    let mut document = Document::new(&call.answers());
    document.rows(reading.columns(call.app.engine()).await?)?;
    Ok(reply::ok(document.into_body()))
}

/// Checks access to the metrics, and decides what to read.
pub(super) async fn reading(
    call: &Call<'_>,
    asked: &AcrossQuery<'_>,
    metrics: &[Arc<Metric>],
) -> Result<Reading> {
    call.enforce_all(Rule::GetMetric, metrics).await?;
    call.reads_metrics(metrics.len());
    if metrics.is_empty() {
        return Ok(Reading::Nothing);
    }
    let resample = resample(asked.query, asked.query.get("granularity").as_ref())?;
    let mut policies = Policies::default();
    let mut known: Vec<Known> = Vec::with_capacity(metrics.len());
    for metric in metrics {
        known.push((metric.clone(), policies.of(call, metric).await?));
    }
    match asked.arguments.granularity {
        Some(granularity) => check_granularity(&known, &asked.aggregation, granularity)?,
        None => check_common_granularity(&known, &asked.aggregation)?,
    }
    if asked.query.flag("refresh", false)? {
        let ids: Vec<MetricId> = metrics.iter().map(|metric| metric.id).collect();
        call.app.engine().refresh(&ids, call.app.options().operation_timeout).await?;
    }
    match &known[..] {
        [(metric, policy)] => stored(asked, metric, policy, resample),
        several => across(asked, several, resample),
    }
}

fn has(policy: &ArchivePolicy, granularity: Timespan) -> bool {
    policy.definition.iter().any(|item| item.granularity == granularity)
}

fn check_granularity(known: &[Known], aggregation: &str, granularity: Timespan) -> Result<()> {
    match known.iter().find(|(_, policy)| !has(policy, granularity)) {
        None => Ok(()),
        Some((metric, _)) => Err(no_aggregation(metric, aggregation, granularity)),
    }
}

fn check_common_granularity(known: &[Known], aggregation: &str) -> Result<()> {
    let in_all = |granularity| known.iter().all(|(_, policy)| has(policy, granularity));
    if known[0].1.definition.iter().any(|item| in_all(item.granularity)) {
        return Ok(());
    }
    let names: Vec<MetricName> = known.iter().map(|(metric, _)| name_of(metric, aggregation)).collect();
    Err(CrossError::unaggregable(&names, "No granularity match").into())
}

/// The name of a metric's aggregation in operations and error texts.
fn name_of(metric: &Metric, aggregation: &str) -> MetricName {
    MetricName { name: metric.id.to_string(), aggregation: aggregation.to_owned() }
}

/// The method, if the policy has it.
fn method_of(aggregation: &str, policy: &ArchivePolicy) -> Option<AggregationMethod> {
    aggregation.parse().ok().filter(|method| policy.aggregation_methods.contains(method))
}

/// Reads one metric.
fn stored(
    asked: &AcrossQuery<'_>,
    metric: &Metric,
    policy: &Arc<ArchivePolicy>,
    resample: Option<Resample>,
) -> Result<Reading> {
    let Arguments { start, stop, granularity, .. } = asked.arguments;
    let method = method_of(&asked.aggregation, policy)
        .ok_or_else(|| no_such_method(metric, asked.aggregation.as_str().into()))?;
    let wanted = |span: &Timespan| granularity.is_none_or(|granularity| granularity == *span);
    let kept = policy.definition.iter().map(|item| item.granularity).filter(wanted);
    let mut aggregations: Vec<Aggregation> =
        kept.filter_map(|span| policy.aggregation(method, span)).collect();
    aggregations.sort_unstable_by_key(|aggregation| std::cmp::Reverse(aggregation.granularity));
    let query = MeasuresQuery { aggregations, range: ReadRange { start, stop, resample } };
    Ok(Reading::Stored { metric: metric.id, policy: policy.clone(), query })
}

/// Reads several metrics as one series.
fn across(asked: &AcrossQuery<'_>, known: &[Known], resample: Option<Resample>) -> Result<Reading> {
    for (metric, policy) in known {
        if method_of(&asked.aggregation, policy).is_none() {
            let granularity = policy.definition[0].granularity;
            return Err(no_aggregation(metric, &asked.aggregation, granularity));
        }
    }
    let references: Vec<CrossReference> = known
        .iter()
        .map(|(metric, policy)| CrossReference {
            metric: metric.id,
            policy: policy.clone(),
            shown_name: metric.id.to_string(),
            name: name_of(metric, &asked.aggregation),
        })
        .collect();
    let operations = Arc::new(operations(asked, &references, resample)?);
    Ok(Reading::Across(asked.arguments.query(references, operations)))
}

/// The equivalent operations for `/v1/aggregates`: aggregate all, after an optional resampling.
fn operations(
    asked: &AcrossQuery<'_>,
    references: &[CrossReference],
    resample: Option<Resample>,
) -> Result<Operation> {
    let unknown = |_| ApiError::argument("reaggregation", "Metrics cannot be aggregated by this method");
    let method: Reaggregation = asked.reaggregation.parse().map_err(unknown)?;
    let names = references.iter().map(|reference| reference.name.clone()).collect();
    let mut operand = Box::new(Operation::Metric(Metrics::Many(names)));
    if let Some(to) = resample {
        let method = asked.aggregation.parse().expect("policies keep known methods only");
        operand = Box::new(Operation::Resample { method, to, operand });
    }
    Ok(Operation::Aggregate { method, operand })
}
