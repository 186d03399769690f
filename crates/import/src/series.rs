//! The series of some metrics: read at once, made heads and blocks of, and written together.

use std::collections::HashMap;

use gnudi_drivers::{
    aggregates::{BlockKey, Fence, MetricWrite},
    incoming::Batch,
};
use gnudi_model::MetricId;
use gnudi_series::{
    head::{Head, Layout},
    points,
};

use crate::{
    ImportError, Report, Target,
    files::{FileIncoming, FileStorage, StoredSeries},
    index::SourceMetric,
};

pub(crate) const METRICS_AT_ONCE: usize = 100;

/// Writes what a storage has of metrics that are in the index; those that have a head are left as they are.
pub(crate) async fn import(
    (storage, incoming): (&FileStorage, &FileIncoming),
    target: Target<'_>,
    layouts: &HashMap<&str, Layout>,
    metrics: &[SourceMetric],
    report: &mut Report,
) -> Result<(), ImportError> {
    let ids: Vec<MetricId> = metrics.iter().map(|metric| metric.id).collect();
    let heads = target.aggregates.read_heads(&ids).await;
    let (mut writes, mut batch) = (Vec::new(), Batch::default());
    for (metric, head) in metrics.iter().zip(heads) {
        if head?.is_some() {
            report.metrics_there += 1;
            continue;
        }
        let layout = layouts
            .get(metric.archive_policy_name.as_str())
            .expect("the index refers to policies that are there");
        // What waits is read first: a worker of Gnocchi moves measures from there into the series, so that they come twice at worst.
        let waiting = incoming.read(metric.id, &mut report.skipped)?;
        let stored = storage.read(metric.id, layout)?;
        for some in waiting.chunks(points::POINTS_MAX) {
            batch.push(metric.id, some.len() as u32, |out| points::encode(some, out));
        }
        // Of a metric with nothing but measures that wait, too: the head tells the next import that it has these.
        if !waiting.is_empty() || !stored.is_empty() {
            writes.push(write_of(metric.id, layout, stored, report));
        }
    }
    report.measures += batch.measures();
    // First, so that they are there whenever the head is; measures that come twice change nothing.
    if !batch.entries.is_empty() {
        target.incoming.append(batch).await?;
    }
    let written = target.aggregates.write(Fence::EVERYTHING, writes).await;
    Ok(written.into_iter().collect::<Result<(), _>>()?)
}

fn write_of(metric: MetricId, layout: &Layout, stored: StoredSeries, report: &mut Report) -> MetricWrite {
    report.skipped.extend(stored.skipped);
    report.buckets += stored.grains.iter().map(|grain| grain.starts.len() as u64).sum::<u64>();
    let (mut head, outcome) = Head::import(layout, stored.points, &stored.grains);
    report.buckets_finalised += outcome.finalised as u64;
    if outcome.incomplete > 0 {
        report.skipped.push(format!("metric {}: {} buckets lack a value", metric.0, outcome.incomplete));
    }
    let blocks = head.take_sealed(layout).into_iter().map(|block| {
        let key = BlockKey { metric, granularity: block.granularity, first: block.first, last: block.last };
        (key, block.bytes.into())
    });
    let blocks = blocks.collect();
    let mut bytes = Vec::new();
    head.encode(&mut bytes);
    MetricWrite { metric, blocks, expired: Vec::new(), head: bytes.into() }
}
