//! `/api/v1/query_exemplars`: the exemplars of a query's series.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use gnudi_app::provision;
use gnudi_prometheus::{
    answer::{success, write_labels, write_list},
    number::{write_time, write_value},
    remote_write::names,
};
use gnudi_promql::{ErrorKind, Labels, Limits, Matcher, parse_selectors_of};
use uuid::Uuid;

use crate::{
    exemplar_store::StoredExemplar, failure::Failure, long_work, place, routes::prelude::*,
    selected::is_permitted,
};

/// `GET` and `POST /api/v1/query_exemplars`
pub async fn query_exemplars(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let seen = call.metrics_allowed(Rule::GetMeasures)?;
    let seen = seen.as_ref();
    super::respond(call, body, async |arguments| {
        let (start, end) = arguments.times()?;
        let times = start.unwrap_or(i64::MIN)..=end.unwrap_or(i64::MAX);
        if times.is_empty() {
            return Err(Failure::bad_data("end timestamp must not be before start timestamp"));
        }
        let query = arguments.get("query").to_owned();
        let has_expressions = long_work::may_have_expressions(&query);
        let parse = move || parse_selectors_of(&query, &Limits::default());
        let selectors = long_work::on_expressions(call.app.engine(), has_expressions, parse).await;
        // Here Prometheus does not name the parameter.
        let selectors = selectors.map_err(|error| match error.kind {
            ErrorKind::BadData => Failure::bad_data(error.text),
            _ => error.into(),
        })?;
        if selectors.is_empty() {
            return Ok(reply::no_content());
        }
        let found = call.api.exemplars.find(|exemplar| {
            times.contains(&exemplar.time_ms) && super::sees_creator(seen, &exemplar.creator)
        });
        let select = move |stops: &dyn Fn() -> bool| selected(&selectors, found, stops);
        let found = long_work::run(call.app.engine(), select).await.ok_or_else(Failure::timeout)?;
        let exemplars = permitted(call, found).await?;
        let (engine, count) = (call.app.engine(), exemplars.len());
        Ok(reply::ok(long_work::on_items(engine, count, move || listed(exemplars)).await))
    })
    .await
}

/// The response: the exemplars of each series, sorted by its labels.
fn listed(mut exemplars: Vec<StoredExemplar>) -> Vec<u8> {
    exemplars.sort_by(|a, b| a.series.cmp(&b.series).then(a.time_ms.cmp(&b.time_ms)));
    let by_series: Vec<&[StoredExemplar]> = exemplars.chunk_by(|a, b| a.series == b.series).collect();
    let mut data = Vec::new();
    write_list(&by_series, &mut data, |exemplars, data| {
        data.extend_from_slice(b"{\"seriesLabels\":");
        write_labels(&exemplars[0].series, data);
        data.extend_from_slice(b",\"exemplars\":");
        write_list(*exemplars, data, write_exemplar);
        data.push(b'}');
    });
    success(&data, &[], &[])
}

/// The exemplars of series that a query selects. Regular expressions may take long.
fn selected(
    selectors: &[Vec<Matcher>],
    mut exemplars: Vec<StoredExemplar>,
    stops: &dyn Fn() -> bool,
) -> Vec<StoredExemplar> {
    let mut known: HashMap<Labels, bool> = HashMap::new();
    exemplars.retain(|StoredExemplar { series, .. }| {
        let fulfils = |matcher: &Matcher| {
            let value = series.get(&matcher.name);
            !stops() && !matcher.takes_long(value) && matcher.matches(value)
        };
        let is_selected = || selectors.iter().any(|matchers| matchers.iter().all(fulfils));
        *known.entry(series.clone()).or_insert_with(is_selected)
    });
    exemplars
}

/// The exemplars of series whose metrics the caller may read.
async fn permitted(call: &Call<'_>, mut exemplars: Vec<StoredExemplar>) -> Result<Vec<StoredExemplar>> {
    // The writer decides with Gnocchi's rules; an operator's rule may deny single metrics.
    if !call.app.options().policy.is_customised(Rule::GetMeasures) {
        return Ok(exemplars);
    }
    let mut located: HashMap<(Arc<str>, Labels), (Uuid, String)> = HashMap::new();
    for StoredExemplar { creator, series, .. } in &exemplars {
        let labels: Vec<(&str, &str)> = series.iter().collect();
        // As the handler of remote write, which stores exemplars, places their series.
        if let Some(location) = place::location(&labels, names::Labels::Exact, creator) {
            located.insert((creator.clone(), series.clone()), location);
        }
    }
    let (written, places): (Vec<_>, Vec<_>) = located.into_iter().unzip();
    let locations: Vec<(Uuid, &str)> =
        places.iter().map(|(resource, name)| (*resource, name.as_str())).collect();
    call.reads_metrics(locations.len());
    let metrics = provision::named_metrics(call, &locations).await?;
    let mut readable: HashSet<(Arc<str>, Labels)> = HashSet::new();
    for (series, metric) in written.into_iter().zip(metrics) {
        // Whether the rule denies a damaged one is unknown.
        let Ok(Some(metric)) = metric else { continue };
        if is_permitted(call, Rule::GetMeasures, &metric).await? {
            readable.insert(series);
        }
    }
    exemplars.retain(|exemplar| readable.contains(&(exemplar.creator.clone(), exemplar.series.clone())));
    Ok(exemplars)
}

fn write_exemplar(exemplar: &StoredExemplar, data: &mut Vec<u8>) {
    data.extend_from_slice(b"{\"labels\":");
    write_labels(&exemplar.labels, data);
    data.extend_from_slice(b",\"value\":\"");
    write_value(exemplar.value, data);
    data.extend_from_slice(b"\",\"timestamp\":");
    write_time(exemplar.time_ms, data);
    data.push(b'}');
}
