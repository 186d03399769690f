//! `/api/v1/series`

use std::collections::HashSet;

use gnudi_prometheus::answer::{success, write_labels, write_list};
use gnudi_promql::{Labels, Limits};

use crate::{
    evaluation::TRUNCATED,
    routes::prelude::*,
    selected::{choice, find},
};

/// `GET` and `POST /api/v1/series`
pub async fn series(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let seen = call.metrics_seen(Rule::ListMetric)?;
    let seen = seen.as_ref();
    super::respond(call, body, async |arguments| {
        let limit = arguments.limit()?;
        let sets = arguments.required_matchers()?;
        arguments.times()?;
        let series_max = Limits::default().series_max;
        let mut known: HashSet<Labels> = HashSet::new();
        let mut found: Vec<Labels> = Vec::new();
        for matchers in &sets {
            let (matchers, _) = choice(matchers)?;
            let series = find(call, Rule::ListMetric, &matchers, seen, series_max).await?;
            let labels = series.into_iter().map(|series| series.labels);
            if sets.len() == 1 {
                found.extend(labels);
            } else {
                found.extend(labels.filter(|labels| known.insert(labels.clone())));
            }
        }
        let limit = limit.unwrap_or(usize::MAX);
        let warnings: &[String] = if found.len() > limit { &[TRUNCATED.to_owned()] } else { &[] };
        found.sort();
        found.truncate(limit);
        let mut data = Vec::new();
        write_list(&found, &mut data, write_labels);
        Ok(reply::ok(success(&data, warnings, &[])))
    })
    .await
}
