//! Imports the series of some metrics: reads them concurrently, converts them to heads and blocks, and writes them
//! together.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use gnudi_drivers::aggregates::{BlockKey, Fence, MetricWrite};
use gnudi_indexer::NewMetric;
use gnudi_model::{AggregationMethod, ArchivePolicy, MetricId, Timespan, Timestamp};
use gnudi_series::head::{Head, ImportedGrain, Layout};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::{
    ImportError, Report, Target, carbonara, groups,
    source::{Incoming, SourceError, SplitKey, Storage, StoredMeasures},
};

/// The maximum number of metrics that are read and written together, and of their values in Gnocchi, which take about 40
/// bytes each.
const METRICS_AT_ONCE: usize = 100;
const VALUES_AT_ONCE: u64 = 32 << 20;
/// The number of values assumed for a granularity that is kept without limit.
const ENDLESS_BUCKETS: u64 = 100_000;

/// Pause between two reads of a changing metric.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum reads of a metric that keeps changing.
const READS_MAX: usize = 20;

/// The source of series.
pub(crate) struct SeriesSource {
    pub storage: Arc<dyn Storage>,
    pub incoming: Arc<dyn Incoming>,
    /// By archive policy name.
    pub layouts: HashMap<String, Layout>,
    /// By archive policy name: see [`values_of`].
    pub values: HashMap<String, u64>,
    /// Metrics with a backlog.
    pub backlog: HashSet<MetricId>,
    /// Whether to import the backlog, as if Gnocchi processed all of it in one pass. Wrong while more measures may
    /// arrive: which late points Gnocchi drops depends on what it processes together.
    pub includes_backlog: bool,
    /// Pause between two reads of a metric that gnocchi-metricd is processing.
    pub pause: Duration,
    /// Whether to accept buckets that do not follow from the points although there is a backlog.
    pub accepts_inconsistent: AtomicBool,
}

impl SeriesSource {
    pub fn new(
        storage: Arc<dyn Storage>,
        incoming: Arc<dyn Incoming>,
        policies: &[ArchivePolicy],
        backlog: HashSet<MetricId>,
        includes_backlog: bool,
    ) -> Self {
        SeriesSource {
            storage,
            incoming,
            layouts: policies.iter().map(|policy| (policy.name.clone(), Layout::of(policy))).collect(),
            values: policies.iter().map(|policy| (policy.name.clone(), values_of(policy))).collect(),
            backlog,
            includes_backlog,
            pause: PAUSE,
            accepts_inconsistent: AtomicBool::new(false),
        }
    }
}

/// How many values Gnocchi may have of a metric of this policy.
fn values_of(policy: &ArchivePolicy) -> u64 {
    let buckets = policy.definition.iter().map(|item| item.points.unwrap_or(ENDLESS_BUCKETS));
    let methods = policy.aggregation_methods.len() as u64;
    buckets.fold(0, u64::saturating_add).saturating_mul(methods)
}

/// Splits metrics into groups that fit into memory. A metric that does not fit is a group of its own.
pub(crate) fn groups<'a>(source: &SeriesSource, metrics: &'a [NewMetric]) -> Vec<&'a [NewMetric]> {
    let values =
        |metric: &NewMetric| source.values.get(&metric.archive_policy_name).copied().unwrap_or_default();
    groups::groups(metrics, METRICS_AT_ONCE, VALUES_AT_ONCE, values)
}

/// The result for one metric.
#[derive(Default)]
struct Outcome {
    /// Whether Gnocchi's storage has a series of it.
    has_series: bool,
    /// `None` if nothing has changed.
    write: Option<MetricWrite>,
    is_continued: bool,
    buckets: u64,
    measures: u64,
    finalised: u64,
    /// The time of the newest measure of the backlog, if it is imported.
    newest_waiting: Option<Timestamp>,
    /// Whether a later round must read it again: it has a backlog, which Gnocchi may be processing, or its points are gone.
    is_waited_for: bool,
    skipped: Vec<String>,
}

/// The result for some metrics.
#[derive(Default)]
pub(crate) struct Imported {
    /// Whether Gnocchi's storage has a series of one of them.
    pub has_series: bool,
    /// Completely imported: without new measures there is nothing left to import.
    pub complete: Vec<MetricId>,
    /// Being processed by Gnocchi: nothing was written.
    pub in_motion: Vec<NewMetric>,
    /// A part of their data would be left out: nothing was written ([`Incomplete::Held`]).
    pub held: Vec<NewMetric>,
    /// What was left out of metrics, and why.
    pub skipped: Vec<(MetricId, String)>,
    /// Resources, each with the time of a measure of the backlog of one of its metrics.
    pub measured: Vec<(Uuid, Timestamp)>,
}

/// What to do with metrics of which a part is left out. A later import takes a written metric for complete. So an import
/// writes such metrics only shortly before it reports them, in case it is killed in between.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Incomplete {
    /// Leave them to a later call.
    Held,
    Written,
}

/// Reads in progress.
pub(crate) struct Reads {
    metrics: Vec<NewMetric>,
    outcomes: Vec<JoinHandle<Result<Option<Outcome>, ImportError>>>,
}

/// Starts to read metrics that are in the index. Those that an earlier import has written are updated.
pub(crate) async fn begin(
    source: &Arc<SeriesSource>,
    target: Target<'_>,
    metrics: Vec<NewMetric>,
) -> Result<Reads, ImportError> {
    let ids: Vec<MetricId> = metrics.iter().map(|metric| metric.id).collect();
    let heads = target.aggregates.read_heads(&ids).await;
    let mut outcomes = Vec::with_capacity(metrics.len());
    for (metric, head) in metrics.iter().zip(heads) {
        let head = head?;
        let (source, id, policy) = (source.clone(), metric.id, metric.archive_policy_name.clone());
        outcomes.push(tokio::spawn(async move {
            let layout = &source.layouts[&policy];
            read(&source, id, layout, head.as_deref()).await
        }));
    }
    Ok(Reads { metrics, outcomes })
}

impl Reads {
    /// Writes the results of the reads.
    pub async fn finish(
        self,
        target: Target<'_>,
        incomplete: Incomplete,
        report: &mut Report,
    ) -> Result<Imported, ImportError> {
        let (mut writes, mut imported) = (Vec::new(), Imported::default());
        for (read, metric) in self.outcomes.into_iter().zip(self.metrics) {
            let Some(outcome) = read.await.expect("reading a metric does not panic")? else {
                imported.has_series = true;
                imported.in_motion.push(metric);
                continue;
            };
            imported.has_series |= outcome.has_series;
            let is_incomplete = outcome.write.is_some() && !outcome.skipped.is_empty();
            if is_incomplete && incomplete == Incomplete::Held {
                imported.held.push(metric);
                continue;
            }
            if !outcome.is_waited_for {
                imported.complete.push(metric.id);
            }
            imported.measured.extend(metric.resource_id.zip(outcome.newest_waiting));
            report.metrics_unchanged += u64::from(outcome.write.is_none() && outcome.is_continued);
            report.metrics_continued += u64::from(outcome.write.is_some() && outcome.is_continued);
            report.buckets += outcome.buckets;
            report.measures += outcome.measures;
            report.buckets_finalised += outcome.finalised;
            imported.skipped.extend(outcome.skipped.iter().map(|reason| (metric.id, reason.clone())));
            report.skipped.extend(outcome.skipped);
            writes.extend(outcome.write);
        }
        let written = target.aggregates.write(Fence::EVERYTHING, writes).await;
        written.into_iter().collect::<Result<(), _>>()?;
        Ok(imported)
    }
}

/// The data to write for a metric whose head is `stored`; `None` while Gnocchi is processing it.
async fn read(
    source: &SeriesSource,
    metric: MetricId,
    layout: &Layout,
    stored: Option<&[u8]>,
) -> Result<Option<Outcome>, ImportError> {
    let earlier = match stored.map(Head::decode).transpose() {
        Ok(head) => head,
        Err(error) => return Err(ImportError::Head { metric: metric.0, reason: error.to_string() }),
    };
    if earlier.as_ref().is_some_and(|head| head.applied() > 0) {
        let reason = format!("metric {}: it got measures after its import: left as it is", metric.0);
        return Ok(Some(Outcome { skipped: vec![reason], ..Outcome::default() }));
    }
    let Some(reading) = read_consistently(source, metric, layout, earlier.as_ref()).await? else {
        return Ok(None);
    };
    let Reading { mut head, waiting, mut outcome } = reading;
    outcome.is_continued = stored.is_some();
    let mut measures = Vec::new();
    for stored in waiting {
        match carbonara::measures(&stored.bytes) {
            Ok(more) => measures.extend(more),
            Err(damaged) => outcome.skipped.push(format!("{}: {damaged}", stored.place)),
        }
    }
    outcome.newest_waiting = measures.iter().map(|measure| measure.timestamp).max();
    outcome.measures += head.fold_waiting(layout, measures) as u64;
    let blocks = head.take_sealed().into_iter().map(|block| {
        let key = BlockKey { metric, granularity: block.granularity, first: block.first, last: block.last };
        (key, block.bytes.into())
    });
    let blocks = blocks.collect();
    let mut bytes = Vec::new();
    head.encode(&mut bytes);
    let is_changed = match stored {
        Some(stored) => stored != bytes,
        None => head.last().is_some() || outcome.buckets > 0,
    };
    if is_changed {
        outcome.write = Some(MetricWrite { metric, blocks, expired: Vec::new(), head: bytes.into() });
    }
    Ok(Some(outcome))
}

/// Gnocchi's data of a metric.
struct Reading {
    /// From its storage.
    head: Head,
    /// The backlog, if it is imported.
    waiting: Vec<StoredMeasures>,
    outcome: Outcome,
}

/// Reads a consistent state of a metric; `None` if it kept changing, or a pass of gnocchi-metricd may be half written.
///
/// A pass of gnocchi-metricd writes splits first, then the points, and finally removes the measures from incoming. So a
/// read is consistent if the points are the same before and after, the backlog seen before is still there, and either
/// the points give the stored buckets, or there is no backlog: a pass that has written some of its splits still has its
/// measures in incoming.
async fn read_consistently(
    source: &SeriesSource,
    metric: MetricId,
    layout: &Layout,
    earlier: Option<&Head>,
) -> Result<Option<Reading>, ImportError> {
    let is_in_backlog = source.backlog.contains(&metric);
    let waiting_now = async || source.incoming.backlog_of(metric).await.map_err(ImportError::Incoming);
    for _ in 0..READS_MAX {
        let waiting = if is_in_backlog { waiting_now().await? } else { Vec::new() };
        let points = source.storage.points(metric).await?;
        let left = earlier.filter(|head| points.is_none() && !is_of_backlog(head, &waiting));
        let (head, mut outcome) = match left {
            Some(head) => (head.clone(), gone(source, metric)),
            None => read_storage(source, metric, layout, earlier, points.as_deref()).await?,
        };
        let is_doubtful = outcome.finalised > 0 || !outcome.skipped.is_empty();
        let still_waiting = if is_in_backlog || is_doubtful { waiting_now().await? } else { Vec::new() };
        if still_waiting.starts_with(&waiting) && points == source.storage.points(metric).await? {
            let may_be_in_pass = is_doubtful && !still_waiting.is_empty();
            let is_taken = !may_be_in_pass || source.accepts_inconsistent.load(Ordering::Relaxed);
            outcome.is_waited_for |= !waiting.is_empty();
            outcome.has_series = points.is_some();
            let waiting = if source.includes_backlog && left.is_none() { waiting } else { Vec::new() };
            return Ok(is_taken.then_some(Reading { head, waiting, outcome }));
        }
        tokio::time::sleep(source.pause).await;
    }
    Ok(None)
}

/// Whether the head's newest point is a measure of the backlog: an earlier import took it from there, and Gnocchi has not
/// processed it yet.
fn is_of_backlog(head: &Head, waiting: &[StoredMeasures]) -> bool {
    let Some(last) = head.last() else { return true };
    let has_last = |stored: &StoredMeasures| {
        let measures = carbonara::measures(&stored.bytes);
        measures.is_ok_and(|measures| measures.iter().any(|measure| measure.timestamp == last))
    };
    waiting.iter().any(has_last)
}

/// The outcome for a metric that had points in an earlier round, and has none now. Gnocchi keeps points as long as their
/// metric. So the metric was just deleted, which the next round finds, or the storage is not available. The last round has
/// no next one, and reports the metric.
fn gone(source: &SeriesSource, metric: MetricId) -> Outcome {
    let place = source.storage.points_place(metric);
    let reason = || format!("{place}: gone: the metric is left as an earlier round imported it");
    let skipped = source.includes_backlog.then(reason).into_iter().collect();
    Outcome { is_waited_for: true, skipped, ..Outcome::default() }
}

/// The head for the data in Gnocchi's storage.
async fn read_storage(
    source: &SeriesSource,
    metric: MetricId,
    layout: &Layout,
    earlier: Option<&Head>,
    points: Option<&[u8]>,
) -> Result<(Head, Outcome), ImportError> {
    let storage = &*source.storage;
    let mut outcome = Outcome::default();
    let points = match points.map(carbonara::points) {
        Some(Ok(points)) => points,
        Some(Err(damaged)) => {
            outcome.skipped.push(format!("{}: {damaged}", storage.points_place(metric)));
            Vec::new()
        }
        None => Vec::new(),
    };
    if let Some(head) = earlier.filter(|head| head.follows(layout, &points)) {
        let mut head = head.clone();
        let mut missing = head.missing(&points);
        outcome.measures += missing.len() as u64;
        head.fold_import(layout, &mut missing);
        return Ok((head, outcome));
    }
    let grains = read_splits(storage, metric, layout, earlier, &mut outcome.skipped).await?;
    outcome.buckets = grains.iter().map(|grain| grain.starts.len() as u64).sum();
    let (head, taken) = Head::import(layout, earlier, points, &grains);
    outcome.finalised = taken.finalised as u64;
    if taken.incomplete > 0 {
        outcome.skipped.push(format!("metric {}: {} buckets lack a value", metric.0, taken.incomplete));
    }
    Ok((head, outcome))
}

/// The buckets that an earlier import has not sealed.
async fn read_splits(
    storage: &dyn Storage,
    metric: MetricId,
    layout: &Layout,
    earlier: Option<&Head>,
    skipped: &mut Vec<String>,
) -> Result<Vec<ImportedGrain>, SourceError> {
    let from: Vec<(Timespan, Timestamp)> = layout
        .granularities()
        .map(|granularity| {
            (granularity, earlier.map_or(Timestamp(i64::MIN), |head| head.import_from(granularity)))
        })
        .collect();
    let wanted = |key: &SplitKey| {
        let end = key.granularity.0.saturating_mul(carbonara::BUCKETS_MAX).saturating_add(key.start.0);
        layout.methods().contains(&key.method)
            && from.iter().any(|(granularity, from)| *granularity == key.granularity && end > from.0)
    };
    let mut splits = storage.splits(metric, &wanted).await?;
    splits.sort_unstable_by_key(|split| split.key);
    let mut buckets: HashMap<(Timespan, AggregationMethod), Vec<(Timestamp, f64)>> = HashMap::new();
    for split in splits {
        let SplitKey { method, granularity, start } = split.key;
        match carbonara::split(&split.bytes, start, granularity) {
            Ok(more) => buckets.entry((granularity, method)).or_default().extend(more),
            Err(damaged) => skipped.push(format!("{}: {damaged}", split.place)),
        }
    }
    let grain = |(granularity, from): &(Timespan, Timestamp)| {
        let column = |method: &AggregationMethod| {
            let mut column = buckets.remove(&(*granularity, *method)).unwrap_or_default();
            column.retain(|(start, _)| start >= from);
            column
        };
        joined(*granularity, &layout.methods().iter().map(column).collect::<Vec<_>>())
    };
    Ok(from.iter().map(grain).collect())
}

/// Joins the columns of all methods to rows of one granularity; each column is oldest first. Of a bucket's values in a
/// column the first counts. (Gnocchi counts buckets of less than 100 ms in double precision, and may store one as the
/// bucket before it.)
fn joined(granularity: Timespan, columns: &[Vec<(Timestamp, f64)>]) -> ImportedGrain {
    let mut starts: Vec<Timestamp> = columns.iter().flatten().map(|(start, _)| *start).collect();
    starts.sort_unstable();
    starts.dedup();
    let filled = |column: &Vec<(Timestamp, f64)>| {
        let mut values = column.iter().peekable();
        let value_at = |start: &Timestamp| {
            while values.next_if(|(of, _)| of < start).is_some() {}
            Some(values.next_if(|(of, _)| of == start)?.1)
        };
        starts.iter().map(value_at).collect()
    };
    let columns = columns.iter().map(filled).collect();
    ImportedGrain { granularity, starts, columns }
}

#[cfg(test)]
mod tests;
