//! Lists resources in memory: scans all.

use std::sync::Arc;

use gnudi_model::Resource;
use uuid::Uuid;

use super::{MemoryIndexer, Tables, resource::is_of_type};
use crate::{
    ResourceListing, ResourceMarker, Result,
    filter::{compare, invalid_marker},
};

pub(super) fn list(indexer: &MemoryIndexer, listing: &ResourceListing) -> Result<Vec<Arc<Resource>>> {
    let tables = indexer.tables.lock();
    let (type_name, history) = (&listing.resource_type, listing.history);
    let resource_type = tables.resource_type(type_name)?;
    let (condition, order) = listing.search(&resource_type)?;
    let all = tables.listed(type_name, history);
    let marker = match &listing.page.marker {
        Some(ResourceMarker::Listed(resource)) => Some(Resource::clone(resource)),
        Some(ResourceMarker::Revision { id, revision }) => Some(find(&all, *id, *revision, history)?.clone()),
        None => None,
    };
    let is_behind =
        |resource: &Resource| marker.as_ref().is_none_or(|marker| compare(resource, marker, &order).is_gt());
    let is_wanted = |resource: &Resource| {
        condition.as_ref().is_none_or(|condition| condition.evaluate(resource) == Some(true))
    };
    let mut found: Vec<_> =
        all.into_iter().filter(|resource| is_wanted(resource) && is_behind(resource)).collect();
    found.sort_by(|a, b| compare(a, b, &order));
    found.truncate(listing.page.limit.unwrap_or(usize::MAX));
    let shown = |resource: &Resource| {
        let shown_as = if listing.details { &*resource.resource_type } else { &**type_name };
        let mut shown = tables.shown(resource, shown_as);
        if listing.omits_attributes {
            shown.attributes.clear();
        }
        if let Some(names) = &listing.metric_names {
            let named = shown.metrics.iter();
            let named = named.filter(|metric| names.iter().any(|name| metric.name.as_deref() == Some(name)));
            shown.metrics = named.cloned().collect();
        }
        Arc::new(shown)
    };
    Ok(found.iter().map(shown).collect())
}

fn find(all: &[Resource], id: Uuid, revision: i64, history: bool) -> Result<&Resource> {
    let is_it = |resource: &&Resource| resource.id == id && (!history || resource.revision == revision);
    all.iter().find(is_it).ok_or_else(|| invalid_marker(id, revision, history))
}

impl Tables {
    pub(super) fn listed(&self, resource_type: &str, history: bool) -> Vec<Resource> {
        let past = self.history.values().filter(|_| history);
        self.resources
            .values()
            .chain(past)
            .filter(|resource| is_of_type(resource, resource_type))
            .cloned()
            .collect()
    }
}
