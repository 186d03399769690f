//! Collects the samples of a write request by metric.
//!
//! Known series map to their metric directly. For the others metrics are found by name or created, once the
//! whole request has been read. A series that cannot be stored is reported; the others are stored.

use std::{
    collections::{HashMap, HashSet},
    mem,
    ops::Range,
    sync::Arc,
};

use gnudi_access::{Rule, Target};
use gnudi_app::{
    Result,
    provision::{self, Destination, LeftOut, Parcels},
};
use gnudi_drivers::incoming::Batch;
use gnudi_model::{Measure, MetricId};
use gnudi_prometheus::{
    labels::RESOURCE_TYPE,
    metadata::Metadata,
    remote_write::{Exemplar, InvalidLabels, Sample, labels, names, names::Labels},
};
use gnudi_promql::METRIC_NAME;
use gnudi_series::points;
use uuid::Uuid;

use crate::{
    api::Call,
    exemplar_store::{StoredExemplar, are_short},
    known_series::{KnownMetric, SeriesKey},
    metadata_store::is_storable,
    place,
};

/// How many errors of a request are reported in full.
const FAULTS_REPORTED_MAX: usize = 10;
/// The maximum length of a series in an error text.
const SERIES_CHARACTERS_MAX: usize = 200;

/// The result of a request.
#[derive(Debug)]
pub struct Stored {
    pub samples: u64,
    pub exemplars: u64,
    /// Why the rest is not stored; empty if all is stored.
    pub faults: String,
    /// How many data points are not stored, or not with all of their series (see [`Gathering::begin_point`]).
    pub refused_points: usize,
}

/// A series of the request.
#[derive(Clone, Copy, Debug)]
pub struct WrittenSeries {
    key: SeriesKey,
    /// Its metric, if the series is known and the caller may post to it.
    metric: Option<MetricId>,
}

impl WrittenSeries {
    pub fn is_known(self) -> bool {
        self.metric.is_some()
    }
}

/// A series that is not in `known_series` yet, and where it is stored.
struct UnknownSeries {
    key: SeriesKey,
    resource: Uuid,
    metric_name: String,
    point: Option<usize>,
}

/// The series of a request read so far.
pub struct Gathering<'c> {
    call: &'c Call<'c>,
    /// Whether `known_series` may be used: not if access depends on a metric's resource.
    uses_known_series: bool,
    points: Vec<Measure>,
    /// The ranges of `points` that belong to each metric.
    known: Vec<(MetricId, Range<usize>)>,
    parcels: Parcels,
    unknown_series: Vec<UnknownSeries>,
    /// By metric name, without what the metadata store has already.
    metadata: HashMap<String, Metadata<'static>>,
    exemplars: Vec<StoredExemplar>,
    samples: u64,
    faults: Vec<String>,
    faults_len: usize,
    /// The data point that the series belongs to.
    point: Option<usize>,
    refused_points: HashSet<usize>,
}

impl<'c> Gathering<'c> {
    pub fn new(call: &'c Call<'c>) -> Self {
        Gathering {
            call,
            uses_known_series: !call.may_be_refused_for_resource(Rule::PostMeasures),
            points: Vec::new(),
            known: Vec::new(),
            parcels: Parcels::default(),
            unknown_series: Vec::new(),
            metadata: HashMap::new(),
            exemplars: Vec::new(),
            samples: 0,
            faults: Vec::new(),
            faults_len: 0,
            point: None,
            refused_points: HashSet::new(),
        }
    }

    /// Begins a data point: the series that are added next belong to it. Of several series one may be refused.
    pub fn begin_point(&mut self, point: Option<usize>) {
        self.point = point;
    }

    /// The key of a series. `labels` are bytes that identify its labels among requests of this form.
    pub fn key(&self, form: u8, labels: &[u8]) -> SeriesKey {
        self.call.api.known_series.key(&self.call.caller.user, form, labels)
    }

    /// Finds the metrics of known series that the caller may post to. One call for all series of a request is
    /// the fastest.
    pub fn find(&self, keys: &[SeriesKey]) -> Vec<WrittenSeries> {
        let unknown = |key: &SeriesKey| WrittenSeries { key: *key, metric: None };
        let mut series: Vec<WrittenSeries> = keys.iter().map(unknown).collect();
        if !self.uses_known_series {
            return series;
        }
        let known_series = &self.call.api.known_series;
        let found = known_series.get(keys).into_iter().enumerate();
        let (places, known): (Vec<usize>, Vec<KnownMetric>) =
            found.filter_map(|(place, known)| Some((place, known?))).unzip();
        let ids: Vec<MetricId> = known.iter().map(|known| known.id).collect();
        self.call.indexer().visit_cached_metrics(&ids, &mut |index, metric| {
            if known_series.is_in_place(known[index], metric)
                && self.call.allows(Rule::PostMeasures, Target::Metric(metric, None))
            {
                series[places[index]].metric = Some(metric.id);
            }
        });
        series
    }

    /// Adds the samples of a series. Returns true if the policy is certainly checked for the metric before they are stored.
    /// False without samples, and if there are only end markers of an unknown series: they are dropped if it does not exist.
    /// `labels` is called only if needed.
    pub fn add<'a>(
        &mut self,
        WrittenSeries { key, metric }: WrittenSeries,
        samples: &[Sample],
        labels: impl Fn() -> Result<Vec<(&'a str, &'a str)>, InvalidLabels>,
    ) -> bool {
        let start = self.points.len();
        if let Some(id) = metric {
            self.add_points(samples, || notation(&labels));
            self.known.push((id, start..self.points.len()));
            return self.points.len() > start;
        }
        match labels().and_then(|labels| labels::check(&labels).map(|()| labels)) {
            Err(error) => {
                self.fault(|| format!("{error}: {}", notation(&labels)));
                false
            }
            Ok(checked) => {
                self.add_points(samples, || notation(&labels));
                let has_values = self.points[start..].iter().any(|measure| !measure.is_end_marker());
                self.add_unknown_series(key, &checked, start);
                has_values
            }
        }
    }

    fn add_points(&mut self, samples: &[Sample], series: impl Fn() -> String) {
        let before = self.points.len();
        for sample in samples {
            match place::measure(sample) {
                Some(measure) => self.points.push(measure),
                None => self.fault(|| format!("timestamp {}: {}", sample.timestamp_ms, series())),
            }
        }
        self.samples += (self.points.len() - before) as u64;
    }

    /// Moves the points from `start` on to the parcel of their series.
    fn add_unknown_series(&mut self, key: SeriesKey, labels: &[(&str, &str)], start: usize) {
        let creator = &self.call.caller.user;
        let points = self.points.drain(start..);
        if points.len() == 0 {
            return;
        }
        let (measures, resource, metric_name) =
            place::place(&mut self.parcels, labels, Labels::Exact, creator).expect("the labels are checked");
        measures.extend(points);
        self.unknown_series.push(UnknownSeries { key, resource, metric_name, point: self.point });
    }

    /// Adds the metadata that was sent with a series of this name whose metric the policy allows (see [`Gathering::add`]).
    pub fn describe(&mut self, series_name: &str, metadata: &Metadata<'_>) {
        self.add_metadata(metadata.family(series_name), metadata);
    }

    /// Adds metadata of a metric that was sent without its series. Ignored if the policy denies the caller a
    /// metric of this name: Prometheus sends the metadata of all metrics, whichever series it is to write.
    pub fn describe_metric(&mut self, name: &str, metadata: &Metadata<'_>) {
        if may_write_own(self.call, name) {
            self.add_metadata(name, metadata);
        }
    }

    fn add_metadata(&mut self, name: &str, metadata: &Metadata<'_>) {
        let is_there = match self.metadata.get(name) {
            Some(added) => added == metadata,
            None => self.call.api.metadata.has(&self.call.caller.user, name, metadata),
        };
        if !is_there && is_storable(name, metadata) {
            self.metadata.insert(name.to_owned(), metadata.clone().into_owned());
        }
    }

    /// Adds exemplars of a series. Invalid ones are ignored. All are ignored if the policy is not checked for the series'
    /// metric anyway (`is_checked`) and denies the caller a metric of the series' name.
    pub fn add_exemplars<'a>(
        &mut self,
        is_checked: bool,
        labels: impl Fn() -> Result<Vec<(&'a str, &'a str)>, InvalidLabels>,
        exemplars: impl ExactSizeIterator<Item = Result<Exemplar<'a>, InvalidLabels>>,
    ) {
        if exemplars.len() == 0 {
            return;
        }
        let Some(series) = labels().ok().filter(|labels| labels::check(labels).is_ok()) else { return };
        let series = gnudi_promql::Labels::new(series);
        if !is_checked && !may_write_own(self.call, series.metric_name()) {
            return;
        }
        let creator: Arc<str> = self.call.caller.user.as_str().into();
        // Check the length before copying: many exemplars may refer to one long text.
        let short = exemplars.flatten().filter(|exemplar| are_short(exemplar.labels.iter().copied()));
        self.exemplars.extend(short.map(|exemplar| StoredExemplar {
            creator: creator.clone(),
            series: series.clone(),
            labels: gnudi_promql::Labels::new(exemplar.labels),
            value: exemplar.value,
            time_ms: exemplar.timestamp_ms,
        }));
    }

    /// Records why a series is not stored.
    pub fn refuse<'a>(
        &mut self,
        why: &str,
        labels: impl Fn() -> Result<Vec<(&'a str, &'a str)>, InvalidLabels>,
    ) {
        self.fault(|| format!("{why}: {}", notation(&labels)));
    }

    fn fault(&mut self, text: impl FnOnce() -> String) {
        self.faults_len += 1;
        self.refused_points.extend(self.point);
        if self.faults.len() < FAULTS_REPORTED_MAX {
            self.faults.push(text());
        }
    }

    /// Stores everything added so far.
    ///
    /// # Errors
    /// Those of [`provision::find_or_make`] and of the log of measures; nothing is stored then.
    pub async fn store(mut self) -> Result<Stored> {
        self.point = None;
        let dropped = drop_unknown_ends(self.call, &mut self.parcels).await?;
        let options = &self.call.api.options;
        let resource_type = place::resource_type();
        let to = Destination {
            resource_type: RESOURCE_TYPE,
            type_to_create: Some(&resource_type),
            archive_policy: options.archive_policy.as_deref(),
        };
        if self.parcels.metrics() > 0 {
            let found = provision::find_or_make(self.call, to, &mut self.parcels).await?;
            self.report(&found.left_out);
            let mut ids = HashMap::new();
            for (parcel, metrics) in self.parcels.iter().zip(&found.metrics) {
                for ((name, measures), metric) in parcel.names().zip(parcel.measures()).zip(metrics) {
                    ids.insert((parcel.id, name), metric.id);
                    let start = self.points.len();
                    self.points.extend_from_slice(measures);
                    self.known.push((metric.id, start..self.points.len()));
                }
            }
            let known_series = &self.call.api.known_series;
            let known = |one: &UnknownSeries| {
                let id = *ids.get(&(one.resource, one.metric_name.as_str()))?;
                Some((one.key, known_series.metric(id, one.resource, &one.metric_name)))
            };
            known_series.insert(self.unknown_series.iter().filter_map(known));
            let is_left_out = |one: &&UnknownSeries| {
                !ids.contains_key(&(one.resource, one.metric_name.as_str()))
                    && !dropped.contains(&(one.resource, one.metric_name.clone()))
            };
            if !found.left_out.is_empty() {
                let left_out = self.unknown_series.iter().filter(is_left_out);
                self.refused_points.extend(left_out.filter_map(|one| one.point));
            }
        }
        if self.known.is_empty() {
            self.call.has_no_items(Rule::PostMeasures);
        }
        for (name, metadata) in mem::take(&mut self.metadata) {
            self.call.api.metadata.put(&self.call.caller.user, &name, metadata);
        }
        let faults = self.reported_faults();
        let refused_points = self.refused_points.len();
        self.call.append(batch(&self.points, self.known)).await?;
        let kept = self.exemplars.into_iter().map(|exemplar| self.call.api.exemplars.put(exemplar));
        let exemplars = kept.filter(|is_kept| *is_kept).count() as u64;
        Ok(Stored { samples: self.samples, exemplars, faults, refused_points })
    }

    /// Reports what is damaged. The policy was not checked for its series.
    fn report(&mut self, left_out: &LeftOut) {
        if left_out.is_empty() {
            return;
        }
        for reason in &left_out.reasons {
            self.fault(|| reason.to_string());
        }
        self.samples -= left_out.measures as u64;
        let call = self.call;
        self.metadata.retain(|name, _| may_write_own(call, name));
        self.exemplars.retain(|exemplar| may_write_own(call, exemplar.series.metric_name()));
    }

    fn reported_faults(&mut self) -> String {
        let mut faults = mem::take(&mut self.faults);
        let omitted = self.faults_len - faults.len();
        if omitted > 0 {
            faults.push(format!("and {omitted} more"));
        }
        faults.join("\n")
    }
}

/// Whether the policy allows the caller measures of a metric of this name that the caller created.
fn may_write_own(call: &Call<'_>, name: &str) -> bool {
    let creator = call.caller.user.as_str();
    let (user_id, project_id) = creator.split_once(':').unwrap_or((creator, ""));
    let own = [
        ("name", Some(name)),
        ("creator", Some(creator)),
        ("created_by_user_id", Some(user_id)),
        ("created_by_project_id", Some(project_id)),
    ];
    call.allows(Rule::PostMeasures, Target::Given(&own))
}

/// Drops end markers of unknown series, and returns these by resource and name: they do not create metrics.
pub async fn drop_unknown_ends(call: &Call<'_>, parcels: &mut Parcels) -> Result<HashSet<(Uuid, String)>> {
    let is_end = |measures: &[Measure]| measures.iter().all(Measure::is_end_marker);
    let ends: Vec<(Uuid, &str)> = parcels
        .iter()
        .flat_map(|parcel| parcel.names().zip(parcel.measures()).map(|(name, all)| (parcel.id, name, all)))
        .filter(|(_, _, measures)| is_end(measures))
        .map(|(resource, name, _)| (resource, name))
        .collect();
    if ends.is_empty() {
        return Ok(HashSet::new());
    }
    let found = provision::named_metrics(call, &ends).await?;
    let unknown = ends.iter().zip(found).filter(|(_, metric)| matches!(metric, Ok(None)));
    let unknown: HashSet<(Uuid, String)> =
        unknown.map(|((resource, name), _)| (*resource, (*name).to_owned())).collect();
    parcels.retain(|resource, name, measures| {
        !is_end(measures) || !unknown.contains(&(resource, name.to_owned()))
    });
    Ok(unknown)
}

/// A series in an error text.
fn notation<'a>(labels: impl Fn() -> Result<Vec<(&'a str, &'a str)>, InvalidLabels>) -> String {
    let Ok(labels) = labels() else { return "a series".to_owned() };
    let text = names::notation(&labels, |_, _| true).unwrap_or_else(|| {
        let nameless = [&[(METRIC_NAME, "?")], labels.as_slice()].concat();
        names::notation(&nameless, |_, _| true).unwrap_or_default()
    });
    match text.char_indices().nth(SERIES_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// A batch in which each metric occurs once; its points keep their order.
fn batch(points: &[Measure], mut metrics: Vec<(MetricId, Range<usize>)>) -> Batch {
    metrics.retain(|(_, range)| !range.is_empty());
    metrics.sort_by_key(|(id, _)| *id);
    let mut batch = Batch::default();
    let mut joined = Vec::new();
    for parts in metrics.chunk_by(|(one, _), (other, _)| one == other) {
        let measures = match parts {
            [(_, range)] => &points[range.clone()],
            parts => {
                joined.clear();
                for (_, range) in parts {
                    joined.extend_from_slice(&points[range.clone()]);
                }
                joined.as_slice()
            }
        };
        batch.push(parts[0].0, measures.len() as u32, |out| points::encode(measures, out));
    }
    batch
}

#[cfg(test)]
mod tests {
    use gnudi_model::Timestamp;

    use super::*;

    #[test]
    fn a_metric_is_in_a_batch_once() {
        let id = |number| MetricId(Uuid::from_u128(number));
        let points: Vec<Measure> =
            (0..6).map(|number| Measure { timestamp: Timestamp(number), value: number as f64 }).collect();
        let batch = batch(&points, vec![(id(2), 4..6), (id(1), 0..1), (id(3), 2..2), (id(2), 1..4)]);
        let read: Vec<(MetricId, Vec<i64>)> = batch
            .entries
            .iter()
            .map(|entry| {
                let mut measures = Vec::new();
                points::decode(&batch.bytes[entry.start..entry.end], &mut measures).unwrap();
                assert_eq!(measures.len(), entry.measures as usize);
                (entry.metric, measures.iter().map(|measure| measure.timestamp.0).collect())
            })
            .collect();
        assert_eq!(read, [(id(1), vec![0]), (id(2), vec![4, 5, 1, 2, 3])]);
    }
}
