//! The generator: one thread that keeps a number of operations in flight, each on its own object.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use gnudi_rados::{Pending, Pool};

use super::{Load, Outcome, RadosWrite};
use crate::{context::Stop, histogram::Histogram};

/// The key that an omap write sets.
const OMAP_KEY: &str = "bench-omap-key-0";
/// Interval of checking for ctrl-C while the cluster does not respond.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Number of objects to read back, spread evenly.
const CHECKS: u64 = 16;

/// The name of a load's `number`th object.
pub fn object_name(prefix: &str, number: u64) -> String {
    format!("{prefix}_object{number}")
}

/// Runs the load on the pool, in objects with the prefix, and checks that acknowledged writes are stored.
pub fn run(pool: &Pool, load: &Load, prefix: &str, stop: &Stop) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let data = vec![b'g'; load.block_bytes];
    let write = |number: u64| -> Pending<()> {
        let operation = pool.write_operation();
        let operation = match load.kind {
            RadosWrite::WriteObject => operation.write(0, &data),
            RadosWrite::WriteOmap => operation.omap_set(&[(OMAP_KEY, &data)]),
        };
        pool.operate(&object_name(prefix, number), operation)
    };
    let outcome = runtime.block_on(drive(load, write, stop))?;
    check(pool, load.kind, prefix, outcome.writes, &data)?;
    Ok(outcome)
}

/// Removes a load's objects.
pub fn remove(pool: &Pool, prefix: &str, writes: u64, in_flight: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        let removals = (0..writes).map(|number| pool.remove(&object_name(prefix, number)));
        let mut removals = futures_util::stream::iter(removals).buffer_unordered(in_flight);
        while let Some(removed) = removals.next().await {
            removed?;
        }
        Ok(())
    })
}

/// Keeps `in_flight` operations in flight for the load's duration, then waits for the rest.
async fn drive(load: &Load, write: impl Fn(u64) -> Pending<()>, stop: &Stop) -> Result<Outcome> {
    let start = Instant::now();
    let end = start + load.duration;
    let (mut latencies, mut per_second) = (Histogram::default(), Vec::new());
    let mut begun = 0;
    let begin = |number: u64| {
        let pending = write(number);
        let began = Instant::now();
        async move { (began, pending.await) }
    };
    let mut running = FuturesUnordered::new();
    for _ in 0..load.in_flight {
        running.push(begin(begun));
        begun += 1;
    }
    let mut last = start;
    let mut cut = false;
    loop {
        let next = match tokio::time::timeout(STOP_POLL_INTERVAL, running.next()).await {
            Ok(Some(next)) => Some(next),
            Ok(None) => break,
            Err(_) => None,
        };
        let now = Instant::now();
        cut |= stop.is_set();
        let Some((began, answer)) = next else {
            if cut {
                // Nothing completes: operations in flight are not counted.
                break;
            }
            continue;
        };
        answer.with_context(|| format!("after {} writes", latencies.count()))?;
        latencies.record(now - began);
        let second = (now - start).as_secs() as usize;
        per_second.resize(per_second.len().max(second + 1), 0);
        per_second[second] += 1;
        last = now;
        if now < end && !cut {
            running.push(begin(begun));
            begun += 1;
        }
    }
    Ok(Outcome {
        writes: latencies.count(),
        elapsed: last - start,
        latency_avg: latencies.mean(),
        latency_min: latencies.min(),
        latency_max: latencies.max(),
        latencies: Some(latencies),
        per_second,
    })
}

/// Reads some of the objects back.
fn check(pool: &Pool, kind: RadosWrite, prefix: &str, writes: u64, data: &[u8]) -> Result<()> {
    for step in 0..CHECKS.min(writes) {
        let name = object_name(prefix, step * writes / CHECKS.min(writes));
        let found = match kind {
            RadosWrite::WriteObject => pool.read(&name, 0, data.len() + 1).wait()?,
            RadosWrite::WriteOmap => {
                let mut page = pool.omap_page(&name, None, OMAP_KEY.as_bytes(), 2).wait()?;
                page.entries.pop().map(|(_, value)| value).unwrap_or_default()
            }
        };
        ensure!(found == data, "{name} was acknowledged, but holds {} bytes of {}", found.len(), data.len());
    }
    Ok(())
}
