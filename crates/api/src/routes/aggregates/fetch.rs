//! `POST /v1/aggregates`

use gnudi_app::query::Query;

use super::{
    Arguments, body, by_id, by_resource, by_resource::ResourcesQuery, by_time::ByTime, groupby, history,
};
use crate::{
    arrow::{self, series::Form},
    operations,
    routes::prelude::*,
};

pub async fn fetch(call: &Call<'_>, request_body: &mut RequestBody<'_>) -> Answer {
    let query = call.query();
    let use_history = query.flag("use_history", false)?;
    let details = query.flag("details", false)?;
    let empty_answers = call.app.options().empty_answers;
    let arguments = Arguments::of(&query, call.app.now(), empty_answers)?.or_drop_gaps();
    let across_types = query.flag("across_types", false)?;
    let mut groupby = groupby(&query);
    let by_time = ByTime::take(&mut groupby, &query)?;
    if by_time.is_some() && use_history {
        return Err(ApiError::argument("use_history", "Cannot be combined with groups by time"));
    }
    let is_table = arrow::is_wanted(call.parts);
    if is_table {
        check_table(&query, details)?;
        if by_time.is_some() {
            return Err(ApiError::argument("groupby", "Tables do not support groups by time"));
        }
    }
    let mut body = body::read(call, &request::json(call.parts, request_body).await?).await?;
    if body.operations.metric_names().is_empty() {
        return Err(ApiError::bad_request(Value::cause_and_reason(
            "Operations is invalid",
            "At least one 'metric' is required",
            operations::shown(&body.operations),
        )));
    }
    if let Some(search) = &mut body.resources {
        search.filter = call.seen(Rule::SearchResource, &search.resource_type, search.filter.take())?;
    }
    let operations = &body.operations;
    let asked = body.resources.as_ref().map(|search| ResourcesQuery {
        operations,
        search,
        arguments,
        groupby: &groupby,
        across_types,
        by_time,
        details,
    });
    let is_grouped = !groupby.is_empty() || by_time.is_some();
    if is_table {
        let table = match &asked {
            None => by_id::table(call, operations, &arguments).await?,
            Some(asked) if !is_grouped => by_resource::table_of_all(call, asked).await?,
            Some(asked) if use_history => history::table(call, asked).await?,
            Some(asked) => by_resource::table_of_groups(call, asked).await?,
        };
        return table.into_response(&query);
    }
    Ok(reply::ok(match &asked {
        None => by_id::answer(call, operations, &arguments, by_time, details).await?.into_body(),
        Some(asked) if !is_grouped => by_resource::all(call, asked).await?.into_body(),
        Some(asked) if use_history => history::grouped(call, asked).await?.into_body(),
        Some(asked) => by_resource::grouped(call, asked).await?,
    }))
}

/// Refuses (400) what tables do not support, before anything is read.
fn check_table(query: &Query, details: bool) -> Result<()> {
    if details {
        return Err(ApiError::argument("details", "Tables do not support details: request JSON"));
    }
    Form::of(query)?;
    arrow::compression(query).map(drop)
}
