//! `POST /v1/aggregation/resource/{type}/metric/{name}`: the metrics of one name, of all resources that a
//! search finds, or of groups of them.
//!
//! Gnocchi reads only the first `max_limit` resources; here all are read.

use std::sync::Arc;

use gnudi_engine::Engine;
use gnudi_indexer::IndexerError;
use gnudi_model::{Metric, Resource};

use super::across::{self, AcrossQuery, Reading};
use crate::{
    measures::{
        document::Document,
        groups::{GroupPart, Groups},
    },
    routes::{
        aggregates::{Fields, Wanted, check_count, groupby},
        prelude::*,
        search::filter_of,
    },
};

pub async fn resource(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let query = call.query();
    let groupby = groupby(&query);
    let filter = filter_of(call, &query, body).await?;
    let filter = call.seen(Rule::SearchResource, &call.resource_type().name, filter)?;
    let fields = Fields::of_type(&groupby);
    let resource_type = &call.resource_type().name;
    let metric_names = Some(vec![call.parameter("name").to_owned()]);
    let wanted = Wanted { resource_type, filter, history: false, metric_names, omits_attributes: true };
    let resources = fields.list(call, wanted).await;
    let resources = resources.map_err(|error| match error {
        IndexerError::InvalidPagination(_) => ApiError::bad_request("Invalid groupby attribute"),
        other => other.into(),
    })?;
    check_count(call, resources.len())?;
    if groupby.is_empty() {
        let asked = AcrossQuery::of(call, &query)?;
        return across::answer(call, &asked, &metrics(call, &resources)).await;
    }
    let mut groups = Groups::new(call);
    for (key, resources) in fields.group_by(&resources)? {
        let asked = AcrossQuery::of(call, &query)?;
        let reading = across::reading(call, &asked, &metrics(call, resources)).await?;
        groups.add(MetricsGroup { key, reading }).await?;
    }
    Ok(reply::ok(groups.into_body()))
}

/// The metrics of the resources with equal values in the `groupby` fields.
struct MetricsGroup {
    key: Value,
    reading: Reading,
}

impl GroupPart for MetricsGroup {
    async fn write(&self, engine: &Engine, document: &mut Document) -> Result<()> {
        let columns = self.reading.columns(engine).await?;
        document.group(&self.key, |document| document.rows(columns))
    }

    fn series(&self) -> usize {
        self.reading.series()
    }
}

/// The metrics with the path's name, of those resources that have one.
fn metrics(call: &Call<'_>, resources: &[Arc<Resource>]) -> Vec<Arc<Metric>> {
    let name = call.parameter("name");
    resources.iter().filter_map(|resource| resource.metric(name).cloned()).collect()
}
