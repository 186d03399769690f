//! Runs a query: parses it, reads its series, and evaluates it off the request threads, within its timeout.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use gnudi_indexer::MetricScope;
use gnudi_promql::{
    Evaluation, Interrupt, Limits, Matcher, Options, Plan, QueryResult, QueryTimes, STALE_NAN_BITS, Sample,
    Selection, Series, Usage, Value, Windows, parse,
};

use crate::{
    api::Call,
    failure::Failure,
    long_work::{self, StopOnDrop, TIMEOUT},
    selected::Reader,
};

/// The default lookback of instant vectors. Prometheus' default.
pub const LOOKBACK_MS: i64 = 300_000;

/// A query with its parameters.
#[derive(Clone, Copy, Debug)]
pub struct QueryParameters<'a> {
    pub query: &'a str,
    pub times: QueryTimes,
    /// Nanoseconds; `None` for the default.
    pub timeout: Option<i64>,
    /// Nanoseconds; `None` for the default.
    pub lookback: Option<i64>,
    /// The maximum number of series in the response.
    pub limit: Option<usize>,
}

/// A query's result and statistics.
#[derive(Debug)]
pub struct Evaluated {
    pub result: QueryResult,
    pub stats: Stats,
}

/// The time that a query took.
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    reading: Duration,
    evaluating: Duration,
    usage: Usage,
}

impl Stats {
    /// In Prometheus' format.
    pub fn write(&self) -> Vec<u8> {
        let (reading, evaluating) = (self.reading.as_secs_f64(), self.evaluating.as_secs_f64());
        let total = reading + evaluating;
        let Usage { queried_samples, read_samples, peak_samples, series } = self.usage;
        format!(
            "{{\"timings\":{{\"evalTotalTime\":{total},\"resultSortTime\":0,\"queryPreparationTime\":{reading},\
             \"innerEvalTime\":{evaluating},\"execQueueTime\":0,\"execTotalTime\":{total}}},\
             \"samples\":{{\"totalQueryableSamples\":{queried_samples},\"samplesRead\":{read_samples},\
             \"seriesTouched\":{series},\"peakSamples\":{peak_samples}}}}}"
        )
        .into_bytes()
    }
}

/// Evaluates a query over the series that the caller may see.
pub async fn evaluate(
    call: &Call<'_>,
    parameters: &QueryParameters<'_>,
    seen: Option<&MetricScope>,
) -> Result<Evaluated, Failure> {
    let timeout = parameters.timeout.map_or(TIMEOUT, |timeout| Duration::from_nanos(timeout.max(0) as u64));
    let timeout = timeout.min(TIMEOUT);
    let deadline = Instant::now() + timeout;
    let work = evaluate_until(call, parameters, seen, deadline);
    tokio::time::timeout_at(deadline.into(), work).await.map_err(|_| Failure::timeout())?
}

async fn evaluate_until(
    call: &Call<'_>,
    parameters: &QueryParameters<'_>,
    seen: Option<&MetricScope>,
    deadline: Instant,
) -> Result<Evaluated, Failure> {
    let started = Instant::now();
    let limits = Limits::default();
    // As in Prometheus, a lookback that is not positive means the default.
    let lookback = parameters.lookback.filter(|lookback| *lookback > 0);
    let lookback_ms = lookback.map_or(LOOKBACK_MS, |lookback| (lookback / 1_000_000).max(1));
    let plan = parsed(call, parameters.query, parameters.times).await?;
    let is_canceled = Arc::new(AtomicBool::new(false));
    let _cancel = StopOnDrop(is_canceled.clone());
    let interrupt: Arc<dyn Fn() -> Option<Interrupt> + Send + Sync> = Arc::new(move || {
        if is_canceled.load(Ordering::Relaxed) {
            Some(Interrupt::Canceled)
        } else {
            (Instant::now() >= deadline).then_some(Interrupt::Timeout)
        }
    });
    let turn = if plan.has_subqueries() { Some(call.api.subqueries.turn().await) } else { None };
    let selected = Reader::new(call, seen, lookback_ms, &limits).selected(&plan, &limits, &interrupt).await?;
    let reading = started.elapsed();
    let delayed_name_removal = call.api.options.delayed_name_removal;
    let threads = call.app.engine().processor_count();
    let work = move || {
        // It ends with the work, also if the request is gone before.
        let _turn = turn;
        let options = Options {
            lookback_ms,
            delayed_name_removal,
            limits,
            threads,
            interrupt: &*interrupt,
            ..Options::default()
        };
        Evaluation { plan: &plan, series: &selected.series, options }.run()
    };
    let mut result = call.app.engine().compute(work).await?;
    if let Some(limit) = parameters.limit {
        result.warnings.extend(match &mut result.value {
            Value::Vector(samples) => truncate(samples, limit),
            Value::Matrix(series) => truncate(series, limit),
            Value::Scalar { .. } | Value::String { .. } => None,
        });
    }
    let stats = Stats { reading, evaluating: started.elapsed().saturating_sub(reading), usage: result.usage };
    Ok(Evaluated { result, stats })
}

/// Parses a query, within the default limits.
async fn parsed(call: &Call<'_>, query: &str, times: QueryTimes) -> Result<Plan, gnudi_promql::Error> {
    let query = query.to_owned();
    let has_expressions = long_work::may_have_expressions(&query);
    let parse = move || parse(&query, times, &Limits::default());
    long_work::on_expressions(call.app.engine(), has_expressions, parse).await
}

/// Truncates the items of a response; returns a warning if there were more.
pub fn truncate<T>(items: &mut Vec<T>, limit: usize) -> Option<String> {
    let is_longer = items.len() > limit;
    items.truncate(limit);
    is_longer.then(|| "results truncated due to limit".to_owned())
}

/// The number of samples in a value.
pub fn samples_of(value: &Value) -> usize {
    match value {
        Value::Scalar { .. } | Value::String { .. } => 1,
        Value::Vector(samples) => samples.len(),
        Value::Matrix(series) => series.iter().map(|series| series.samples.len()).sum(),
    }
}

/// The newest samples, within the lookback, of the series that match any of the matcher sets.
pub async fn newest(
    call: &Call<'_>,
    sets: &[Vec<Matcher>],
    seen: Option<&MetricScope>,
) -> Result<Vec<Sample>, Failure> {
    let now_ms = call.now_ms();
    let selection = Selection {
        start_ms: now_ms - LOOKBACK_MS + 1,
        end_ms: now_ms,
        looks_back: true,
        windows: Some(Windows { first_end_ms: now_ms, step_ms: 0 }),
        ..Selection::default()
    };
    let limits = Limits::default();
    let selected = Reader::new(call, seen, LOOKBACK_MS, &limits).samples_of_any(sets, &selection).await?;
    let newest = move |series: &Series| {
        let (time_ms, value) = (*series.times_ms.last()?, *series.values.last()?);
        let is_young = time_ms > now_ms - series.lookback_ms.unwrap_or(LOOKBACK_MS);
        let lives = is_young && value.to_bits() != STALE_NAN_BITS;
        lives.then(|| Sample { labels: series.labels.clone(), time_ms, value })
    };
    let count: usize = selected.series.iter().map(Vec::len).sum();
    let work = move || -> Vec<Sample> { selected.series.iter().flatten().filter_map(newest).collect() };
    Ok(long_work::on_items(call.app.engine(), count, work).await)
}
