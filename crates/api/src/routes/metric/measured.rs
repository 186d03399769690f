//! Listings of metrics with figures of their measures: `last_measure`, `late_dropped`, `sort` by either, and
//! `silent_since` of `GET /v1/metric`.

use std::sync::Arc;

use gnudi_engine::Measured;
use gnudi_indexer::{IndexerError, MetricFilter, MetricListing, MetricMarker, Page, SortDirection};
use gnudi_model::{Metric, MetricId};

use crate::{
    last_measure::{Figure, LastMeasures, SCANNED_MAX, SORTED_MAX},
    pagination::Pagination,
    routes::{prelude::*, resource},
};

/// The batch size when scanning.
const METRICS_AT_ONCE: usize = 1_000;

type Found = Vec<(Arc<Metric>, Measured)>;

/// A page, and the marker of the next one, if there may be one.
pub(super) async fn list(
    call: &Call<'_>,
    filter: MetricFilter,
    pagination: &Pagination,
    asked: &LastMeasures,
) -> Result<(Found, Option<MetricId>)> {
    match asked.sort {
        Some(by) => sorted(call, filter, pagination, asked, by).await,
        None => scanned(call, filter, pagination, asked).await,
    }
}

/// Scans the metrics in listing order, until the page is full or [`SCANNED_MAX`] were scanned.
async fn scanned(
    call: &Call<'_>,
    filter: MetricFilter,
    pagination: &Pagination,
    asked: &LastMeasures,
) -> Result<(Found, Option<MetricId>)> {
    let mut listing = MetricListing { filter, page: pagination.page()? };
    if asked.silent_since.is_some() {
        listing.page.limit = METRICS_AT_ONCE;
    }
    let (mut found, mut scanned) = (Vec::new(), 0);
    loop {
        let metrics = call.indexer().list_metrics(&listing).await?;
        let is_last = metrics.len() < listing.page.limit;
        listing.page.marker = metrics.last().cloned().map(MetricMarker::Listed);
        for (metric, measured) in with_measured(call, metrics).await? {
            let id = metric.id;
            if asked.takes(measured.last) {
                found.push((metric, measured));
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
            return Ok((found, listing.page.marker.map(|marker| marker.id())));
        }
    }
}

/// The first page of the sorted metrics; refuses more than [`SORTED_MAX`]. Keeps one page and one batch in
/// memory.
async fn sorted(
    call: &Call<'_>,
    filter: MetricFilter,
    pagination: &Pagination,
    asked: &LastMeasures,
    (figure, direction): (Figure, SortDirection),
) -> Result<(Found, Option<MetricId>)> {
    let place = |found: &(Arc<Metric>, Measured)| (figure.key(found.1), found.0.id);
    let before = |a: &Place, b: &Place| direction.compare(a.0, b.0, Ord::cmp).then(a.1.cmp(&b.1));
    let mut listing = MetricListing { filter, page: pagination.unsorted().page()? };
    let marker = match listing.page.marker.take() {
        Some(marker) => Some(place(&marked(call, marker.id(), &listing.filter).await?)),
        None => None,
    };
    listing.page.limit = METRICS_AT_ONCE;
    let (mut first, mut scanned) = (Vec::new(), 0);
    loop {
        let metrics = call.indexer().list_metrics(&listing).await?;
        scanned += metrics.len();
        if scanned > SORTED_MAX {
            return Err(ApiError::too_large(format!(
                "There are more than {SORTED_MAX} metrics to sort: filter them"
            )));
        }
        let is_last = metrics.len() < METRICS_AT_ONCE;
        listing.page.marker = metrics.last().cloned().map(MetricMarker::Listed);
        let found = with_measured(call, metrics).await?.into_iter();
        let is_behind = |found: &_| marker.is_none_or(|marker| before(&marker, &place(found)).is_lt());
        first.extend(found.filter(|found| asked.takes(found.1.last) && is_behind(found)));
        first.sort_by(|a, b| before(&place(a), &place(b)));
        first.truncate(pagination.limit);
        if is_last {
            break;
        }
    }
    let next = first.last().filter(|_| first.len() >= pagination.limit).map(|(metric, _)| metric.id);
    Ok((first, next))
}

/// The sort key: the figure, then the id.
type Place = (Option<i128>, MetricId);

/// The metric of the page's marker. The caller must be able to see it: the page would reveal its figure.
async fn marked(call: &Call<'_>, id: MetricId, of: &MetricFilter) -> Result<(Arc<Metric>, Measured)> {
    let filter =
        MetricFilter { id: Some(id), status: of.status, scope: of.scope.clone(), ..MetricFilter::default() };
    let metrics = call.indexer().list_metrics(&MetricListing { filter, page: Page::first(1) }).await?;
    let mut found = with_measured(call, metrics).await?;
    found.pop().ok_or_else(|| IndexerError::InvalidPagination(format!("Invalid marker: `{id}'")).into())
}

async fn with_measured(call: &Call<'_>, metrics: Vec<Arc<Metric>>) -> Result<Found> {
    let metrics = readable(call, metrics).await?;
    let ids: Vec<MetricId> = metrics.iter().map(|metric| metric.id).collect();
    let measured = call.measured(&ids).await?;
    Ok(metrics.into_iter().zip(measured).collect())
}

/// Leaves out the metrics whose measures an operator's rule denies the caller. With Gnocchi's rules there are none:
/// [`Call::reads_what_it_lists`].
async fn readable(call: &Call<'_>, metrics: Vec<Arc<Metric>>) -> Result<Vec<Arc<Metric>>> {
    if !call.app.options().policy.is_customised(Rule::GetMeasures) {
        return Ok(metrics);
    }
    let resources = metrics.iter().filter_map(|metric| metric.resource_id).collect();
    let resources = resource::by_ids(call, resources).await?;
    let is_readable = |metric: &Arc<Metric>| {
        let resource = metric.resource_id.and_then(|id| resources.get(&id));
        call.allows(Rule::GetMeasures, Target::Metric(metric, resource.map(|resource| &**resource)))
    };
    Ok(metrics.into_iter().filter(is_readable).collect())
}
