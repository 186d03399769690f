//! `/api/v1/admin/tsdb/delete_series`

use std::collections::HashSet;

use gnudi_drivers::incoming::Batch;
use gnudi_indexer::{IndexerError, MetricScope};
use gnudi_model::{MetricId, Timestamp};
use gnudi_series::removal;

use crate::{
    arguments::Arguments,
    failure::Failure,
    routes::prelude::*,
    selected::{find_all, label_matchers},
};

/// `POST` and `PUT /api/v1/admin/tsdb/delete_series`: deletes the series that the caller may delete. Without
/// times whole metrics, otherwise their measures from `start` to `end`, inclusive.
pub async fn delete_series(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let seen = call.metrics_allowed(Rule::DeleteMetric)?;
    super::respond(call, body, async |arguments| {
        delete(call, &arguments, seen.as_ref()).await?;
        Ok(reply::no_content())
    })
    .await
}

/// `POST` and `PUT /api/v1/admin/tsdb/clean_tombstones`: does nothing, deleted data is removed automatically.
pub async fn clean_tombstones(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    call.has_no_items(Rule::DeleteMetric);
    Ok(reply::no_content())
}

async fn delete(call: &Call<'_>, arguments: &Arguments, seen: Option<&MetricScope>) -> Result<(), Failure> {
    arguments.require_readable()?;
    arguments.require_matchers()?;
    let (start_ms, end_ms) = arguments.times()?;
    if start_ms.zip(end_ms).is_some_and(|(start_ms, end_ms)| end_ms < start_ms) {
        return Err(Failure::parameter("end", "end timestamp must not be before start time"));
    }
    let sets = arguments.required_matchers(call.app.engine()).await?;
    let found = find_all(call, Rule::DeleteMetric, &label_matchers(&sets)?, seen).await?;
    let metrics: HashSet<MetricId> = found.into_iter().map(|series| series.metric).collect();
    if start_ms.is_none() && end_ms.is_none() {
        let metrics: Vec<MetricId> = metrics.into_iter().collect();
        for metrics in metrics.chunks(METRICS_AT_ONCE) {
            for deleted in call.indexer().delete_metrics(metrics).await {
                match deleted {
                    // A concurrent request has deleted it.
                    Ok(()) | Err(IndexerError::NoSuchMetric(_)) => {}
                    Err(error) => return Err(ApiError::from(error).into()),
                }
            }
        }
        return Ok(());
    }
    let nanoseconds = |milliseconds: i64| Timestamp(milliseconds.saturating_mul(1_000_000).max(0));
    let stop = end_ms.map_or(Timestamp::MAX, |end_ms| nanoseconds(end_ms.saturating_add(1)));
    let span = nanoseconds(start_ms.unwrap_or(0))..stop;
    let mut batch = Batch::default();
    for metric in metrics {
        batch.push(metric, 0, |out| removal::encode(&span, out));
    }
    if !span.is_empty() {
        call.append(batch).await?;
    }
    Ok(())
}

const METRICS_AT_ONCE: usize = 1_000;
