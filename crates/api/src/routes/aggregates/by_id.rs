//! Operations on metrics by id.

use std::{collections::BTreeMap, sync::Arc};

use gnudi_model::{Metric, MetricId, Resource, python::parse_uuid};
use gnudi_series::{
    cross::CrossMeasures,
    operations::{MetricName, Operation},
};
use uuid::Uuid;

use super::{
    Arguments, answer,
    by_time::ByTime,
    references::{self, Policies, Reference},
    table::{Keys, TableAnswer},
};
use crate::{
    measures::document::Document,
    routes::{
        metric::{MetricWriter, ResourceForm},
        prelude::*,
        resource,
    },
};

pub(super) async fn answer(
    call: &Call<'_>,
    operations: &Arc<Operation>,
    arguments: &Arguments,
    by_time: Option<ByTime>,
    details: bool,
) -> Result<Document> {
    if let Some(by_time) = by_time.filter(|_| details) {
        by_time.check_details(call, operations.metric_names().len())?;
    }
    let (references, measures) = compute(call, operations, arguments, by_time).await?;
    let details = if details { Some(Details::of(call, &references).await?) } else { None };
    let mut document = Document::new(&call.answers());
    let write = |document: &mut Document, measures| {
        answer::write(document, &references, measures, |document| {
            details.as_ref().map_or(Ok(()), |details| details.write(document))
        })
    };
    let Some(by_time) = by_time else {
        write(&mut document, measures)?;
        return Ok(document);
    };
    let groups = by_time.split(call.app.engine(), measures).await;
    document.text("[");
    by_time.write(&mut document, &Value::Object(Vec::new()), groups, write)?;
    document.text("]");
    Ok(document)
}

/// [`answer`] as a table.
pub(super) async fn table(
    call: &Call<'_>,
    operations: &Arc<Operation>,
    arguments: &Arguments,
) -> Result<TableAnswer> {
    let (references, measures) = compute(call, operations, arguments, None).await?;
    let mut table = TableAnswer::new(call, &[], Keys::of(&references, &measures));
    table.push(&Value::Null, &references, measures)?;
    Ok(table)
}

async fn compute(
    call: &Call<'_>,
    operations: &Arc<Operation>,
    arguments: &Arguments,
    by_time: Option<ByTime>,
) -> Result<(Vec<Reference>, Vec<CrossMeasures>)> {
    let names = operations.metric_names();
    references::check_count(call, names.len())?;
    let references = find(call, &names).await?;
    if let Some(by_time) = by_time {
        by_time.check(if operations.is_aggregated() { 1 } else { references.len() })?;
    }
    let mut policies = Policies::default();
    let measures = references::measures(call, &mut policies, &references, operations, arguments).await?;
    Ok((references, measures))
}

async fn find(call: &Call<'_>, names: &[&MetricName]) -> Result<Vec<Reference>> {
    let ids: Option<Vec<MetricId>> = names.iter().map(|name| parse_uuid(&name.name).map(MetricId)).collect();
    let ids = ids.ok_or_else(|| invalid_references(names))?;
    let found = call.indexer().metrics(&ids).await?;
    let missing = ids.iter().zip(&found).filter(|(_, metric)| metric.is_none()).map(|(id, _)| id.to_string());
    let mut missing: Vec<String> = missing.collect();
    if !missing.is_empty() {
        missing.sort_unstable();
        missing.dedup();
        return Err(ApiError::not_found(Value::cause_and_reason(
            "Unknown metrics",
            "Provided metrics don't exists",
            missing,
        )));
    }
    for metric in found.iter().flatten() {
        call.enforce_with_resource(Rule::GetMetric, metric).await?;
    }
    let references = names.iter().zip(found.into_iter().flatten());
    Ok(references.map(|(name, metric)| Reference { metric, resource: None, name: (*name).clone() }).collect())
}

fn invalid_references(names: &[&MetricName]) -> ApiError {
    let shown = |name: &&MetricName| Value::from(vec![name.name.as_str(), name.aggregation.as_str()]);
    ApiError::bad_request(Value::cause_and_reason(
        "Invalid metric references",
        "badly formed hexadecimal UUID string",
        Value::Array(names.iter().map(shown).collect()),
    ))
}

/// The distinct metrics in order of their ids, with all their fields.
struct Details<'r> {
    metrics: Vec<&'r Metric>,
    resources: BTreeMap<Uuid, Arc<Resource>>,
    writer: MetricWriter,
}

impl<'r> Details<'r> {
    async fn of(call: &Call<'_>, references: &'r [Reference]) -> Result<Self> {
        let metrics: BTreeMap<MetricId, &Metric> =
            references.iter().map(|reference| (reference.metric.id, &*reference.metric)).collect();
        let metrics: Vec<&Metric> = metrics.into_values().collect();
        let ids = metrics.iter().filter_map(|metric| metric.resource_id).collect();
        let resources = resource::by_ids(call, ids).await?;
        let writer = MetricWriter::of(call, &metrics).await?;
        Ok(Details { metrics, resources, writer })
    }

    fn write(&self, document: &mut Document) -> Result<()> {
        document.text(", \"references\": [");
        for (index, metric) in self.metrics.iter().enumerate() {
            document.text(if index > 0 { ", " } else { "" });
            let resource = metric.resource_id.and_then(|id| self.resources.get(&id));
            let resource = ResourceForm::Whole(resource.map(|resource| &**resource));
            document.write(|out| self.writer.write(metric, resource, |_| (), out))?;
        }
        document.text("]");
        Ok(())
    }
}
