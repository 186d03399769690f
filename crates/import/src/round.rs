//! One round of an import: brings the target up to date with a snapshot of Gnocchi.
//!
//! Changes of resources are found by their revisions. For metrics, Gnocchi's index stores when measures were last
//! processed; it is written before the measures are stored, and they are removed from incoming after that. So a metric
//! is unchanged since a round if that time is the same in the index of both rounds, and neither round found a backlog
//! for it. (In `MySQL` it has whole seconds: one that is about as new as the newest proves nothing.) The backlog is
//! listed twice, before and after the index is opened: measures processed in between are in the first list or show in
//! the index.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, atomic::Ordering},
    time::{Duration, SystemTime},
};

use gnudi_drivers::aggregates::Fence;
use gnudi_indexer::{IndexerError, NewMetric, revive_measured};
use gnudi_model::{AttributeValue, MetricId, Text, Timespan, Timestamp};
use uuid::Uuid;

use crate::{
    ImportError, Report, Source, Target, Tell, definitions,
    index::{
        IDS_AT_ONCE, Index, MetricPlace, MetricState, ResourceState, SourceResource, SourceRevision,
        SourceType,
    },
    resources,
    series::{self, Incomplete, SeriesSource},
    source::Storage,
};

/// Pause between two checks of the metrics that Gnocchi is processing. After this many checks without a change, Gnocchi
/// counts as not processing them.
const PAUSE_FOR_PASSES: Duration = Duration::from_millis(500);
const UNCHANGED_CHECKS_MAX: u32 = 10;
/// A time in whole seconds counts only if it is this much older than the newest one: several processes of gnocchi-metricd
/// write concurrently, and their clocks may differ.
const WHOLE_SECONDS_MARGIN: Timespan = Timespan(5_000_000_000);

/// With fewer metrics, all of them may well be without measures.
const EMPTY_METRICS_MIN: usize = 10;

/// An import, and its knowledge of the target. Nobody else may write to the target meanwhile.
pub struct Import<'a> {
    source: &'a Source,
    target: Target<'a>,
    metrics: HashMap<MetricId, TargetMetric>,
    /// Resources of the target, with the starts of their newest revisions.
    resources: HashMap<Uuid, Timestamp>,
    /// Whether resources are from an earlier import. Then the first round reports again which of their times were moved.
    has_unnamed: bool,
    /// Whether Gnocchi's storage had a series of some metric.
    has_series: bool,
    /// What the rounds so far have left out, by the id of the metric or resource: unchanged ones are not read again.
    skipped: HashMap<Uuid, BTreeSet<String>>,
    /// Resources with a measure of the backlog, and its time.
    measured: Vec<(Uuid, Timestamp)>,
    /// When Gnocchi had last changed the types of the target.
    types: HashMap<Text, Timestamp>,
    /// Whether policies and types of the target are from an earlier import.
    is_continued: bool,
    knowledge: Knowledge,
}

/// Whether the target has exactly the known metrics and resources.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Knowledge {
    Exact,
    /// A write failed, and may have been executed.
    InDoubt,
}

/// A metric of the target.
#[derive(Clone, Copy)]
struct TargetMetric {
    place: MetricPlace,
    /// Of a completely imported metric: [`MetricState::last_measures`] of the round that imported it, if a later pass
    /// cannot have the same.
    last_measures: Option<Timestamp>,
}

impl<'a> Import<'a> {
    /// `target`: empty, or written only by imports of the same Gnocchi. Data that is not in Gnocchi is deleted there.
    pub async fn new(source: &'a Source, target: Target<'a>) -> Result<Self, ImportError> {
        let metrics = found(target, &HashMap::new()).await?;
        let resources = target.resources().await?;
        let is_continued = !(metrics.is_empty() && resources.is_empty());
        Ok(Import {
            source,
            target,
            metrics,
            has_unnamed: !resources.is_empty(),
            resources,
            has_series: false,
            skipped: HashMap::new(),
            measured: Vec::new(),
            types: HashMap::new(),
            is_continued,
            knowledge: Knowledge::Exact,
        })
    }

    /// Where Gnocchi's storage lacks points, if it has none of the first metrics, except for those whose measures may all
    /// wait: see [`Report::empty_storage`], which is known only once all metrics are read.
    pub async fn missing_points(&self) -> Result<Option<String>, ImportError> {
        let backlog = self.backlog().await?;
        let mut first = Index::open(&self.source.index).await?.metrics_behind(None, self.target.now).await?;
        first.retain(|metric| !backlog.contains(&metric.id));
        if first.len() < EMPTY_METRICS_MIN {
            return Ok(None);
        }
        for metric in &first {
            if self.source.storage.points(metric.id).await?.is_some() {
                return Ok(None);
            }
        }
        Ok(first.first().map(|metric| self.source.storage.points_place(metric.id)))
    }

    /// `is_last`: import the backlog, too, and wait for metrics that Gnocchi is processing; otherwise the next round
    /// imports both. The last report names what all rounds have left out.
    pub async fn round(&mut self, is_last: bool, tell: Tell<'_>) -> Result<Report, ImportError> {
        if self.knowledge == Knowledge::InDoubt {
            self.metrics = found(self.target, &self.metrics).await?;
            self.resources = self.target.resources().await?;
        }
        let updated = self.update(is_last, tell).await;
        self.knowledge = match updated {
            Err(ImportError::Indexer(_) | ImportError::Aggregates(_)) => Knowledge::InDoubt,
            _ => Knowledge::Exact,
        };
        updated
    }

    async fn update(&mut self, is_last: bool, tell: Tell<'_>) -> Result<Report, ImportError> {
        let mut backlog = self.backlog().await?;
        let mut index = Index::open(&self.source.index).await?;
        let metrics = index.metric_states().await?;
        backlog.extend(self.backlog().await?);
        let mut report = Report { metrics_total: metrics.len() as u64, ..Report::default() };
        let resources = index.resource_states().await?;
        let (policies, rules) = (index.archive_policies().await?, index.archive_policy_rules().await?);
        let mut types = index.resource_types().await?;
        definitions::refuse_others(self.target, &policies, &types, self.is_continued).await?;
        self.is_continued = true;
        // First, since their names may have been reused, and those of their policies.
        self.delete(&resources, &metrics, &mut report).await?;
        definitions::delete_replaced(self.target, &policies).await?;
        for changed in definitions::changed_windows(self.target, &policies).await? {
            self.mark_incomplete(index.metrics_of_policy(&changed).await?).await?;
        }
        definitions::archive_policies(self.target, &policies, &mut report).await?;
        definitions::archive_policy_rules(self.target, rules, &mut report).await?;
        definitions::resource_types(self.target, &mut index, &types, &mut self.types, &mut report).await?;
        types.push(Index::generic());
        self.resources(&mut index, &types, resources, &mut report, tell).await?;
        let (storage, incoming) = (self.source.storage.clone(), self.source.incoming.clone());
        let series = Arc::new(SeriesSource::new(storage, incoming, &policies, backlog, is_last));
        let in_motion = self.metrics(&mut index, &series, &metrics, &mut report, tell).await?;
        if !self.has_series {
            report.empty_storage = without_series(&*self.source.storage, &metrics, &series.backlog);
        }
        let Import { metrics, resources, .. } = &*self;
        let is_there = |id: &Uuid| metrics.contains_key(&MetricId(*id)) || resources.contains_key(id);
        let skipped: Vec<String> =
            self.skipped.iter().filter(|(id, _)| is_there(id)).flat_map(|(_, all)| all).cloned().collect();
        if is_last {
            self.settle(&series, in_motion, &mut report).await?;
            // Measures from the end of a resource on revoke the end, as in a pass over them. A later import finds a revision
            // that Gnocchi does not have, and imports the resource anew.
            // Kept until it has succeeded: a round is repeated after an outage.
            let measured = self.measured.clone();
            revive_measured(self.target.indexer, measured, SystemTime::now().into()).await?;
            self.measured.clear();
            add_missing(&mut report.skipped, skipped);
        }
        self.target.aggregates.sync().await?;
        definitions::delete_unused(self.target, &policies, &types).await?;
        Ok(report)
    }

    async fn backlog(&self) -> Result<HashSet<MetricId>, ImportError> {
        self.source.incoming.backlog().await.map_err(ImportError::Incoming)
    }

    /// Deletes resources and metrics that are gone in Gnocchi, and metrics that have another resource or name there:
    /// these are imported as new ones.
    async fn delete(
        &mut self,
        resources: &[ResourceState],
        metrics: &[MetricState],
        report: &mut Report,
    ) -> Result<(), ImportError> {
        let there: HashSet<Uuid> = resources.iter().map(|state| state.id).collect();
        let gone: Vec<Uuid> = self.resources.keys().filter(|id| !there.contains(*id)).copied().collect();
        for some in gone.chunks(IDS_AT_ONCE) {
            for (id, deleted) in some.iter().zip(self.target.indexer.delete_resources(some).await) {
                for metric in deleted? {
                    self.metrics.remove(&metric);
                    report.metrics_deleted += 1;
                }
                self.resources.remove(id);
                report.resources_deleted += 1;
            }
        }
        let there: HashMap<MetricId, MetricPlace> =
            metrics.iter().map(|state| (state.id, state.place)).collect();
        let is_gone = |id: &MetricId, metric: &TargetMetric| there.get(id) != Some(&metric.place);
        let gone = self.metrics.iter().filter(|(id, metric)| is_gone(id, metric));
        let gone: Vec<MetricId> = gone.map(|(id, _)| *id).collect();
        for some in gone.chunks(IDS_AT_ONCE) {
            for (id, deleted) in some.iter().zip(self.target.indexer.delete_metrics(some).await) {
                deleted?;
                self.metrics.remove(id);
                report.metrics_deleted += u64::from(!there.contains_key(id));
            }
        }
        self.expunge().await
    }

    /// Marks metrics as not imported, so that they are imported again.
    async fn mark_incomplete(&mut self, metrics: Vec<MetricId>) -> Result<(), ImportError> {
        let known: Vec<MetricId> = metrics.into_iter().filter(|id| self.metrics.contains_key(id)).collect();
        for some in known.chunks(IDS_AT_ONCE) {
            for id in some {
                self.metrics.get_mut(id).expect("it is known").last_measures = None;
                self.skipped.remove(&id.0);
            }
            let deleted = self.target.aggregates.delete(Fence::EVERYTHING, some).await;
            deleted.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(())
    }

    /// Removes the data of deleted metrics, then their index entries, as the janitor does: their policies and types may
    /// be deleted afterwards.
    async fn expunge(&self) -> Result<(), ImportError> {
        let Target { indexer, aggregates, .. } = self.target;
        loop {
            let some = indexer.deleted_metrics(None, IDS_AT_ONCE).await?;
            if some.is_empty() {
                return Ok(());
            }
            aggregates.delete(Fence::EVERYTHING, &some).await.into_iter().collect::<Result<(), _>>()?;
            indexer.expunge_metrics(&some).await?;
        }
    }

    async fn resources(
        &mut self,
        index: &mut Index,
        types: &[SourceType],
        states: Vec<ResourceState>,
        report: &mut Report,
        tell: Tell<'_>,
    ) -> Result<(), ImportError> {
        let mut changed: HashMap<Text, Vec<Uuid>> = HashMap::new();
        let mut unnamed = HashSet::new();
        for state in states {
            if self.resources.get(&state.id) == Some(&state.revision_start) {
                report.resources += 1;
                if self.has_unnamed {
                    unnamed.insert(state.id);
                }
            } else {
                changed.entry(state.resource_type).or_default().push(state.id);
            }
        }
        for of in types {
            if self.has_unnamed {
                let moved = index.resources_with_moved_times(of).await?;
                let moved: Vec<Uuid> = moved.into_iter().filter(|id| unnamed.contains(id)).collect();
                for some in index.groups_of_resources(&moved).await? {
                    for resource in index.resources(of, some).await? {
                        self.name_moved_times(&resource, report);
                    }
                }
            }
            let ids = changed.remove(&of.resource_type.name).unwrap_or_default();
            for some in index.groups_of_resources(&ids).await? {
                let found = index.resources(of, some).await?;
                report.skipped.extend(without_attributes(some, &found, &of.resource_type.name));
                for resource in found {
                    let (id, newest) =
                        (resource.id, resource.revisions.last().map(|newest| newest.revision_start));
                    report.revisions += resource.revisions.len() as u64;
                    self.name_moved_times(&resource, report);
                    let name = &of.resource_type.name;
                    let imported =
                        resources::import(self.target, name, resource, &mut report.skipped).await?;
                    if imported.is_there {
                        self.resources.extend(newest.map(|newest| (id, newest)));
                    }
                    for metric in imported.deleted {
                        self.metrics.remove(&metric);
                        report.metrics_deleted += 1;
                    }
                    report.resources += 1;
                    tell(report);
                }
            }
        }
        for (of_type, ids) in changed {
            let reason = format!("its type {of_type} is being created or deleted in Gnocchi");
            report.skipped.extend(ids.iter().map(|id| format!("resource {id}: {reason}")));
        }
        self.has_unnamed = false;
        // Metrics that were deleted with a resource may be created again.
        self.expunge().await
    }

    fn name_moved_times(&mut self, resource: &SourceResource, report: &mut Report) {
        let moved = with_moved_times(resource);
        if !moved.is_empty() {
            self.skipped.entry(resource.id).or_default().extend(moved.iter().cloned());
            report.skipped.extend(moved);
        }
    }

    /// Returns the metrics that Gnocchi is processing.
    async fn metrics(
        &mut self,
        index: &mut Index,
        series: &Arc<SeriesSource>,
        states: &[MetricState],
        report: &mut Report,
        tell: Tell<'_>,
    ) -> Result<Vec<NewMetric>, ImportError> {
        let mut in_motion = Vec::new();
        let is_unchanged = |state: &&MetricState| {
            let imported = self.metrics.get(&state.id).and_then(|metric| metric.last_measures);
            imported.is_some() && imported == state.last_measures && !series.backlog.contains(&state.id)
        };
        let (unchanged, changed): (Vec<&MetricState>, Vec<&MetricState>) =
            states.iter().partition(is_unchanged);
        report.metrics += unchanged.len() as u64;
        report.metrics_unchanged += unchanged.len() as u64;
        let newest = states.iter().filter_map(|state| state.last_measures).max();
        let newest = newest.filter(|_| index.has_whole_seconds());
        let last_measures: HashMap<MetricId, Option<Timestamp>> =
            changed.iter().map(|state| (state.id, distinct(state.last_measures, newest))).collect();
        let mut take = |imported: series::Imported, import: &mut Self| {
            for id in imported.complete {
                import.metrics.get_mut(&id).expect("it is known").last_measures = last_measures[&id];
            }
            for (id, reason) in imported.skipped {
                import.skipped.entry(id.0).or_default().insert(reason);
            }
            import.has_series |= imported.has_series;
            import.measured.extend(imported.measured);
            in_motion.extend(imported.in_motion);
            imported.held
        };
        // Read the next metrics while the previous ones are being written.
        let (mut reading, mut held): (Option<series::Reads>, _) = (None, Vec::new());
        for some in changed.chunks(IDS_AT_ONCE) {
            let ids: Vec<MetricId> = some.iter().map(|state| state.id).collect();
            for some in series::groups(series, &index.metrics(&ids, self.target.now).await?) {
                let there = self.create(some, report).await?;
                let next = series::begin(series, self.target, there).await?;
                if let Some(reads) = reading.replace(next) {
                    held.extend(take(reads.finish(self.target, Incomplete::Held, report).await?, self));
                }
                index.touch().await?;
                report.metrics += some.len() as u64;
                tell(report);
            }
        }
        if let Some(reads) = reading {
            held.extend(take(reads.finish(self.target, Incomplete::Held, report).await?, self));
        }
        for some in series::groups(series, &held) {
            let reads = series::begin(series, self.target, some.to_vec()).await?;
            take(reads.finish(self.target, Incomplete::Written, report).await?, self);
        }
        Ok(in_motion)
    }

    /// Repeats reading metrics that Gnocchi is processing until it is done.
    async fn settle(
        &mut self,
        series: &Arc<SeriesSource>,
        mut in_motion: Vec<NewMetric>,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        let mut unchanged_checks = 0;
        while !in_motion.is_empty() {
            tokio::time::sleep(PAUSE_FOR_PASSES).await;
            let mut still = Vec::new();
            for some in series::groups(series, &in_motion) {
                let reads = series::begin(series, self.target, some.to_vec()).await?;
                let imported = reads.finish(self.target, Incomplete::Written, report).await?;
                self.measured.extend(imported.measured);
                for (id, reason) in imported.skipped {
                    self.skipped.entry(id.0).or_default().insert(reason);
                }
                still.extend(imported.in_motion);
            }
            unchanged_checks = if still.len() < in_motion.len() { 0 } else { unchanged_checks + 1 };
            if unchanged_checks >= UNCHANGED_CHECKS_MAX {
                let is_second = series.accepts_inconsistent.swap(true, Ordering::Relaxed);
                if is_second {
                    return Err(ImportError::InMotion(still.len()));
                }
                unchanged_checks = 0;
            }
            in_motion = still;
        }
        Ok(())
    }

    /// Creates missing metrics; returns those that exist afterwards.
    async fn create(
        &mut self,
        metrics: &[NewMetric],
        report: &mut Report,
    ) -> Result<Vec<NewMetric>, ImportError> {
        let is_known = |metric: &&NewMetric| self.metrics.contains_key(&metric.id);
        let (mut there, missing): (Vec<_>, Vec<_>) = metrics.iter().partition(is_known);
        let created = self.target.indexer.create_metrics(missing.iter().copied().cloned().collect()).await;
        for (metric, created) in missing.into_iter().zip(created) {
            match created {
                Ok(_) => there.push(metric),
                Err(
                    error @ (IndexerError::NamedMetricAlreadyExists(_) | IndexerError::NoSuchResource(_)),
                ) => {
                    report.skipped.push(format!("metric {}: {error}", metric.id.0));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let there: Vec<NewMetric> = there.into_iter().cloned().collect();
        for metric in &there {
            let place = MetricPlace::of(metric.resource_id, metric.name.as_deref());
            // Marked as incomplete, in case the import fails.
            self.metrics.insert(metric.id, TargetMetric { place, last_measures: None });
        }
        Ok(there)
    }
}

/// The metrics of the target; those that are `known` there stay as complete as they are.
async fn found(
    target: Target<'_>,
    known: &HashMap<MetricId, TargetMetric>,
) -> Result<HashMap<MetricId, TargetMetric>, ImportError> {
    let of = |(id, place): (MetricId, MetricPlace)| {
        let known = known.get(&id).filter(|known| known.place == place);
        (id, TargetMetric { place, last_measures: known.and_then(|known| known.last_measures) })
    };
    Ok(target.metrics().await?.into_iter().map(of).collect())
}

/// The time of a metric's last measures, if no pass after this round can have the same time. If times are in whole seconds,
/// `newest` is the newest one of all metrics.
fn distinct(last_measures: Option<Timestamp>, newest: Option<Timestamp>) -> Option<Timestamp> {
    let limit = newest.map_or(Timestamp::MAX, |newest| newest.saturating_sub(WHOLE_SECONDS_MARGIN));
    last_measures.filter(|last| *last < limit)
}

/// Where the storage, which has no series of any metric, lacks that of a metric whose measures do not all wait. It may be
/// another Gnocchi's, or another pool, database or folder than the one that is meant.
fn without_series(
    storage: &dyn Storage,
    metrics: &[MetricState],
    backlog: &HashSet<MetricId>,
) -> Option<String> {
    let processed = metrics.iter().find(|state| !backlog.contains(&state.id))?;
    Some(storage.points_place(processed.id))
}

/// Adds those reasons of `all` that `skipped` lacks.
fn add_missing(skipped: &mut Vec<String>, all: Vec<String>) {
    let known: HashSet<String> = skipped.iter().cloned().collect();
    let missing: BTreeSet<String> = all.into_iter().filter(|reason| !known.contains(reason)).collect();
    skipped.extend(missing);
}

/// Reports a resource's times that do not fit into the target: they became the nearest that does.
fn with_moved_times(resource: &SourceResource) -> Vec<String> {
    let is_moved = |time: Timestamp| [i64::MIN, i64::MAX].contains(&time.0);
    let mut fields = BTreeSet::new();
    for SourceRevision { started_at, ended_at, attributes, .. } in &resource.revisions {
        let own = [("started_at", Some(*started_at)), ("ended_at", *ended_at)];
        let attributes = attributes.iter().map(|(name, value)| match value {
            AttributeValue::Datetime(time) => (name.as_str(), Some(*time)),
            _ => (name.as_str(), None),
        });
        let moved = own.into_iter().chain(attributes).filter(|(_, time)| time.is_some_and(is_moved));
        fields.extend(moved.map(|(name, _)| name));
    }
    let moved = |name: &str| {
        format!("resource {}: its {name} is not between 1677 and 2262, and is moved there", resource.id)
    };
    fields.into_iter().map(moved).collect()
}

/// Reports resources whose attributes Gnocchi does not have: it leaves the rest of a resource behind that was deleted
/// by a filter of its type (docs/compatibility.md).
fn without_attributes(wanted: &[Uuid], found: &[SourceResource], of_type: &str) -> Vec<String> {
    let found: HashSet<Uuid> = found.iter().map(|resource| resource.id).collect();
    let reason = format!("Gnocchi has deleted its attributes as a {of_type}, and left the rest");
    let left = wanted.iter().filter(|id| !found.contains(*id));
    left.map(|id| format!("resource {id}: {reason}")).collect()
}

#[cfg(test)]
mod tests;
