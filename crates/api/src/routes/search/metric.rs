//! `POST /v1/search/metric`

use std::sync::Arc;

use gnudi_engine::MeasuresQuery;
use gnudi_indexer::IndexerError;
use gnudi_model::{Aggregation, AggregationMethod, ArchivePolicy, Metric, MetricId, Timespan, Timestamp};
use hyper::StatusCode;

use crate::{
    body::RequestBody,
    error::ApiError,
    json::{self, Value, float},
    measures::write::{Column, Rows},
    policy::Rule,
    predicate::Predicate,
    python,
    query::{Argument, Query},
    reply::{self, Response},
    request,
    router::{Call, parse_uuid},
};

/// Measures of an answer (400).
const ROWS_MAX: usize = 2_000_000;

/// About the longest row.
const ROW_BYTES: usize = 64;

/// What a search asks for, of any metric.
struct Wanted {
    start: Option<Timestamp>,
    stop: Option<Timestamp>,
    method: Option<AggregationMethod>,
    method_name: String,
    /// The coarsest first; `None` for all that a policy has.
    granularities: Option<Vec<Timespan>>,
    predicate: Predicate,
}

/// The measures of some metrics for which a query holds, by metric.
pub async fn metric(call: &Call<'_>, body: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let query = call.query();
    let ids = ids(&query)?;
    let metrics = call.app.engine().indexer().metrics(&ids).await?;
    let metrics: Vec<Arc<Metric>> = metrics.into_iter().flatten().collect();
    if !metrics.iter().all(|metric| call.may(Rule::SearchMetric, metric)) {
        return Err(ApiError::forbidden());
    }
    let text = body.read().await?;
    if text.is_empty() {
        return Err(ApiError::bad_request("No query specified in body"));
    }
    request::expect_json(call.parts)?;
    let wanted = wanted(&query, Predicate::read(&json::parse(&text)?)?, call.app.now())?;
    let mut asked = Vec::with_capacity(metrics.len());
    for metric in &metrics {
        let policy = policy(call, metric).await?;
        let aggregations = aggregations(&policy, &wanted)?;
        asked.push((metric, policy, aggregations));
    }
    let mut answer = vec![b'{'];
    let mut rows_left = ROWS_MAX;
    for (metric, policy, aggregations) in asked {
        if aggregations.is_empty() {
            continue;
        }
        let mut rows = rows(call, metric, &policy, aggregations, &wanted).await?;
        rows_left = rows_left
            .checked_sub(rows.len())
            .ok_or_else(|| ApiError::bad_request(format!("More than {ROWS_MAX} measures match")))?;
        if answer.len() > 1 {
            answer.extend_from_slice(b", ");
        }
        answer.reserve(rows.len() * ROW_BYTES + ROW_BYTES);
        json::write_string(&metric.id.to_string(), &mut answer);
        answer.extend_from_slice(b": ");
        rows.write(usize::MAX, &mut answer);
    }
    answer.push(b'}');
    Ok(reply::json_bytes(StatusCode::OK, answer))
}

/// The ids of `metric_id`, each once.
fn ids(query: &Query) -> Result<Vec<MetricId>, ApiError> {
    let texts = match query.get("metric_id") {
        None => return Err(ApiError::bad_request("Missing required arguments: metric_id")),
        Some(Argument::One("")) => Vec::new(),
        Some(Argument::One(text)) => vec![text],
        Some(Argument::Several(texts)) => texts,
    };
    let mut ids = Vec::with_capacity(texts.len());
    for text in texts {
        let id = parse_uuid(text).ok_or_else(|| ApiError::argument("metric_id", "Must be a UUID"))?;
        if !ids.contains(&MetricId(id)) {
            ids.push(MetricId(id));
        }
    }
    Ok(ids)
}

fn wanted(query: &Query, predicate: Predicate, now: Timestamp) -> Result<Wanted, ApiError> {
    let time = |name: &str| {
        let refuse = || ApiError::bad_request(format!("Invalid value for {name}"));
        let text = query.single(name, refuse)?;
        text.map(|text| python::timestamp(text, now).map_err(|_| refuse())).transpose()
    };
    let (start, stop) = (time("start")?, time("stop")?);
    predicate.check()?;
    let refuse = || ApiError::argument("aggregation", "Must be the name of one aggregation method");
    let method_name = query.single("aggregation", refuse)?.unwrap_or("mean").to_owned();
    let granularities = match query.get("granularity") {
        None => None,
        Some(Argument::One("")) => Some(Vec::new()),
        Some(Argument::One(text)) => Some(timespans(&[text])?),
        Some(Argument::Several(texts)) => Some(timespans(&texts)?),
    };
    Ok(Wanted { start, stop, method: method_name.parse().ok(), method_name, granularities, predicate })
}

/// Granularities, the coarsest first, each once.
fn timespans(texts: &[&str]) -> Result<Vec<Timespan>, ApiError> {
    let timespan = |text: &&str| {
        python::timespan(&Value::from(*text)).map_err(|reason| ApiError::argument("granularity", reason))
    };
    let mut spans = texts.iter().map(timespan).collect::<Result<Vec<_>, _>>()?;
    spans.sort_unstable_by(|a, b| b.cmp(a));
    spans.dedup();
    Ok(spans)
}

async fn policy(call: &Call<'_>, metric: &Metric) -> Result<Arc<ArchivePolicy>, ApiError> {
    let indexer = call.app.engine().indexer();
    let name = &metric.archive_policy_name;
    if let Some(policy) = indexer.cached_policy(name) {
        return Ok(policy);
    }
    let policy = indexer.archive_policy(name).await?;
    policy.ok_or_else(|| IndexerError::NoSuchArchivePolicy(name.to_string()).into())
}

/// The policy's aggregations that are asked for.
fn aggregations(policy: &ArchivePolicy, wanted: &Wanted) -> Result<Vec<Aggregation>, ApiError> {
    let granularities = wanted.granularities.clone().unwrap_or_else(|| {
        let mut all: Vec<Timespan> = policy.definition.iter().map(|item| item.granularity).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all
    });
    let method = wanted.method.filter(|method| policy.aggregation_methods.contains(method));
    let aggregation = |granularity: Timespan| {
        let found = method.and_then(|method| policy.aggregation(method, granularity));
        found.ok_or_else(|| {
            ApiError::bad_request(Value::object([
                ("cause", "Aggregation does not exist".into()),
                (
                    "detail",
                    Value::object([
                        ("granularity", Value::Float(granularity.as_secs_f64())),
                        ("aggregation_method", wanted.method_name.as_str().into()),
                    ]),
                ),
            ]))
        })
    };
    granularities.into_iter().map(aggregation).collect()
}

/// The measures of a metric for which the query holds.
async fn rows(
    call: &Call<'_>,
    metric: &Metric,
    policy: &ArchivePolicy,
    aggregations: Vec<Aggregation>,
    wanted: &Wanted,
) -> Result<Rows, ApiError> {
    let asked = MeasuresQuery { aggregations, start: wanted.start, stop: wanted.stop, resample: None };
    let found = call.app.engine().measures(metric.id, policy, &asked).await?;
    let columns = found.into_iter().map(|measures| {
        let mut granularity = Vec::new();
        float::write(measures.granularity.as_secs_f64(), &mut granularity);
        let points = measures.timestamps.into_iter().zip(measures.values);
        let (timestamps, values): (Vec<Timestamp>, Vec<f64>) =
            points.filter(|(_, value)| wanted.predicate.holds(*value)).unzip();
        let granularity = String::from_utf8(granularity).expect("floats are ASCII");
        Column { granularity, timestamps: timestamps.into(), values }
    });
    Ok(Rows::new(columns.collect()))
}
