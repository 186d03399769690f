//! The local stores on a simulated disk, with files so small that a test fills several.

use std::{
    num::NonZeroU16,
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use gnudi_drivers::{
    OpenError,
    aggregates::local::{LocalAggregates, LocalAggregatesOptions},
    incoming::{
        Append as _, Batch, Consume as _, IncomingError, Position,
        log::{LocalIncoming, LocalIncomingOptions},
    },
};
use gnudi_model::{Sack, SackCount, SackId};

use super::{aggregate_items::metric, sim_disk::SimDisk};

/// The sack of a log that has only one.
pub const ONLY_SACK: Sack = Sack { count: SackCount(NonZeroU16::MIN), id: SackId(0) };

/// A run is made at this many bytes of the log, to which all heads go.
pub fn small_aggregates(recent_bytes_max: u64) -> LocalAggregatesOptions {
    LocalAggregatesOptions {
        segment_bytes: 1 << 16,
        recent_bytes_max,
        dirty_bytes_max: 0,
        spare_segments_max: 2,
        ..LocalAggregatesOptions::default()
    }
}

pub fn open_aggregates(
    disk: &SimDisk,
    options: &LocalAggregatesOptions,
) -> Result<Arc<LocalAggregates>, OpenError> {
    LocalAggregates::open_on(Arc::new(disk.clone()), Path::new("/aggregates"), options)
}

/// The files whose names end so, sorted.
pub fn files(disk: &SimDisk, end: &str) -> Vec<PathBuf> {
    disk.paths().into_iter().filter(|path| path.to_str().unwrap().ends_with(end)).collect()
}

/// Nothing is held in memory: what is on the disk is read.
pub fn small_log(sacks: u16) -> LocalIncomingOptions {
    let sack_count = SackCount(sacks.try_into().unwrap());
    LocalIncomingOptions {
        sack_count,
        segment_bytes: 1 << 16,
        held_bytes_max: 0,
        ..LocalIncomingOptions::default()
    }
}

pub fn open_log(disk: &SimDisk, options: &LocalIncomingOptions) -> Result<Arc<LocalIncoming>, OpenError> {
    LocalIncoming::open_on(Arc::new(disk.clone()), Path::new("/data/incoming"), options)
}

/// Appends an entry of this length, with as many measures as its number.
pub async fn append(log: &LocalIncoming, number: u32, bytes: usize) -> Result<(), IncomingError> {
    let mut batch = Batch::default();
    batch.push(metric(number as usize), number, |out| out.resize(bytes, number as u8));
    log.append(batch).await
}

/// Appends entries of this length with these numbers, one by one.
pub async fn append_each(log: &LocalIncoming, numbers: impl IntoIterator<Item = u32>, bytes: usize) {
    for number in numbers {
        append(log, number, bytes).await.unwrap();
    }
}

/// Ends the disk's errors while the test waits for a read.
pub fn heal_soon(disk: &SimDisk) -> JoinHandle<()> {
    let disk = disk.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        disk.heal();
    })
}

/// The numbers of the entries that wait in [`ONLY_SACK`].
pub async fn waiting(log: &LocalIncoming) -> Vec<u32> {
    let records = log.pending(ONLY_SACK, Position(0), usize::MAX).await.unwrap().records;
    records.iter().map(|record| record.measures).collect()
}
