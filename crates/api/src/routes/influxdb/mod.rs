//! `/v1/influxdb`: InfluxDB 1's write API. A database is a resource type; a tag holds the resource's id.

mod query;
mod write;

pub use query::query;
pub use write::write;

use hyper::header::HeaderName;

use super::{prelude::*, root::GNOCCHI_VERSION};

const VERSION: HeaderName = HeaderName::from_static("x-influxdb-version");

/// `GET /v1/influxdb/ping`: 204.
pub async fn ping(_: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    Ok(reply::with_header(reply::no_content(), VERSION, &format!("Gnocchi {GNOCCHI_VERSION}")))
}
