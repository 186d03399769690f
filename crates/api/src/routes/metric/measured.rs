//! Lists of metrics with, by, or for their last measures: `last_measure`, `sort=last_measure`, `silent_since` of `GET /v1/metric`.

use std::{cmp::Ordering, sync::Arc};

use gnudi_engine::LastMeasure;
use gnudi_indexer::{IndexerError, MetricFilter, MetricListing, SortDirection};
use gnudi_model::{Metric, MetricId};

use crate::{
    last_measure::{LastMeasures, SCANNED_MAX, SORTED_MAX},
    pagination::Pagination,
    routes::prelude::*,
};

/// Metrics that are listed at once.
const METRICS_AT_ONCE: usize = 1_000;

type Found = Vec<(Arc<Metric>, LastMeasure)>;

/// A page, and the metric that the next one begins behind, if there may be one.
pub(super) async fn list(
    call: &Call<'_>,
    filter: MetricFilter,
    pagination: &Pagination,
    asked: &LastMeasures,
) -> Result<(Found, Option<MetricId>), ApiError> {
    match asked.sort {
        Some(direction) => sorted(call, filter, pagination, asked, direction).await,
        None => scanned(call, filter, pagination, asked).await,
    }
}

/// Looks through the metrics in the order of the listing until the page is full, or [`SCANNED_MAX`] are looked at.
async fn scanned(
    call: &Call<'_>,
    filter: MetricFilter,
    pagination: &Pagination,
    asked: &LastMeasures,
) -> Result<(Found, Option<MetricId>), ApiError> {
    let mut listing = MetricListing { filter, page: pagination.page()? };
    if asked.silent_since.is_some() {
        listing.page.limit = METRICS_AT_ONCE;
    }
    let (mut found, mut scanned) = (Vec::new(), 0);
    loop {
        let metrics = call.app.engine().indexer().list_metrics(&listing).await?;
        let is_last = metrics.len() < listing.page.limit;
        for (metric, last) in with_last(call, metrics).await? {
            let id = metric.id;
            listing.page.marker = Some(id);
            if asked.takes(last) {
                found.push((metric, last));
            }
            if found.len() == pagination.limit {
                return Ok((found, Some(id)));
            }
        }
        scanned += listing.page.limit;
        if is_last {
            return Ok((found, None));
        }
        if scanned >= SCANNED_MAX {
            return Ok((found, listing.page.marker));
        }
    }
}

/// Sorts all of them, at most [`SORTED_MAX`].
async fn sorted(
    call: &Call<'_>,
    filter: MetricFilter,
    pagination: &Pagination,
    asked: &LastMeasures,
    direction: SortDirection,
) -> Result<(Found, Option<MetricId>), ApiError> {
    let mut page = pagination.unsorted().page()?;
    let marker = page.marker.take();
    page.limit = SORTED_MAX + 1;
    let metrics = call.app.engine().indexer().list_metrics(&MetricListing { filter, page }).await?;
    if metrics.len() > SORTED_MAX {
        return Err(ApiError::too_large(format!(
            "There are more than {SORTED_MAX} metrics to sort: filter them"
        )));
    }
    let mut all = with_last(call, metrics).await?;
    all.retain(|(_, last)| asked.takes(*last));
    all.sort_by(|a, b| order(direction, a.1, b.1).then(a.0.id.cmp(&b.0.id)));
    let from = match marker {
        Some(id) => {
            let place = all.iter().position(|(metric, _)| metric.id == id);
            let invalid = || IndexerError::InvalidPagination(format!("Invalid marker: `{id}'"));
            place.ok_or_else(invalid)? + 1
        }
        None => 0,
    };
    all.drain(..from);
    all.truncate(pagination.limit);
    let next = all.last().filter(|_| all.len() >= pagination.limit).map(|(metric, _)| metric.id);
    Ok((all, next))
}

fn order(direction: SortDirection, a: LastMeasure, b: LastMeasure) -> Ordering {
    match (a.time(), b.time()) {
        (Some(a), Some(b)) if direction.is_ascending() => a.cmp(&b),
        (Some(a), Some(b)) => b.cmp(&a),
        (None, None) => Ordering::Equal,
        (None, Some(_)) if direction.nulls_first() => Ordering::Less,
        (Some(_), None) if !direction.nulls_first() => Ordering::Less,
        _ => Ordering::Greater,
    }
}

pub(super) async fn with_last(call: &Call<'_>, metrics: Vec<Arc<Metric>>) -> Result<Found, ApiError> {
    let ids: Vec<MetricId> = metrics.iter().map(|metric| metric.id).collect();
    let last = call.last_measures(&ids).await?;
    Ok(metrics.into_iter().zip(last).collect())
}
