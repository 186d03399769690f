//! `/api/v1/labels` and `/api/v1/label/{name}/values`

use std::{collections::BTreeSet, sync::Arc};

use gnudi_indexer::MetricScope;
use gnudi_prometheus::{
    answer::{success, write_texts},
    escaped::unescape,
    labels::{RESOURCE_ID, exported},
};
use gnudi_promql::{METRIC_NAME, Matcher};

use crate::{
    arguments::Arguments,
    evaluation::truncate,
    failure::Failure,
    long_work,
    routes::prelude::*,
    selected::{find_all, label_matchers},
};

/// `GET` and `POST /api/v1/labels`
pub async fn labels(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let seen = call.metrics_seen(Rule::ListMetric)?;
    super::respond(call, body, async |arguments| list(call, &arguments, None, seen.as_ref()).await).await
}

/// `GET /api/v1/label/{name}/values`
pub async fn label_values(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let seen = call.metrics_seen(Rule::ListMetric)?;
    let name = unescape(call.parameter("name"));
    super::respond(call, body, async |arguments| list(call, &arguments, Some(&name), seen.as_ref()).await)
        .await
}

/// Label names, or the values of a label.
async fn list(
    call: &Call<'_>,
    arguments: &Arguments,
    name: Option<&str>,
    seen: Option<&MetricScope>,
) -> Result<Response, Failure> {
    if name == Some("") {
        return Err(Failure::bad_data("invalid label name: \"\""));
    }
    let limit = arguments.limit()?;
    arguments.times()?;
    let sets = arguments.matchers(call.app.engine()).await?;
    let sets = label_matchers(&sets)?;
    let mut texts = texts(call, name, &sets, seen).await?;
    let (count, limit) = (texts.len(), limit.unwrap_or(usize::MAX));
    let listed = move || {
        let warning = truncate(&mut texts, limit);
        let mut data = Vec::new();
        write_texts(texts.iter().map(AsRef::as_ref), &mut data);
        success(&data, warning.as_slice(), &[])
    };
    Ok(reply::ok(long_work::on_items(call.app.engine(), count, listed).await))
}

/// The sorted label names, or the values of a label, of the series that the caller may list: of those that match any of
/// the matcher sets, of all if `sets` is empty.
pub(super) async fn texts(
    call: &Call<'_>,
    name: Option<&str>,
    sets: &[Vec<Matcher>],
    seen: Option<&MetricScope>,
) -> Result<Vec<Arc<str>>, Failure> {
    if call.app.options().policy.is_customised(Rule::ListMetric) {
        return of_permitted(call, name, sets, seen).await;
    }
    let sets: Vec<&[Matcher]> = sets.iter().map(Vec::as_slice).collect();
    let catalogue = &call.api.catalogue;
    Ok(match name {
        Some(name) => catalogue.label_values(name, &sets, seen).await?,
        None => catalogue.label_names(&sets, seen).await?,
    })
}

/// The same if an operator's rule must be checked per metric.
async fn of_permitted(
    call: &Call<'_>,
    name: Option<&str>,
    sets: &[Vec<Matcher>],
    seen: Option<&MetricScope>,
) -> Result<Vec<Arc<str>>, Failure> {
    // As in the catalogue, which lists these names, too.
    let has_exported_names =
        sets.is_empty() && name == Some(METRIC_NAME) && call.api.options.ceilometer_names;
    let everything = [Vec::new()];
    let sets = if sets.is_empty() { &everything[..] } else { sets };
    let mut texts: BTreeSet<Arc<str>> = BTreeSet::new();
    for series in find_all(call, Rule::ListMetric, sets, seen).await? {
        if has_exported_names && !series.labels.get(RESOURCE_ID).is_empty() {
            texts.insert(exported(series.labels.metric_name()).into());
        }
        for (label, value) in series.indexed_labels() {
            match name {
                Some(name) if name == label => texts.insert(value.into()),
                Some(_) => false,
                None => texts.insert(label.into()),
            };
        }
    }
    Ok(texts.into_iter().collect())
}
