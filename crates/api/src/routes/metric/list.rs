//! `GET /v1/metric`

use std::sync::Arc;

use gnudi_app::{
    query::{Argument, Query},
    schema::{Checked, Invalid},
};
use gnudi_engine::Measured;
use gnudi_indexer::{MetricFilter, MetricListing, Pattern};
use gnudi_model::{Metric, MetricId, MetricStatus, python::parse_uuid};
use hyper::header::LINK;

use super::measured;
use crate::{
    arrow,
    last_measure::LastMeasures,
    pagination::{METRIC_SORTS, Pagination, next_link},
    routes::prelude::*,
};

/// Lists the metrics of the caller's project; for callers without projects all metrics, as in Gnocchi.
pub async fn list(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let query = call.query();
    let mut filter = filter(&query)
        .map_err(|invalid| ApiError::bad_request(format!("Invalid input: {}", invalid.reason())))?;
    let pagination = Pagination::of(&query, call.app.options().max_limit, METRIC_SORTS)?;
    filter.scope = call.metrics_seen(Rule::ListMetric)?;
    let asked = LastMeasures::of(&query, &pagination, call.app.now())?;
    let (response, next) = if asked.is_none() {
        let listing = MetricListing { filter, page: pagination.page()? };
        let metrics = call.indexer().list_metrics(&listing).await?;
        let next = metrics.last().filter(|_| metrics.len() >= pagination.limit).map(|last| last.id);
        (super::list_answer(call, &metrics).await?, next)
    } else {
        if let Some(figure) = asked.show.any().filter(|_| arrow::is_wanted(call.parts)) {
            return Err(ApiError::argument(figure.name(), "Tables do not support this argument"));
        }
        call.reads_what_it_lists()?;
        let (found, next) = measured::list(call, filter, &pagination, &asked).await?;
        let (metrics, measured): (Vec<Arc<Metric>>, Vec<Measured>) = found.into_iter().unzip();
        let response = if asked.show.any().is_some() {
            let show = asked.show;
            let add = move |place: usize, metric: &mut Value| show.add_to(metric, measured[place]);
            reply::ok(super::list_body(call, &metrics, add).await?)
        } else {
            super::list_answer(call, &metrics).await?
        };
        (response, next)
    };
    let Some(next) = next else { return Ok(response) };
    let link = next_link(&call.url(), &query, &pagination, &next.to_string());
    Ok(reply::with_header(response, LINK, &link))
}

fn filter(query: &Query) -> Checked<MetricFilter> {
    let mut filter = MetricFilter::default();
    let (mut user, mut project) = (None, None);
    for name in query.names() {
        let refuse = |message: &str| Invalid::new(message).in_key(name);
        let value = match query.get(name) {
            Some(Argument::One(value)) => Ok(value.to_owned()),
            _ => Err(refuse(if name == "status" { "not a valid value" } else { "expected str" })),
        };
        match name {
            "user_id" => user = Some(value?),
            "project_id" => project = Some(value?),
            "creator" => filter.creator = Some(value?),
            "name" => filter.name = Some(value?),
            // An extension, used by the web page's search.
            "name_like" => {
                let pattern = Pattern::read(&value?).ok_or_else(|| refuse("not a valid value"))?;
                filter.name_like = Some(pattern);
            }
            "unit" => filter.unit = Some(value?),
            "archive_policy_name" => filter.archive_policy_name = Some(value?),
            "id" => {
                let id = parse_uuid(&value?).ok_or_else(|| refuse("not a valid value"))?;
                filter.id = Some(MetricId(id));
            }
            "status" => {
                filter.status = Some(match value?.as_str() {
                    "active" => MetricStatus::Active,
                    "delete" => MetricStatus::Delete,
                    _ => return Err(refuse("not a valid value")),
                });
            }
            _ => {}
        }
    }
    // Filters by user and project combine to one filter by creator.
    if user.is_some() || project.is_some() {
        filter.creator = Some(format!("{}:{}", user.unwrap_or_default(), project.unwrap_or_default()));
    }
    Ok(filter)
}
