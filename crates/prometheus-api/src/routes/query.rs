//! `/api/v1/query` and `/api/v1/query_range`.

use gnudi_indexer::MetricScope;
use gnudi_prometheus::{answer::QueryPieces, times::duration_text};
use gnudi_promql::{QueryTimes, quoted};
use gnudi_server::ReplyBody;

use crate::{
    arguments::Arguments,
    evaluation::{self, QueryParameters},
    failure::Failure,
    routes::prelude::*,
};

/// The maximum number of steps in a range query.
const STEPS_MAX: i64 = 11_000;

/// Responses with fewer samples are one piece, with Content-Length.
const WHOLE_SAMPLES_MAX: usize = 20_000;

/// `GET` and `POST /api/v1/query`
pub async fn query(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let seen = call.metrics_allowed(Rule::GetMeasures)?;
    super::respond(call, body, async |arguments| {
        let limit = arguments.limit()?;
        let time_ms = arguments.time("time")?.unwrap_or_else(|| call.now_ms());
        respond(call, &arguments, QueryTimes::instant(time_ms), limit, seen).await
    })
    .await
}

/// `GET` and `POST /api/v1/query_range`
pub async fn query_range(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let seen = call.metrics_allowed(Rule::GetMeasures)?;
    super::respond(call, body, async |arguments| {
    let limit = arguments.limit()?;
    let (start_ms, end_ms) = (arguments.required_time("start")?, arguments.required_time("end")?);
    if end_ms < start_ms {
        return Err(Failure::parameter("end", "end timestamp must not be before start time"));
    }
    let step = arguments.duration("step")?;
    let step = step.ok_or_else(|| Failure::parameter("step", "cannot parse \"\" to a valid duration"))?;
    if step <= 0 {
        let text = "zero or negative query resolution step widths are not accepted. Try a positive integer";
        return Err(Failure::parameter("step", text));
    }
    if i128::from(end_ms - start_ms) * 1_000_000 / i128::from(step) > i128::from(STEPS_MAX) {
        let text = "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query \
                    resolution (?step=XX)";
        return Err(Failure::bad_data(text));
    }
    // Times have a precision of milliseconds.
    let step_ms = (step / 1_000_000).max(1);
    respond(call, &arguments, QueryTimes { start_ms, end_ms, step_ms }, limit, seen).await
    })
    .await
}

async fn respond(
    call: &Call<'_>,
    arguments: &Arguments,
    times: QueryTimes,
    limit: Option<usize>,
    seen: Option<MetricScope>,
) -> Result<Response, Failure> {
    let timeout = arguments.duration("timeout")?;
    if let Some(timeout) = timeout.filter(|timeout| *timeout <= 0) {
        let reason = format!("timeout must be positive, got {}", duration_text(timeout));
        return Err(Failure::parameter("timeout", reason));
    }
    let lookback = arguments.lookback()?;
    let parameters = QueryParameters { query: arguments.get("query"), times, timeout, lookback, limit };
    let mut evaluated = evaluation::evaluate(call, &parameters, seen.as_ref()).await?;
    let asked = arguments.get("stats");
    if !matches!(asked, "" | "true" | "all") {
        let text = "is deprecated and will be rejected in the next major release, use \"true\" or \"all\"";
        let warning = format!("value {} for parameter \"stats\" {text}", quoted(asked));
        evaluated.result.warnings.push(warning);
    }
    let stats = (!asked.is_empty()).then(|| evaluated.stats.write());
    let samples = evaluation::samples_of(&evaluated.result.value);
    let mut pieces = QueryPieces::new(evaluated.result, stats.as_deref());
    if samples <= WHOLE_SAMPLES_MAX {
        return Ok(reply::ok(pieces.collect::<Vec<_>>().concat()));
    }
    let mut share = gnudi_app::Share::new(&call.answers());
    share.grow(samples * size_of::<(i64, f64)>())?;
    let streamed = std::iter::from_fn(move || {
        let _share = &share;
        pieces.next().map(Into::into)
    });
    Ok(reply::ok(ReplyBody::Pieces(Box::new(streamed))))
}
