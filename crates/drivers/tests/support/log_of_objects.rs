//! Logs of objects in memory, like several processes' clients.

use std::{sync::Arc, time::Duration};

use gnudi_drivers::{
    OpenError,
    incoming::{
        Append as _, Batch, Consume as _, Position, Record,
        objects::{ObjectIncoming, ObjectIncomingOptions},
    },
    objects::{Objects, memory::MemoryObjects},
};
use gnudi_model::{MetricId, Sack, SackCount};
use uuid::Uuid;

pub const CLUSTER: Uuid = Uuid::from_u128(1);

/// Trimmed objects are deleted at once, and nothing is cached.
pub fn strict(sacks: u16) -> ObjectIncomingOptions {
    ObjectIncomingOptions {
        sack_count: SackCount(sacks.try_into().unwrap()),
        keep: Duration::ZERO,
        mark_delay: Duration::ZERO,
        pending_age_max: Duration::ZERO,
        look_delay_idle: Duration::from_millis(20),
        timeout: Duration::from_secs(2),
        missing_wait: Duration::from_millis(100),
        ..ObjectIncomingOptions::default()
    }
}

/// Like [`strict`], but polls the log only when it must, like a suspended process.
pub fn drowsy(sacks: u16) -> ObjectIncomingOptions {
    let never = Duration::from_hours(1);
    ObjectIncomingOptions {
        look_delay_idle: never,
        look_delay_min: never,
        look_delay_max: never,
        ..strict(sacks)
    }
}

pub async fn open(objects: &MemoryObjects, options: ObjectIncomingOptions) -> Arc<ObjectIncoming> {
    try_open(objects, CLUSTER, options).await.unwrap()
}

pub async fn try_open(
    objects: &MemoryObjects,
    cluster: Uuid,
    options: ObjectIncomingOptions,
) -> Result<Arc<ObjectIncoming>, OpenError> {
    let objects: Arc<dyn Objects> = Arc::new(objects.clone());
    ObjectIncoming::open(objects, None, cluster, Uuid::new_v4(), options).await
}

pub fn metric(id: u128) -> MetricId {
    MetricId(Uuid::from_u128(id))
}

/// A batch of `(metric, text)`, with a measure each.
pub fn batch(entries: &[(u128, &str)]) -> Batch {
    let mut batch = Batch::default();
    for (id, points) in entries {
        batch.push(metric(*id), 1, |out| out.extend_from_slice(points.as_bytes()));
    }
    batch
}

/// Appends records of metric 1, one by one.
pub async fn append_each(log: &ObjectIncoming, texts: &[&str]) {
    for text in texts {
        log.append(batch(&[(1, text)])).await.unwrap();
    }
}

/// The names of the log's objects that are there.
pub fn log_names(objects: &MemoryObjects) -> Vec<String> {
    objects.contents().into_keys().filter(|name| name.contains("log/")).collect()
}

pub fn text(record: &Record) -> &str {
    std::str::from_utf8(&record.points).unwrap()
}

/// All waiting records, in the order of processing, after a refresh.
pub async fn all(log: &ObjectIncoming) -> Vec<String> {
    let mut texts = Vec::new();
    log.backlog().await.unwrap();
    let numbering = log.numbering();
    for sack in numbering.units().iter().flat_map(|unit| numbering.sacks_of_unit(unit)) {
        let pending = log.pending(sack, Position(0), usize::MAX).await.unwrap();
        texts.extend(pending.records.iter().map(|record| text(record).to_owned()));
    }
    texts
}

/// Acknowledges and trims everything that waits.
pub async fn work_off(log: &ObjectIncoming) {
    let numbering = log.numbering();
    let sacks: Vec<Sack> = numbering.units().iter().flat_map(|unit| numbering.sacks_of_unit(unit)).collect();
    let positions = log.positions(&sacks).await.unwrap();
    let known: Vec<_> = sacks.into_iter().zip(positions.iter().map(|positions| positions.newest)).collect();
    for (sack, newest) in &known {
        log.acknowledge(*sack, *newest).await.unwrap();
    }
    log.trim(&known).await.unwrap();
}
