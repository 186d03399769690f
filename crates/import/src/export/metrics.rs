//! Exports deleted metrics, and new ones, to which Gnocchi assigns other ids.

use std::{collections::HashSet, sync::Arc};

use async_trait::async_trait;
use gnudi_indexer::{
    Indexer, MetricFilter, MetricListing, MetricSort, NewMetric, Page, SortDirection, SortKey,
};
use gnudi_model::{Metric, MetricId, Text, Timestamp, resource_type::GENERIC};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{
    Export, ExportError,
    definitions::{Definitions, name_in_gnocchi},
    line::Line,
    merge::{self, Listing, Rows},
    post::{NEW_METRIC, Posted},
};
use crate::index::Index;

/// Metrics per page of gnudi's listing.
const PAGE_ROWS: usize = 10_000;

struct Theirs<'a> {
    index: &'a mut Index,
    behind: Option<MetricId>,
}

#[async_trait]
impl Rows for Theirs<'_> {
    type Row = NewMetric;

    async fn page(&mut self) -> Result<Vec<NewMetric>, ExportError> {
        let some = self.index.metrics_behind(self.behind, Timestamp::EPOCH).await?;
        self.behind = some.last().map(|last| last.id).or(self.behind);
        Ok(some)
    }

    fn id(row: &NewMetric) -> Uuid {
        row.id.0
    }
}

struct Ours<'a> {
    indexer: &'a dyn Indexer,
    behind: Option<MetricId>,
}

#[async_trait]
impl Rows for Ours<'_> {
    type Row = Arc<Metric>;

    async fn page(&mut self) -> Result<Vec<Arc<Metric>>, ExportError> {
        let sorts = vec![MetricSort { key: SortKey::Id, direction: SortDirection::Ascending }];
        let page = Page { limit: PAGE_ROWS, marker: self.behind, sorts };
        let listing = MetricListing { filter: MetricFilter::default(), page };
        let some = self.indexer.list_metrics(&listing).await?;
        self.behind = some.last().map(|last| last.id).or(self.behind);
        Ok(some)
    }

    fn id(row: &Arc<Metric>) -> Uuid {
        row.id.0
    }
}

fn listings<'a>(gnocchi: &'a mut Index, gnudi: &'a dyn Indexer) -> (Listing<Theirs<'a>>, Listing<Ours<'a>>) {
    let (theirs, ours) = (Theirs { index: gnocchi, behind: None }, Ours { indexer: gnudi, behind: None });
    (Listing::new(theirs), Listing::new(ours))
}

/// Deletes metrics that are gone in gnudi. Metrics of deleted resources need no request; those that an earlier run has
/// created for gnudi's metrics stay.
pub(super) async fn write_deleted(export: &mut Export<'_>) -> Result<(), ExportError> {
    let posted = Posted::read(&export.options.output)?;
    let Export { gnocchi, gnudi, output, earlier, report, tell, .. } = export;
    let (mut theirs, mut ours) = listings(gnocchi, *gnudi);
    loop {
        let gone = match merge::next(&mut theirs, &mut ours).await? {
            (None, None) => return Ok(()),
            (Some(theirs), None) => theirs,
            _ => continue,
        };
        let stays = match gone.resource_id {
            None => match posted.original(gone.id.0) {
                Some(original) => gnudi.metrics(&[MetricId(original)]).await?[0].is_some(),
                None => false,
            },
            Some(resource) if gnudi.ends(&[resource]).await?[0].is_none() => true,
            Some(resource) => {
                let name = gone.name.as_deref().unwrap_or_default();
                let named = gnudi.named_metrics(&[(resource, name)]).await?.pop().flatten();
                named.is_some_and(|named| earlier.metrics.contains(&named.id.0))
            }
        };
        if !stays {
            report.changes += 1;
            output.write(&Line::request("DELETE", format!("/v1/metric/{}", gone.id.0), None))?;
            tell(report);
        }
    }
}

/// Creates metrics that Gnocchi lacks, unless an earlier run did; returns all of gnudi's metrics whose ids Gnocchi does
/// not know.
pub(super) async fn write_new(export: &mut Export<'_>) -> Result<HashSet<MetricId>, ExportError> {
    let Export { gnocchi, gnudi, output, earlier, report, tell, .. } = export;
    let mut definitions = Definitions::new(gnocchi).await?;
    let (mut theirs, mut ours) = listings(gnocchi, *gnudi);
    let mut made = HashSet::new();
    loop {
        match merge::next(&mut theirs, &mut ours).await? {
            (None, None) => return Ok(made),
            (Some(theirs), Some(ours))
                if !goes_with_former(*gnudi, theirs.resource_id, ours.resource_id).await? =>
            {
                let name = ours.name.as_ref().map(Text::as_str);
                if theirs.resource_id != ours.resource_id || theirs.name.as_deref() != name {
                    report.skipped.push(format!(
                        "metric {}: it belongs to another resource than in Gnocchi, which its API cannot say",
                        ours.id
                    ));
                }
                if theirs.archive_policy_name != name_in_gnocchi(&ours.archive_policy_name) {
                    report.skipped.push(format!(
                        "metric {}: it moved from archive policy {} to {}, which Gnocchi's API cannot say",
                        ours.id, theirs.archive_policy_name, ours.archive_policy_name
                    ));
                }
            }
            (theirs, Some(new)) => {
                if theirs.is_some() {
                    report.skipped.push(format!(
                        "metric {}: Gnocchi deletes it with its former resource: it is created anew, and what it has there is lost",
                        new.id
                    ));
                }
                made.insert(new.id);
                if !earlier.metrics.contains(&new.id.0) {
                    for line in definitions.lines(*gnudi, &new.archive_policy_name, report).await? {
                        report.changes += 1;
                        output.write(&line)?;
                    }
                    report.changes += 1;
                    report.metrics_new += 1;
                    output.write(&creation(&new))?;
                    tell(report);
                }
            }
            (Some(_), None) => {}
        }
    }
}

/// Whether Gnocchi deletes a metric with its resource there, which is gone in gnudi, where the metric has left it.
async fn goes_with_former(
    gnudi: &dyn Indexer,
    former: Option<Uuid>,
    current: Option<Uuid>,
) -> Result<bool, ExportError> {
    match former.filter(|_| former != current) {
        Some(former) => Ok(gnudi.ends(&[former]).await?[0].is_none()),
        None => Ok(false),
    }
}

fn creation(new: &Metric) -> Line {
    let mut body = Map::from_iter([(
        "archive_policy_name".to_owned(),
        name_in_gnocchi(&new.archive_policy_name).into(),
    )]);
    if let Some(unit) = &new.unit {
        body.insert("unit".to_owned(), unit.as_str().into());
    }
    let name = new.name.as_ref().map(Text::as_str);
    let line = if let Some(resource) = new.resource_id {
        let named = Map::from_iter([(name.unwrap_or_default().to_owned(), Value::from(body))]);
        let path = format!("/v1/resource/{GENERIC}/{resource}/metric");
        Line::request("POST", path, Some(named.into()))
    } else {
        body.extend(name.map(|name| ("name".to_owned(), Value::from(name))));
        Line::request("POST", NEW_METRIC, Some(body.into()))
    };
    Line { metric: Some(new.id.0), ..line }
}

#[cfg(test)]
mod tests {
    use gnudi_indexer::{MemoryIndexer, NewResource};

    use super::*;

    #[tokio::test]
    async fn a_metric_that_left_its_resource_goes_with_it() {
        let gnudi: &dyn Indexer = &MemoryIndexer::default();
        let (there, gone) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let resource = NewResource::new(there, GENERIC, "creator", Timestamp::EPOCH);
        gnudi.create_resources(vec![resource]).await.remove(0).unwrap();
        for (former, current, expected) in [
            (Some(gone), None, true),
            (Some(gone), Some(there), true),
            (Some(there), None, false),
            (Some(gone), Some(gone), false),
            (None, Some(there), false),
            (None, None, false),
        ] {
            let goes = goes_with_former(gnudi, former, current).await.unwrap();
            assert_eq!(goes, expected, "{former:?} {current:?}");
        }
    }
}
