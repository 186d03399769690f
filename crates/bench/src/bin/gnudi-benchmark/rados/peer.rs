//! `rados bench`, Ceph's own generator: runs it on the same pool, and parses its output.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use super::{Load, Outcome};
use crate::{
    context::Context,
    named::Named as _,
    peers::child::{Guarded, Signal},
};

/// The program and its package.
pub const PROGRAM: (&str, &str) = ("rados", "ceph-common");

/// How `rados` connects to the cluster.
#[derive(Clone, Debug)]
pub struct Access {
    pub conf: PathBuf,
    pub user: String,
    pub keyring: Option<PathBuf>,
}

/// Runs `rados bench` with the load; `keep` leaves its objects. Its output is in `directory`.
pub fn run(
    access: &Access,
    pool: &str,
    load: &Load,
    keep: bool,
    directory: &Path,
    context: &Context,
) -> Result<Outcome> {
    let log = directory.join(format!("rados-bench-{}.out", load.kind.name()));
    let mut command = Command::new(PROGRAM.0);
    command.arg("-c").arg(&access.conf).args(["-n", &format!("client.{}", access.user), "-p", pool]);
    if let Some(keyring) = &access.keyring {
        command.arg("--keyring").arg(keyring);
    }
    command
        .args(["bench", &load.duration.as_secs().max(1).to_string(), "write"])
        .args(["-t", &load.in_flight.to_string(), "-b", &load.block_bytes.to_string()])
        .arg(format!("--{}", load.kind.name()));
    if keep {
        command.arg("--no-cleanup");
    }
    let mut process = Guarded::start(&mut command, &log, Signal::Term, &context.leftovers)?;
    let status = process.wait_end(|| context.stop.is_set())?;
    let end = process.log_end();
    drop(process);
    let text = std::fs::read_to_string(&log).with_context(|| log.display().to_string())?;
    match status {
        Some(status) if !status.success() => bail!("rados bench ended with {status}: {end}"),
        Some(_) => read(&text).with_context(|| format!("rados bench printed: {end}")),
        // Interrupted: only the lines per second are available.
        None => Ok(read_seconds(&text)),
    }
}

/// The results at the end of the output, and the lines per second.
fn read(text: &str) -> Result<Outcome> {
    let figure = |name: &str| -> Result<f64> {
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line[name.len()..].trim().parse().ok());
        value.with_context(|| format!("no {name}"))
    };
    let duration = |name: &str| figure(name).map(Duration::from_secs_f64);
    Ok(Outcome {
        writes: figure("Total writes made:")? as u64,
        elapsed: duration("Total time run:")?,
        latency_avg: duration("Average Latency(s):")?,
        latency_min: duration("Min latency(s):")?,
        latency_max: duration("Max latency(s):")?,
        ..read_seconds(text)
    })
}

/// The lines per second: second, operations in flight, started, finished, ...
fn read_seconds(text: &str) -> Outcome {
    let mut outcome = Outcome::default();
    for line in text.lines().take_while(|line| !line.starts_with("Total time run")) {
        let mut words = line.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(second)), Some(Ok(_)), Some(Ok(_)), Some(Ok(ended))) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        if second > 0 && ended >= outcome.writes {
            outcome.per_second.push(ended - outcome.writes);
            outcome.writes = ended;
            outcome.elapsed = Duration::from_secs(second);
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\
hints = 1
Maintaining 32 concurrent writes of 512 bytes to objects of size 512 for up to 2 seconds or 0 objects
Object prefix: benchmark_data_host_4711
  sec Cur ops   started  finished  avg MB/s  cur MB/s last lat(s)  avg lat(s)
    0       0         0         0         0         0           -           0
    1      31      8031      8000   3.90576   3.90625  0.00365116  0.00398214
2026-01-02T03:04:05.678901+0000 min lat: 0.000216 max lat: 0.0371 avg lat: 0.00397
  sec Cur ops   started  finished  avg MB/s  cur MB/s last lat(s)  avg lat(s)
    2      31     16131     16100   3.93    3.955  0.0036  0.0039
Total time run:         2.0125
Total writes made:      16131
Write size:             512
Object size:            512
Bandwidth (MB/sec):     3.913
Average IOPS:           8015
Average Latency(s):     0.00398
Stddev Latency(s):      0.00232
Max latency(s):         0.0371
Min latency(s):         0.000216
";

    #[test]
    fn what_it_prints_is_read() {
        let outcome = read(PRINTED).unwrap();
        assert_eq!(outcome.writes, 16131);
        assert_eq!(outcome.per_second, [8000, 8100]);
        assert_eq!(outcome.elapsed, Duration::from_secs_f64(2.0125));
        assert_eq!(outcome.latency_max, Duration::from_secs_f64(0.0371));
        assert_eq!(outcome.latency_min, Duration::from_secs_f64(0.000_216));
        assert!(outcome.latencies.is_none());
    }

    #[test]
    fn a_run_that_was_cut_keeps_its_seconds() {
        let cut = read_seconds(&PRINTED[..PRINTED.find("2026-").unwrap()]);
        assert_eq!((cut.writes, cut.elapsed), (8000, Duration::from_secs(1)));
        assert!(
            read("error connecting to the cluster").unwrap_err().to_string().contains("Total writes made")
        );
    }
}
