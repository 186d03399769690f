//! `POST /v1/influxdb/query`: supports only `CREATE DATABASE`, which creates a resource type.

use std::collections::BTreeMap;

use gnudi_app::{query::Query, schema::addressable};
use gnudi_indexer::IndexerError;
use gnudi_model::ResourceType;
use hyper::StatusCode;

use crate::{influxdb::query::database_to_create, routes::prelude::*};

/// 204 if the type now exists; 501 for any other query. The query is an argument or in a form body.
pub async fn query(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let several = || ApiError::argument("q", "Must be given once");
    let arguments = call.query();
    let mut query = arguments.single("q", several)?.map(str::to_owned);
    let is_form = query.is_none() && request::is_form(call.parts);
    if query.is_none() && !is_form {
        return Ok(reply::no_content());
    }
    // Authenticate before reading the body.
    let caller = call.app.options().auth_mode.caller(call.parts, call.app.now()).await?;
    if is_form {
        let form = body.read_small().await?;
        let form = Query::parse(std::str::from_utf8(&form).ok());
        query = form.single("q", several)?.map(str::to_owned);
    }
    let Some(query) = query else { return Ok(reply::no_content()) };
    let Some(name) = database_to_create(&query) else { return Err(not_implemented()) };
    let target = Target::Given(&[("name", Some(&name))]);
    call.enforce_for(Rule::CreateResourceType, &caller, target)?;
    addressable(&name)?;
    if name.contains('/') {
        return Err(ApiError::bad_request("'/' is not supported in a database's name"));
    }
    let resource_type = ResourceType { name: name.into(), attributes: BTreeMap::new() };
    match call.indexer().create_resource_type(resource_type).await {
        Ok(()) | Err(IndexerError::ResourceTypeAlreadyExists(_)) => Ok(reply::no_content()),
        Err(error) => Err(error.into()),
    }
}

fn not_implemented() -> ApiError {
    let detail = Value::cause_detail_reason("Not implemented error", "q", "Query not implemented");
    ApiError::new(StatusCode::NOT_IMPLEMENTED, detail)
}
