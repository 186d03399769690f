//! Silent resources: they have metrics, none of which has a measure since a time.

use std::sync::Arc;

use gnudi_engine::Measured;
use gnudi_indexer::{ResourceListing, ResourceMarker};
use gnudi_model::{MetricId, Resource, Timestamp};
use uuid::Uuid;

use crate::{last_measure::SCANNED_MAX, routes::prelude::*};

/// The batch size when listing resources.
const RESOURCES_AT_ONCE: usize = 500;
/// The batch size when reading heads.
const METRICS_AT_ONCE: usize = 1_000;

/// Up to `limit` silent resources of the listing, and the marker of the next page, if there may be one. Stops
/// after scanning [`SCANNED_MAX`] resources and metrics.
pub(super) async fn page(
    call: &Call<'_>,
    mut listing: ResourceListing,
    limit: usize,
    since: Timestamp,
) -> Result<(Vec<Arc<Resource>>, Option<Uuid>)> {
    let reads_all = call.metrics_seen(Rule::GetMeasures)?.is_none();
    let (mut found, mut scanned) = (Vec::new(), 0);
    listing.page.limit = Some(RESOURCES_AT_ONCE);
    loop {
        let resources = call.indexer().list_resources(&listing).await?;
        let mut rest = &resources[..];
        while !rest.is_empty() {
            let (some, others) = rest.split_at(some_of(rest));
            rest = others;
            let metrics: Vec<MetricId> =
                some.iter().flat_map(|resource| resource.metrics.iter()).map(|metric| metric.id).collect();
            scanned += some.len() + metrics.len();
            let mut measured = call.measured(&metrics).await?.into_iter();
            for resource in some {
                let of: Vec<Measured> = measured.by_ref().take(resource.metrics.len()).collect();
                let is_silent = !of.is_empty() && of.iter().all(|one| one.last.is_silent_since(since));
                if is_silent && (reads_all || may_be_read(call, resource)) {
                    found.push(resource.clone());
                }
                if found.len() == limit {
                    return Ok((found, Some(resource.id)));
                }
            }
            if let (true, Some(last)) = (scanned >= SCANNED_MAX, some.last()) {
                return Ok((found, Some(last.id)));
            }
        }
        let Some(last) = resources.last().filter(|_| resources.len() == RESOURCES_AT_ONCE) else {
            return Ok((found, None));
        };
        listing.page.marker = Some(ResourceMarker::Listed(last.clone()));
    }
}

/// How many of the first resources fit into a batch of metrics; at least one.
fn some_of(resources: &[Arc<Resource>]) -> usize {
    let mut metrics = 0;
    let fits = |resource: &&Arc<Resource>| {
        metrics += resource.metrics.len();
        metrics <= METRICS_AT_ONCE
    };
    resources.iter().take_while(fits).count().max(1)
}

/// Whether the caller may read the measures of all its metrics.
fn may_be_read(call: &Call<'_>, resource: &Resource) -> bool {
    let may = |metric: &Arc<_>| call.allows(Rule::GetMeasures, Target::Metric(metric, Some(resource)));
    resource.metrics.iter().all(may)
}
