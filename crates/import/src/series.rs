//! The series of some metrics: read at once, made heads and blocks of, and written together.

use std::{collections::HashMap, sync::Arc};

use gnudi_drivers::aggregates::{BlockKey, Fence, MetricWrite};
use gnudi_indexer::NewMetric;
use gnudi_model::{AggregationMethod, Measure, MetricId, Timespan, Timestamp};
use gnudi_series::head::{Head, ImportedGrain, Layout};

use crate::{
    ImportError, Report, Target, carbonara,
    source::{Incoming, SourceError, SplitKey, Storage},
};

pub(crate) const METRICS_AT_ONCE: usize = 100;

/// How often a metric is read again that Gnocchi works on meanwhile.
const READS_MAX: usize = 100;

/// What series are read from.
#[derive(Clone)]
pub(crate) struct SeriesSource {
    pub storage: Arc<dyn Storage>,
    pub incoming: Arc<dyn Incoming>,
    /// By the names of archive policies.
    pub layouts: Arc<HashMap<String, Layout>>,
}

/// What became of one metric.
#[derive(Default)]
struct Outcome {
    /// Nothing where nothing has changed.
    write: Option<MetricWrite>,
    is_continued: bool,
    buckets: u64,
    measures: u64,
    finalised: u64,
    skipped: Vec<String>,
}

/// Writes what Gnocchi has of metrics that are in the index. Those that an earlier import has written are brought up to date.
pub(crate) async fn import(
    source: &SeriesSource,
    target: Target<'_>,
    metrics: &[NewMetric],
    report: &mut Report,
) -> Result<(), ImportError> {
    let ids: Vec<MetricId> = metrics.iter().map(|metric| metric.id).collect();
    let heads = target.aggregates.read_heads(&ids).await;
    let mut reads = Vec::with_capacity(metrics.len());
    for (metric, head) in metrics.iter().zip(heads) {
        let head = head?;
        let (source, id, policy) = (source.clone(), metric.id, metric.archive_policy_name.clone());
        reads.push(tokio::spawn(async move {
            let layout = &source.layouts[&policy];
            read(&source, id, layout, head.as_deref()).await
        }));
    }
    let mut writes = Vec::new();
    for read in reads {
        let outcome = read.await.expect("reading a metric does not panic")?;
        report.metrics_unchanged += u64::from(outcome.write.is_none() && outcome.is_continued);
        report.metrics_continued += u64::from(outcome.write.is_some() && outcome.is_continued);
        report.buckets += outcome.buckets;
        report.measures += outcome.measures;
        report.buckets_finalised += outcome.finalised;
        report.skipped.extend(outcome.skipped);
        writes.extend(outcome.write);
    }
    let written = target.aggregates.write(Fence::EVERYTHING, writes).await;
    Ok(written.into_iter().collect::<Result<(), _>>()?)
}

/// What is to be written of a metric whose head is `stored`.
async fn read(
    source: &SeriesSource,
    metric: MetricId,
    layout: &Layout,
    stored: Option<&[u8]>,
) -> Result<Outcome, ImportError> {
    let mut outcome = Outcome::default();
    let earlier = match stored.map(Head::decode).transpose() {
        Ok(head) => head,
        Err(error) => return Err(ImportError::Head { metric: metric.0, reason: error.to_string() }),
    };
    if earlier.as_ref().is_some_and(|head| head.applied() > 0) {
        outcome.skipped.push(format!("metric {}: it got measures after its import: left as it is", metric.0));
        return Ok(outcome);
    }
    outcome.is_continued = earlier.is_some();
    // Waiting measures are read before the series: a worker of Gnocchi moves measures from there into the series, and those that are
    // read in both places change nothing.
    let waiting = waiting(source, metric, &mut outcome.skipped).await?;
    let mut head = current(source, metric, layout, earlier, &mut outcome).await?;
    let mut missing = head.missing(&waiting);
    outcome.measures += missing.len() as u64;
    head.fold_import(layout, &mut missing);
    let blocks = head.take_sealed(layout).into_iter().map(|block| {
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
    Ok(outcome)
}

/// The measures that wait, whatever their requests.
async fn waiting(
    source: &SeriesSource,
    metric: MetricId,
    skipped: &mut Vec<String>,
) -> Result<Vec<Measure>, ImportError> {
    let mut measures = Vec::new();
    for stored in source.incoming.waiting(metric).await.map_err(ImportError::Incoming)? {
        match carbonara::waiting(&stored.bytes) {
            Ok(more) => measures.extend(more),
            Err(damaged) => skipped.push(format!("{}: {damaged}", stored.place)),
        }
    }
    Ok(measures)
}

/// The head of what is in Gnocchi's storage.
async fn current(
    source: &SeriesSource,
    metric: MetricId,
    layout: &Layout,
    mut earlier: Option<Head>,
    outcome: &mut Outcome,
) -> Result<Head, ImportError> {
    let storage = &*source.storage;
    let mut stored = storage.points(metric).await?;
    for _ in 0..READS_MAX {
        let mut skipped = Vec::new();
        let points = match stored.as_deref().map(carbonara::points) {
            Some(Ok(points)) => points,
            Some(Err(damaged)) => {
                skipped.push(format!("{}: {damaged}", storage.points_place(metric)));
                Vec::new()
            }
            None => Vec::new(),
        };
        if let Some(mut head) = earlier.take_if(|head| head.follows(layout, &points)) {
            let mut missing = head.missing(&points);
            outcome.measures += missing.len() as u64;
            head.fold_import(layout, &mut missing);
            outcome.skipped.extend(skipped);
            return Ok(head);
        }
        let grains = read_splits(storage, metric, layout, earlier.as_ref(), &mut skipped).await?;
        // A worker of Gnocchi writes the points after the splits: both are of one pass if these are the same before and after.
        let after = storage.points(metric).await?;
        if stored != after {
            stored = after;
            continue;
        }
        outcome.skipped.extend(skipped);
        outcome.buckets += grains.iter().map(|grain| grain.starts.len() as u64).sum::<u64>();
        let (head, taken) = Head::import(layout, earlier.as_ref(), points, &grains);
        outcome.finalised += taken.finalised as u64;
        if taken.incomplete > 0 {
            outcome.skipped.push(format!("metric {}: {} buckets lack a value", metric.0, taken.incomplete));
        }
        return Ok(head);
    }
    let place = storage.points_place(metric);
    Err(SourceError::Other(format!("{place}: it kept changing while it was read")).into())
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

/// The columns of all methods as rows of one granularity; each column is oldest first.
fn joined(granularity: Timespan, columns: &[Vec<(Timestamp, f64)>]) -> ImportedGrain {
    let mut starts: Vec<Timestamp> = columns.iter().flatten().map(|(start, _)| *start).collect();
    starts.sort_unstable();
    starts.dedup();
    let filled = |column: &Vec<(Timestamp, f64)>| {
        let mut values = column.iter().peekable();
        starts.iter().map(|start| Some(values.next_if(|(of, _)| of == start)?.1)).collect()
    };
    let columns = columns.iter().map(filled).collect();
    ImportedGrain { granularity, starts, columns }
}
