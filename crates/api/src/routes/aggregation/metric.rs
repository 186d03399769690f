//! `/v1/aggregation/metric`: metrics by id, in the query string (`GET`) or the body (`POST`).

use std::{collections::BTreeSet, sync::Arc};

use gnudi_app::{
    query::Argument,
    schema::{Checked, Invalid, list},
};
use gnudi_model::{Metric, MetricId, python::parse_uuid};

use super::across::{self, AcrossQuery};
use crate::routes::{aggregates::check_count, prelude::*};

pub async fn metric(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let query = call.query();
    let named = match query.get("metric") {
        None | Some(Argument::One("")) => Vec::new(),
        Some(Argument::One(id)) => vec![id],
        Some(Argument::Several(ids)) => ids,
    };
    let ids = ids(&named.into())
        .map_err(|invalid| ApiError::bad_request(format!("Invalid input: {}", invalid.reason())))?;
    answer(call, ids).await
}

pub async fn posted_metric(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let ids = ids(&request::json(call.parts, body).await?)?;
    answer(call, ids).await
}

fn ids(document: &Value) -> Checked<BTreeSet<MetricId>> {
    let id = |value: &Value| match value {
        Value::Str(text) => parse_uuid(text).map(MetricId).ok_or_else(|| Invalid::new("not a valid value")),
        _ => Err(Invalid::new("not a valid value")),
    };
    list(document, id).map(|ids| ids.into_iter().collect())
}

async fn answer(call: &Call<'_>, ids: BTreeSet<MetricId>) -> Answer {
    check_count(call, ids.len())?;
    let ids: Vec<MetricId> = ids.into_iter().collect();
    let found = call.indexer().metrics(&ids).await?;
    let metrics = ids
        .iter()
        .zip(found)
        .map(|(id, metric)| metric.ok_or_else(|| ApiError::not_found(format!("Metric {id} does not exist"))))
        .collect::<Result<Vec<Arc<Metric>>>>()?;
    // As in Gnocchi, a missing metric comes before an invalid argument.
    let query = call.query();
    let asked = AcrossQuery::of(call, &query)?;
    across::answer(call, &asked, &metrics).await
}
