//! `POST /v1/search/metric`

use std::sync::Arc;

use gnudi_app::{
    Share, json, python,
    query::{Argument, Query},
};
use gnudi_engine::{CrossMeasuresError, Resample, cross::MetricRead};
use gnudi_model::{
    Aggregation, AggregationMethod, ArchivePolicy, Metric, MetricId, Timespan, Timestamp, python::parse_uuid,
};
use gnudi_series::cross::CrossSeries;

use crate::{
    measures::{POINT_BYTES, document::Document, write::Column},
    predicate::Predicate,
    routes::prelude::*,
};

/// The maximum number of points to search (413).
const POINTS_MAX: usize = 1 << 23;

/// The arguments of a search.
struct Wanted {
    start: Option<Timestamp>,
    stop: Option<Timestamp>,
    method: Option<AggregationMethod>,
    method_name: String,
    /// Coarsest first; `None` for all of a policy's.
    granularities: Option<Vec<Timespan>>,
    predicate: Predicate,
}

/// Searches measures by value; returns the matching ones by metric.
pub async fn metric(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let query = call.query();
    let ids = ids(&query)?;
    let metrics = call.indexer().metrics(&ids).await?;
    let metrics: Vec<Arc<Metric>> = metrics.into_iter().flatten().collect();
    call.enforce_all(Rule::SearchMetric, &metrics).await?;
    call.reads_metrics(metrics.len());
    // A valid query is small: it has at most a few hundred operators.
    let text = body.read_small().await?;
    if text.is_empty() {
        return Err(ApiError::bad_request("No query specified in body"));
    }
    request::expect_json(call.parts)?;
    let wanted = wanted(&query, Predicate::read(&json::parse(&text)?)?, call.app.now())?;
    let mut reads = Vec::with_capacity(metrics.len());
    for metric in &metrics {
        let policy = call.policy_of(&metric.archive_policy_name).await?;
        let aggregations = aggregations(&policy, &wanted)?;
        if !aggregations.is_empty() {
            reads.push(MetricRead { metric: metric.id, policy, aggregations });
        }
    }
    let engine = call.app.engine();
    let found = engine.measures_of_many(reads.clone(), wanted.start, wanted.stop, POINTS_MAX).await;
    let (found, held) = found.map_err(|error| match error {
        CrossMeasuresError::TooManyPoints => ApiError::too_large(format!(
            "more than {POINTS_MAX} points would have to be searched: request fewer metrics or a shorter time"
        )),
        other => other.into(),
    })?;
    // All points are in memory until they are searched, also those that do not match.
    let points: usize = found.iter().flatten().map(|series| series.values.len()).sum();
    let answers = call.answers();
    let mut share = Share::new(&answers);
    share.grow(points * POINT_BYTES)?;
    let predicate = wanted.predicate;
    let document = Document::new(&answers);
    let search = move || {
        let _held = (share, held);
        answer(document, &reads, found, &predicate)
    };
    Ok(reply::ok(engine.compute(search).await?.into_body()))
}

/// Writes the matching measures, as a JSON object by metric.
fn answer(
    mut document: Document,
    reads: &[MetricRead],
    found: Vec<Vec<CrossSeries>>,
    predicate: &Predicate,
) -> Result<Document> {
    document.text("{");
    for (index, (read, series)) in reads.iter().zip(found).enumerate() {
        let columns = read.aggregations.iter().zip(series).map(|(aggregation, series)| {
            let points = series.timestamps.iter().copied().zip(series.values);
            let (timestamps, values): (Vec<Timestamp>, Vec<f64>) =
                points.filter(|(_, value)| predicate.holds(*value)).unzip();
            Column::new(Resample::Span(aggregation.granularity), timestamps.into(), values)
        });
        document.text(if index > 0 { ", " } else { "" });
        document.value(&read.metric.to_string().into());
        document.text(": ");
        document.rows(columns.collect())?;
    }
    document.text("}");
    Ok(document)
}

/// The distinct ids in `metric_id`.
fn ids(query: &Query) -> Result<Vec<MetricId>> {
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

fn wanted(query: &Query, predicate: Predicate, now: Timestamp) -> Result<Wanted> {
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

/// The distinct granularities, coarsest first.
fn timespans(texts: &[&str]) -> Result<Vec<Timespan>> {
    let timespan = |text: &&str| {
        python::timespan(&Value::from(*text)).map_err(|reason| ApiError::argument("granularity", reason))
    };
    let mut spans = texts.iter().map(timespan).collect::<Result<Vec<_>, _>>()?;
    spans.sort_unstable_by(|a, b| b.cmp(a));
    spans.dedup();
    Ok(spans)
}

/// The requested aggregations of the policy.
fn aggregations(policy: &ArchivePolicy, wanted: &Wanted) -> Result<Vec<Aggregation>> {
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
