//! Listings of resources: arguments and responses, also for searches.

use gnudi_app::query::Query;
use gnudi_indexer::{Annotation, Filter, FilterValue, ResourceListing, ResourceMarker, ResourcePage};
use gnudi_model::Timestamp;
use hyper::header::LINK;

use super::{annotation::annotated, shown, silent};
use crate::{
    arrow, last_measure,
    pagination::{Pagination, RESOURCE_SORTS, invalid_marker, next_link},
    routes::prelude::*,
};

/// The arguments of a listing.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    query: Query,
    pub details: bool,
    pub history: bool,
    pagination: Pagination,
    /// The fields to show; all if empty.
    attrs: Vec<String>,
    /// Selects resources that have been silent since this time.
    silent_since: Option<Timestamp>,
    /// The annotations of the resource whose history is listed, if requested.
    pub annotations: Option<Vec<Annotation>>,
}

impl Listing {
    /// Parses `details`, `history`, `limit`, `marker`, `sort` and `attrs`.
    ///
    /// # Errors
    /// 400 for an invalid argument.
    pub fn of(call: &Call<'_>) -> Result<Self> {
        let query = call.query();
        let attrs = query.list("attrs");
        let (details, history) = (query.flag("details", false)?, query.flag("history", false)?);
        let pagination = Pagination::of(&query, call.app.options().max_limit, RESOURCE_SORTS)?;
        let silent_since = last_measure::silent_since(&query, call.app.now())?;
        if history && silent_since.is_some() {
            return Err(ApiError::argument("silent_since", "Cannot be combined with history"));
        }
        Ok(Listing { details, history, pagination, silent_since, attrs, annotations: None, query })
    }

    /// Arguments for one resource's history: ignores `history` and `attrs`, shows all fields.
    pub fn of_history(call: &Call<'_>) -> Result<Self> {
        let query = call.query();
        let details = query.flag("details", false)?;
        let pagination = Pagination::of(&query, call.app.options().max_limit, RESOURCE_SORTS)?;
        let (attrs, silent_since, annotations) = (Vec::new(), None, None);
        Ok(Listing { details, history: true, pagination, attrs, silent_since, annotations, query })
    }

    /// The page of resources that match the filter, with a link to the next one. `seen` restricts the marker; `None`: not at
    /// all.
    pub async fn answer(
        &self,
        call: &Call<'_>,
        resource_type: &str,
        filter: Option<Filter>,
        seen: Option<Filter>,
    ) -> Answer {
        let listing = ResourceListing {
            filter,
            history: self.history,
            details: self.details,
            page: self.pagination.resource_page(self.history)?,
            ..ResourceListing::of(resource_type, call.resource_now())
        };
        if let Some(seen) = seen {
            check_marker(call, &listing, seen).await?;
        }
        let (resources, next) = if let Some(since) = self.silent_since {
            silent::page(call, listing, self.pagination.limit, since).await?
        } else {
            let resources = call.indexer().list_resources(&listing).await?;
            let is_full = resources.len() >= self.pagination.limit;
            let next = resources.last().filter(|_| is_full).map(|last| last.id);
            (resources, next)
        };
        let last = resources.last().cloned();
        let response = match &self.annotations {
            Some(annotations) => reply::ok(annotated(resources, annotations.clone())),
            None if arrow::is_wanted(call.parts) => {
                let compression = arrow::compression(&self.query)?;
                let attrs: Vec<&str> = self.attrs.iter().map(String::as_str).collect();
                arrow::ok(arrow::list::resources(&resources, &attrs, compression)?)
            }
            None => reply::ok(shown::list(resources, self.attrs.clone())),
        };
        let marker = match (next, last) {
            (None, _) => return Ok(response),
            (Some(_), Some(last)) if self.history => format!("{}@{}", last.id, last.revision),
            (Some(next), _) => next.to_string(),
        };
        let link = next_link(&call.url(), &self.query, &self.pagination, &marker);
        Ok(reply::with_header(response, LINK, &link))
    }
}

/// Refuses (400) a marker that the caller does not see: the page would reveal its place in the order, and so its values. It is
/// refused like one that does not exist.
async fn check_marker(call: &Call<'_>, listing: &ResourceListing, seen: Filter) -> Result<()> {
    let Some(ResourceMarker::Revision { id, revision }) = &listing.page.marker else { return Ok(()) };
    let mut itself = vec![seen, Filter::equal("id", FilterValue::Uuid(*id))];
    if listing.history {
        itself.push(Filter::equal("revision", FilterValue::Int(*revision)));
    }
    let itself = ResourceListing {
        filter: Some(Filter::And(itself)),
        history: listing.history,
        omits_attributes: true,
        metric_names: Some(Vec::new()),
        page: ResourcePage { limit: Some(1), ..ResourcePage::default() },
        ..ResourceListing::of(&listing.resource_type, listing.now)
    };
    if !call.indexer().list_resources(&itself).await?.is_empty() {
        return Ok(());
    }
    let text = if listing.history { format!("{id}@{revision}") } else { id.to_string() };
    Err(invalid_marker(&text).into())
}
