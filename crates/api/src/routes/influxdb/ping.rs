//! `GET` and `HEAD /v1/influxdb/ping`

use hyper::header::{HeaderName, HeaderValue};

use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    reply::{self, Response},
    routes::root::GNOCCHI_VERSION,
};

const VERSION: HeaderName = HeaderName::from_static("x-influxdb-version");

/// 204: the server is there.
pub async fn ping(_: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let mut response = reply::no_content();
    let version = format!("Gnocchi {GNOCCHI_VERSION}");
    let version = HeaderValue::from_str(&version).expect("letters and digits");
    response.headers_mut().insert(VERSION, version);
    Ok(response)
}
