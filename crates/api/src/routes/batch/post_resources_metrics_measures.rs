//! `POST /v1/batch/resources/metrics/measures`

use std::sync::Arc;

use gnudi_model::Metric;
use uuid::Uuid;

use super::{append, missing_metrics};
use crate::{
    arrow,
    measures::named::{self, Named},
    routes::prelude::*,
};

/// Stores measures by resource and metric name, all or none. With `create_metrics`, creates missing metrics
/// after all checks have passed.
pub async fn post_resources_metrics_measures(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let is_arrow = arrow::is_sent(call.parts);
    let input = if is_arrow { body.read().await? } else { request::json_bytes(call.parts, body).await? };
    let app = call.app;
    let limits = &app.options().limits;
    let mut read = app.measure_buffers.take();
    let creator = &call.caller.user;
    let sent;
    let named = if is_arrow {
        let work = || arrow::measures::named(&input, creator, limits, &mut read);
        sent = body.long_work.run(arrow::measures::work_bytes(&input), work).await?;
        Named::from(&sent)
    } else {
        let scan = || named::read(&input, creator, || app.now(), limits.measures_max, &mut read);
        let (named, by) = body.long_work.run(input.len(), scan).await?;
        by.count(&app.figures);
        named
    };
    limits.check_metrics(named.metrics.len())?;
    if named.metrics.is_empty() {
        call.has_no_items(Rule::PostMeasures);
        return Ok(reply::accepted());
    }
    let create = call.query().flag("create_metrics", false)?;
    let found = find(call, &named).await?;
    let metrics = match found.iter().cloned().collect::<Option<Vec<_>>>() {
        Some(metrics) => {
            call.enforce_all(Rule::PostMeasures, &metrics).await?;
            metrics
        }
        None if create => missing_metrics::create(call, &named, found).await?,
        None => return Err(missing_metrics::unknown(&named, &found)),
    };
    let parts = named.metrics.into_iter().zip(&metrics).map(|(part, metric)| (metric.id, part.range));
    append(call, read, parts).await
}

/// The existing metrics, one entry per name.
async fn find(call: &Call<'_>, named: &Named<'_>) -> Result<Vec<Option<Arc<Metric>>>> {
    let indexer = call.indexer();
    let at_hand = |index: usize| {
        let (resource, name) = named.key(index);
        indexer.cached_named_metric(resource, name)
    };
    let mut found: Vec<Option<Arc<Metric>>> = (0..named.metrics.len()).map(at_hand).collect();
    let missing: Vec<usize> = (0..found.len()).filter(|index| found[*index].is_none()).collect();
    if !missing.is_empty() {
        let keys: Vec<(Uuid, &str)> = missing.iter().map(|index| named.key(*index)).collect();
        for (index, metric) in missing.into_iter().zip(indexer.named_metrics(&keys).await?) {
            found[index] = metric;
        }
    }
    Ok(found)
}
