//! Exports deleted metrics, and new ones, to which Gnocchi assigns other ids.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use gnudi_client::uri;
use gnudi_indexer::{Indexer, MetricPages, NewMetric};
use gnudi_model::{Metric, MetricId, Text, Timestamp, resource_type::GENERIC};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{
    Export, ExportError,
    definitions::{Definitions, name_in_gnocchi},
    earlier::{Earlier, Place},
    known::Known,
    line::Line,
    post::NEW_METRIC,
    refuse_damage,
};
use crate::{
    index::{Index, MetricPlace},
    merge::{self, Listing, Rows},
};

/// Metrics per page of gnudi's listing.
const PAGE_ROWS: usize = 10_000;

struct Theirs<'a> {
    index: &'a mut Index,
    behind: Option<MetricId>,
}

impl Rows for Theirs<'_> {
    type Row = NewMetric;
    type Id = Uuid;
    type Error = ExportError;

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
    pages: MetricPages,
}

impl Rows for Ours<'_> {
    type Row = Arc<Metric>;
    type Id = Uuid;
    type Error = ExportError;

    async fn page(&mut self) -> Result<Vec<Arc<Metric>>, ExportError> {
        let some = self.pages.next(self.indexer).await?.unwrap_or_default();
        refuse_damage(self.indexer)?;
        Ok(some)
    }

    fn id(row: &Arc<Metric>) -> Uuid {
        row.id.0
    }
}

fn listings<'a>(gnocchi: &'a mut Index, gnudi: &'a dyn Indexer) -> (Listing<Theirs<'a>>, Listing<Ours<'a>>) {
    let theirs = Theirs { index: gnocchi, behind: None };
    let ours = Ours { indexer: gnudi, pages: MetricPages::new(PAGE_ROWS) };
    (Listing::new(theirs), Listing::new(ours))
}

/// Deletes metrics that are gone in gnudi, or have moved since the file of earlier runs created them. Metrics of deleted
/// resources need no request.
pub(super) async fn write_deleted(export: &mut Export<'_>) -> Result<(), ExportError> {
    let Export { gnocchi, gnudi, output, earlier, posted, known, report, tell, .. } = export;
    let gnudi = *gnudi;
    let (mut theirs, mut ours) = listings(gnocchi, gnudi);
    // What the file creates, and neither side has shown.
    let mut left: BTreeSet<Uuid> = earlier.metrics.ids().collect();
    let mut deleted = HashSet::new();
    let mut write = |line: &Line| {
        deleted.extend(line.metric);
        report.changes += 1;
        output.write(line)?;
        tell(report);
        Ok::<_, ExportError>(())
    };
    loop {
        let gone = match merge::next(&mut theirs, &mut ours).await? {
            (None, None) => break,
            (Some(theirs), None) => theirs,
            (theirs, Some(ours)) => {
                if let Some(theirs) = theirs.filter(|theirs| !known.deletes_with(theirs.resource_id, earlier))
                    && theirs.resource_id.is_some()
                {
                    let name = theirs.name.as_deref().unwrap_or_default();
                    known.kept_metrics.insert(MetricPlace::of(theirs.resource_id, Some(name)), theirs.id);
                }
                if earlier.metrics.place(ours.id.0) == Some(&Place::of(&ours)) {
                    left.remove(&ours.id.0);
                }
                continue;
            }
        };
        // The metric that the file creates there.
        let created = match gone.resource_id {
            None => posted.original(gone.id.0),
            Some(resource) => earlier.metrics.named(resource, gone.name.as_deref().unwrap_or_default()),
        };
        match created {
            // Also if the file is not posted yet, and Gnocchi's metric is the one before: the file deletes that.
            Some(created) => {
                left.remove(&created);
                write_moved(gnudi, created, earlier, known, &mut write).await?;
            }
            None if !known.deletes_with(gone.resource_id, earlier) => {
                write(&Line::request("DELETE", format!("{NEW_METRIC}/{}", gone.id.0), None))?;
            }
            None => {}
        }
    }
    for created in left {
        write_moved(gnudi, created, earlier, known, &mut write).await?;
    }
    known.deleted_metrics = deleted;
    Ok(())
}

/// Deletes a metric that the file creates, unless gnudi has it there, or the deletion of its resource includes it.
async fn write_moved(
    gnudi: &dyn Indexer,
    created: Uuid,
    earlier: &Earlier,
    known: &Known,
    write: &mut (dyn FnMut(&Line) -> Result<(), ExportError> + Send),
) -> Result<(), ExportError> {
    // Otherwise the file deletes it already.
    let Some(place) = earlier.metrics.place(created) else { return Ok(()) };
    let current = gnudi.metrics(&[MetricId(created)]).await?.pop().flatten();
    if current.is_some_and(|current| Place::of(&current) == *place) {
        return Ok(());
    }
    if let Place::Of(resource, _) = place
        && known.deleted_resources.contains(resource)
    {
        return Ok(());
    }
    write(&deletion(created, place))
}

/// Deletes a metric that Gnocchi has created.
fn deletion(created: Uuid, place: &Place) -> Line {
    let line = match place {
        Place::Alone => {
            let line = Line::request("DELETE", format!("{NEW_METRIC}/{created}"), None);
            Line { made: vec![created], ..line }
        }
        Place::Of(resource, name) => {
            let metrics = format!("/v1/resource/{GENERIC}/{resource}/metric/");
            Line::request("DELETE", uri::path(&metrics, name), None)
        }
    };
    Line { metric: Some(created), ..line }
}

/// Creates metrics that Gnocchi lacks, unless an earlier run did, or what they need came too late to be exported.
pub(super) async fn write_new(export: &mut Export<'_>) -> Result<(), ExportError> {
    let Export { gnocchi, gnudi, output, earlier, expected, known, report, tell, .. } = export;
    let mut definitions = Definitions::new(expected.policies.clone());
    let (mut theirs, mut ours) = listings(gnocchi, *gnudi);
    loop {
        match merge::next(&mut theirs, &mut ours).await? {
            (None, None) => return Ok(()),
            (Some(theirs), Some(ours)) if !known.deletes_with(theirs.resource_id, earlier) => {
                known.metrics.insert(ours.id);
                let name = ours.name.as_ref().map(Text::as_str);
                if theirs.resource_id != ours.resource_id || theirs.name.as_deref() != name {
                    report.skipped.push(format!(
                        "metric {}: it belongs to another resource than in Gnocchi, where it stays",
                        ours.id
                    ));
                }
                if theirs.archive_policy_name != name_in_gnocchi(&ours.archive_policy_name) {
                    report.skipped.push(format!(
                        "metric {}: it moved from archive policy {} to {}, which Gnocchi's API cannot express",
                        ours.id, theirs.archive_policy_name, ours.archive_policy_name
                    ));
                }
            }
            (_, Some(new)) if !known.has_owners_of(&new) => {}
            (theirs, Some(new)) => {
                if let Some(holder) = known.holder_of_place(&new, earlier) {
                    // The next export deletes the former one, unless it has only left its place, as imported ones may.
                    let is_imported =
                        earlier.metrics.place(holder.0).is_none() && !known.made.contains_key(&holder);
                    if is_imported && gnudi.metrics(&[holder]).await?[0].is_some() {
                        report.skipped.push(format!(
                            "metric {}: metric {holder}, which had its name before, keeps that in Gnocchi: it is left out with its measures",
                            new.id
                        ));
                        known.left_out.insert(new.id);
                    }
                    continue;
                }
                if theirs.is_some() {
                    report.skipped.push(format!(
                        "metric {}: Gnocchi deletes it with its former resource: it is created again, and what it has there is lost",
                        new.id
                    ));
                }
                known.make(&new);
                let lines = creation_lines(&new, earlier, known);
                if !lines.is_empty() {
                    if earlier.metrics.place(new.id.0).is_some() {
                        report.skipped.push(format!(
                            "metric {}: it belongs to another resource than when it was exported: it is created again, and what it had there is lost",
                            new.id
                        ));
                    }
                    let before = definitions.lines(*gnudi, &new.archive_policy_name, report).await?;
                    for line in before.iter().chain(&lines) {
                        report.changes += 1;
                        output.write(line)?;
                    }
                    report.metrics_new += 1;
                    tell(report);
                }
            }
            (Some(_), None) => {}
        }
    }
}

/// The requests that create a metric where gnudi has it; none if the file of earlier runs does, and this run does not
/// delete it. gnudi may have moved the metric since [`write_deleted`] has listed it: away, then what the file creates is
/// deleted now, or back, then it is created again.
fn creation_lines(new: &Metric, earlier: &Earlier, known: &Known) -> Vec<Line> {
    let is_deleted = |place: &Place| {
        let is_with_resource =
            matches!(place, Place::Of(resource, _) if known.deleted_resources.contains(resource));
        is_with_resource || known.deleted_metrics.contains(&new.id.0)
    };
    let there = earlier.metrics.place(new.id.0).filter(|place| !is_deleted(place));
    if there == Some(&Place::of(new)) {
        return Vec::new();
    }
    there.map(|place| deletion(new.id.0, place)).into_iter().chain([creation(new)]).collect()
}

fn creation(new: &Metric) -> Line {
    let mut body = Map::from_iter([(
        "archive_policy_name".to_owned(),
        name_in_gnocchi(&new.archive_policy_name).into(),
    )]);
    if let Some(unit) = &new.unit {
        body.insert("unit".to_owned(), unit.as_str().into());
    }
    let line = match Place::of(new) {
        Place::Of(resource, name) => {
            let named = Map::from_iter([(name, Value::from(body))]);
            let path = format!("/v1/resource/{GENERIC}/{resource}/metric");
            Line::request("POST", path, Some(named.into()))
        }
        Place::Alone => {
            body.extend(new.name.as_ref().map(|name| ("name".to_owned(), Value::from(name.as_str()))));
            Line::request("POST", NEW_METRIC, Some(body.into()))
        }
    };
    Line { metric: Some(new.id.0), ..line }
}

#[cfg(test)]
mod tests {
    use gnudi_indexer::MemoryIndexer;

    use super::*;

    #[tokio::test]
    async fn a_metric_of_the_file_is_deleted_unless_it_is_there() {
        let gnudi: &dyn Indexer = &MemoryIndexer::default();
        let (there, gone) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let known = Known { deleted_resources: BTreeSet::from([gone]), ..Known::default() };
        let mut earlier = Earlier::default();
        let places =
            [Place::Alone, Place::Of(there, "a b".to_owned()), Place::Of(gone, "with it".to_owned())];
        for (number, place) in (11..).zip(places) {
            earlier.metrics.insert(Uuid::from_u128(number), place);
        }
        let mut written = Vec::new();
        for number in 11..15 {
            let mut write = |line: &Line| {
                written.push((line.path.clone().unwrap(), line.metric, line.made.clone()));
                Ok(())
            };
            write_moved(gnudi, Uuid::from_u128(number), &earlier, &known, &mut write).await.unwrap();
        }
        let (alone, named) = (Uuid::from_u128(11), Uuid::from_u128(12));
        assert_eq!(
            written,
            [
                (format!("/v1/metric/{alone}"), Some(alone), vec![alone]),
                (format!("/v1/resource/generic/{there}/metric/a%20b"), Some(named), vec![]),
            ]
        );
    }

    #[test]
    fn a_metric_that_moves_meanwhile_is_created_once_where_it_is() {
        let [id, one, other, gone] = [1, 2, 3, 4].map(Uuid::from_u128);
        let methods = |is_deleted: bool, of_file: Option<Place>, resource_id: Option<Uuid>| {
            let new = Metric { resource_id, name: Some("cpu".into()), ..Metric::new(MetricId(id)) };
            let mut earlier = Earlier::default();
            if let Some(place) = of_file {
                earlier.metrics.insert(id, place);
            }
            let known = Known {
                deleted_resources: BTreeSet::from([gone]),
                deleted_metrics: is_deleted.then_some(id).into_iter().collect(),
                ..Known::default()
            };
            let lines = creation_lines(&new, &earlier, &known);
            lines.iter().map(|line| line.method.clone().unwrap()).collect::<Vec<_>>().join(" ")
        };
        let of = |resource| Some(Place::Of(resource, "cpu".to_owned()));
        assert_eq!(methods(false, None, Some(one)), "POST");
        assert_eq!(methods(false, of(one), Some(one)), "");
        // Moved after it was listed.
        assert_eq!(methods(false, of(one), Some(other)), "DELETE POST");
        assert_eq!(methods(false, Some(Place::Alone), Some(one)), "DELETE POST");
        // Moved before, and deleted; it may have come back.
        assert_eq!(methods(true, of(one), Some(other)), "POST");
        assert_eq!(methods(true, of(one), Some(one)), "POST");
        // Deleted with its resource, of which there may be another.
        assert_eq!(methods(false, of(gone), Some(one)), "POST");
        assert_eq!(methods(false, of(gone), Some(gone)), "POST");
    }
}
