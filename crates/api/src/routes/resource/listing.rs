//! Listings of resources: what their queries ask for, and their answers. Searches answer in the same way.

use gnudi_indexer::{Annotation, Filter, ResourceListing};
use hyper::header::LINK;

use super::{annotation::annotated_bytes, shown};
use crate::{
    arrow,
    pagination::{Pagination, RESOURCE_SORTS, next_link},
    query::{Argument, Query},
    routes::prelude::*,
};

/// The arguments of a listing.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    query: Query,
    pub details: bool,
    pub history: bool,
    pagination: Pagination,
    /// The fields that are shown; all where it is empty.
    attrs: Vec<String>,
    /// Those of the one resource whose revisions are listed, to be shown with them.
    pub annotations: Option<Vec<Annotation>>,
}

impl Listing {
    /// `details`, `history`, `limit`, `marker`, `sort` and `attrs` of a request's query.
    ///
    /// # Errors
    /// 400 where one of them does not mean what it must.
    pub fn of(call: &Call<'_>) -> Result<Self, ApiError> {
        let query = call.query();
        let attrs = match query.get("attrs") {
            None | Some(Argument::One("")) => Vec::new(),
            Some(Argument::One(name)) => vec![name.to_owned()],
            Some(Argument::Several(names)) => names.into_iter().map(str::to_owned).collect(),
        };
        Ok(Listing {
            details: query.flag("details", false)?,
            history: query.flag("history", false)?,
            pagination: Pagination::of(&query, call.app.options().max_limit, RESOURCE_SORTS)?,
            attrs,
            annotations: None,
            query,
        })
    }

    /// The revisions of one resource, with all fields, whatever `history` and `attrs` say.
    pub fn of_history(call: &Call<'_>) -> Result<Self, ApiError> {
        let query = call.query();
        let details = query.flag("details", false)?;
        let pagination = Pagination::of(&query, call.app.options().max_limit, RESOURCE_SORTS)?;
        Ok(Listing { details, history: true, pagination, attrs: Vec::new(), annotations: None, query })
    }

    /// The page of resources of the type that the filter takes, with a link to the next one.
    pub async fn answer(&self, call: &Call<'_>, resource_type: &str, filter: Option<Filter>) -> Answer {
        let listing = ResourceListing {
            resource_type: resource_type.to_owned(),
            filter,
            history: self.history,
            details: self.details,
            page: self.pagination.resource_page(self.history)?,
            now: call.resource_now(),
        };
        let resources = call.app.engine().indexer().list_resources(&listing).await?;
        let attrs: Vec<&str> = self.attrs.iter().map(String::as_str).collect();
        let response = match &self.annotations {
            Some(annotations) => reply::ok_bytes(annotated_bytes(&resources, annotations)),
            None if arrow::is_wanted(call.parts) => {
                let compression = arrow::compression(&self.query)?;
                arrow::ok(arrow::list::resources(&resources, &attrs, compression))
            }
            None => reply::ok_bytes(shown::list_bytes(&resources, &attrs)),
        };
        let last = resources.last().filter(|_| resources.len() >= self.pagination.limit);
        let Some(last) = last else { return Ok(response) };
        let marker =
            if self.history { format!("{}@{}", last.id, last.revision) } else { last.id.to_string() };
        let link = next_link(&call.url(), &self.query, &self.pagination, &marker);
        Ok(reply::with_header(response, LINK, &link))
    }
}
