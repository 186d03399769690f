//! Loads on Ceph: gnudi's own generator, through its binding of librados; `rados bench` as the peer; and the split of a
//! placement group under load.

pub mod load;
pub mod peer;
pub mod split;

use std::time::Duration;

use clap::ValueEnum;

use crate::histogram::Histogram;

/// What an operation writes, to a new object each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RadosWrite {
    /// The object's data.
    WriteObject,
    /// One key of the object's omap.
    WriteOmap,
}

/// A load on a pool.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub kind: RadosWrite,
    /// Concurrent operations.
    pub in_flight: usize,
    /// Bytes per operation.
    pub block_bytes: usize,
    /// No operation is started afterwards.
    pub duration: Duration,
}

/// The result of a load.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub writes: u64,
    /// From the start of the first operation to the end of the last.
    pub elapsed: Duration,
    pub latency_avg: Duration,
    pub latency_min: Duration,
    pub latency_max: Duration,
    /// Unknown for `rados bench`.
    pub latencies: Option<Histogram>,
    /// Writes completed in each second.
    pub per_second: Vec<u64>,
}

impl Outcome {
    /// Writes per second.
    pub fn rate(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { self.writes as f64 / seconds } else { 0.0 }
    }
}
