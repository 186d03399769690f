//! `/v1/resource`

mod attribute;
mod create;
mod create_metrics;
mod definition;
mod delete;
mod delete_matching;
mod history;
mod list;
mod list_metrics;
mod listing;
mod show;
mod shown;
mod types;
mod update;

pub use create::create;
pub use create_metrics::create_metrics;
pub use delete::delete;
pub use delete_matching::delete_matching;
pub use history::history;
pub use list::list;
pub use list_metrics::list_metrics;
pub use show::show;
pub use types::types;
pub use update::update;

pub(crate) use attribute::{bound, check as check_attribute, real};
pub(crate) use listing::Listing;
pub(crate) use shown::{field, shown_in_metric, write};

use std::{collections::BTreeMap, sync::Arc};

use gnudi_indexer::{
    Filter, FilterValue, IndexerError, ResourceListing, ResourcePage, filter::FILTER_VALUES_MAX,
};
use gnudi_model::{Resource, resource_type::GENERIC};
use hyper::StatusCode;
use uuid::Uuid;

use crate::{
    call::Call,
    conditions::Version,
    error::ApiError,
    policy::{Rule, Target},
    reply::{self, Response},
};

/// The resource that the path names.
///
/// # Errors
/// 404 where there is none of the type, 403 where the caller may not do to it what the rule names.
pub(crate) async fn find(call: &Call<'_>, rule: Rule) -> Result<Arc<Resource>, ApiError> {
    find_of(call, &call.resource_type().name, call.resource_id(), rule).await
}

/// [`find`] for a resource of any type.
pub(crate) async fn find_any(call: &Call<'_>, id: Uuid, rule: Rule) -> Result<Arc<Resource>, ApiError> {
    find_of(call, GENERIC, id, rule).await
}

async fn find_of(
    call: &Call<'_>,
    resource_type: &str,
    id: Uuid,
    rule: Rule,
) -> Result<Arc<Resource>, ApiError> {
    let found = call.app.engine().indexer().resource(resource_type, id).await?;
    let resource = found.ok_or(IndexerError::NoSuchResource(id))?;
    call.enforce(rule, Target::Resource(&resource))?;
    Ok(resource)
}

/// Those of the resources that there are, whoever may see them; without attributes.
pub(crate) async fn by_ids(
    call: &Call<'_>,
    mut ids: Vec<Uuid>,
) -> Result<BTreeMap<Uuid, Arc<Resource>>, ApiError> {
    ids.sort_unstable();
    ids.dedup();
    let mut resources = BTreeMap::new();
    for ids in ids.chunks(FILTER_VALUES_MAX) {
        let values = ids.iter().copied().map(FilterValue::Uuid).collect();
        let listing = ResourceListing {
            resource_type: GENERIC.to_owned(),
            filter: Some(Filter::In { field: "id".to_owned(), values }),
            history: false,
            details: false,
            page: ResourcePage::default(),
            now: call.resource_now(),
        };
        let found = call.app.engine().indexer().list_resources(&listing).await?;
        resources.extend(found.into_iter().map(|resource| (resource.id, resource)));
    }
    Ok(resources)
}

/// The answer that shows a resource.
fn answer(status: StatusCode, resource: &Resource) -> Response {
    let mut body = Vec::with_capacity(640);
    shown::write(resource, &[], &mut body);
    reply::json_bytes(status, body)
}

/// The answer that shows a resource and tells its version.
fn versioned_answer(status: StatusCode, resource: &Resource) -> Response {
    let mut response = answer(status, resource);
    Version::of(resource).show(&mut response);
    response
}

/// The refusal of a body that names what there is not, or of values that a resource cannot have: the caller's fault, where
/// the path's would be 404.
fn refusal(error: IndexerError) -> ApiError {
    match error {
        IndexerError::NoSuchMetric(_) | IndexerError::NoSuchArchivePolicy(_) => {
            ApiError::bad_request(error.to_string())
        }
        other => other.into(),
    }
}
