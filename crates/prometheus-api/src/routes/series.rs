//! `/api/v1/series`

use gnudi_prometheus::answer::{success, write_labels, write_list};
use gnudi_promql::Labels;

use crate::{
    catalogue::FoundSeries,
    evaluation::truncate,
    long_work,
    routes::prelude::*,
    selected::{find_all, label_matchers},
};

/// `GET` and `POST /api/v1/series`
pub async fn series(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let seen = call.metrics_seen(Rule::ListMetric)?;
    let seen = seen.as_ref();
    super::respond(call, body, async |arguments| {
        arguments.require_readable()?;
        arguments.require_matchers()?;
        let limit = arguments.limit()?;
        // Only validated: series are listed whatever the times of their samples.
        arguments.times()?;
        let sets = arguments.required_matchers(call.app.engine()).await?;
        let series = find_all(call, Rule::ListMetric, &label_matchers(&sets)?, seen).await?;
        let (count, limit) = (series.len(), limit.unwrap_or(usize::MAX));
        let data = long_work::on_items(call.app.engine(), count, move || listed(series, limit)).await;
        Ok(reply::ok(data))
    })
    .await
}

/// The response: each series once, sorted by its labels.
fn listed(series: Vec<FoundSeries>, limit: usize) -> Vec<u8> {
    let mut found: Vec<Labels> = series.into_iter().map(|series| series.labels).collect();
    found.sort();
    found.dedup();
    let warning = truncate(&mut found, limit);
    let mut data = Vec::new();
    write_list(&found, &mut data, write_labels);
    success(&data, warning.as_slice(), &[])
}
