//! `gnudi-benchmark rados`: small writes to Ceph as objects and as omap keys, compared with `rados bench`.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum as _};
use gnudi_rados::{Cluster, ConnectOptions, Librados};

use super::{seconds, within};
use crate::{
    context::Context,
    findings::{Axis, Figure, Findings, Line, Plot, Table, Value},
    named::Named as _,
    peers::ceph::{Ceph, CephOptions, check_installed, create_pool},
    rados::{
        Load, Outcome, RadosWrite, load,
        peer::{self, Access},
    },
};

/// Write small blocks to Ceph, as objects and as omap keys, and compare with `rados bench`.
///
/// Without --ceph-conf a cluster with two OSDs on the memory store is started for each load, and removed afterwards.
#[derive(Clone, Debug, Args)]
pub struct RadosOptions {
    /// What to write [default: both, in turn].
    #[arg(value_enum, value_name = "KIND")]
    kinds: Vec<RadosWrite>,
    /// Concurrent operations.
    #[arg(short = 't', long, value_name = "N", default_value_t = 32, value_parser = within(1..=65_535))]
    concurrent_operations: usize,
    /// Bytes per operation.
    #[arg(short = 'b', long, value_name = "BYTES", default_value_t = 512, value_parser = within(1..=BLOCK_BYTES_MAX))]
    block_size: usize,
    /// Duration of each load.
    #[arg(long, value_name = "N", default_value = "10", value_parser = seconds(1..=SECONDS_MAX))]
    seconds: Duration,
    /// Rounds; medians are reported.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within(1..=ROUNDS_MAX))]
    rounds: usize,
    /// Pool of a running cluster.
    #[arg(long, value_name = "NAME", requires = "ceph_conf")]
    pool: Option<String>,
    /// ceph.conf of a running cluster.
    #[arg(long, value_name = "FILE", requires = "pool", conflicts_with = "ceph_options")]
    ceph_conf: Option<PathBuf>,
    /// User of that cluster.
    #[arg(long, value_name = "NAME", default_value = "admin", requires = "ceph_conf")]
    ceph_user: String,
    /// The user's keyring, if not as in ceph.conf.
    #[arg(long, value_name = "FILE", requires = "ceph_conf")]
    ceph_keyring: Option<PathBuf>,
    /// Keep the objects in the pool.
    #[arg(long, requires = "ceph_conf")]
    keep: bool,
    #[command(flatten)]
    ceph: CephOptions,
}

/// Ceph's default limit of an object is 128 MiB; omap values are meant to be small.
const BLOCK_BYTES_MAX: u64 = 1 << 20;
const SECONDS_MAX: u64 = 3600;
const ROUNDS_MAX: u64 = 100;
/// Of the pool in a cluster started by the tool.
const PLACEMENT_GROUPS: u32 = 8;
const POOL: &str = "bench";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const BYTES_PER_MIB: f64 = (1 << 20) as f64;
/// G. Chung's figures for Gnocchi 4, 20 OSDs, 120 s, 32 concurrent writes of 512 bytes: kind, IOPS, latency avg and max
/// in ms.
const PUBLISHED: [(RadosWrite, &str, &str, &str); 2] =
    [(RadosWrite::WriteObject, "10156", "3.15", "2600"), (RadosWrite::WriteOmap, "13388", "2.39", "980")];

/// Our generator, and the peer.
const GENERATORS: [&str; 2] = ["gnudi", "rados bench"];

/// One measured load.
struct Measured {
    kind: RadosWrite,
    generator: &'static str,
    outcome: Outcome,
}

pub fn run(options: &RadosOptions, context: &Context) -> Result<Findings> {
    let librados = Librados::load(&options.ceph.librados)?;
    let peer_missing = check_installed(&[peer::PROGRAM]).err();
    let generators = if peer_missing.is_none() { &GENERATORS[..] } else { &GENERATORS[..1] };
    let kinds = if options.kinds.is_empty() { RadosWrite::value_variants() } else { &options.kinds };
    let mut measured = Vec::new();
    let mut turns = (0..options.rounds)
        .flat_map(|round| kinds.iter().enumerate().map(move |(turn, &kind)| (round + turn, kind)));
    let outcome = turns.try_for_each(|(turn, kind)| {
        // The order alternates: the second generator may find a fuller store, or a slower machine.
        for place in 0..generators.len() {
            let generator = generators[(place + turn) % generators.len()];
            if context.stop.is_set() {
                break;
            }
            if context.verbose {
                eprintln!("{} by {generator}", kind.name());
            }
            // Each finds the same empty store.
            let outcome = Place::open(options, &librados, context)?
                .measure(options.load(kind), generator, context)
                .with_context(|| format!("{} by {generator}", kind.name()))?;
            measured.push(Measured { kind, generator, outcome });
        }
        Ok(())
    });
    let partial = match outcome {
        Err(error) if measured.is_empty() => return Err(error),
        outcome => outcome.err().map(|error| format!("{error:#}")),
    };
    let mut findings = Findings { partial, ..findings(options, &measured) };
    if let Some(reason) = peer_missing {
        findings.note(format!("rados bench was not measured: {reason}"));
    }
    if context.stop.is_set() {
        findings.partial.get_or_insert_with(|| "stopped before its time".to_owned());
    }
    Ok(findings)
}

impl RadosOptions {
    fn load(&self, kind: RadosWrite) -> Load {
        let &RadosOptions { concurrent_operations, block_size, seconds, .. } = self;
        Load { kind, in_flight: concurrent_operations, block_bytes: block_size, duration: seconds }
    }
}

/// The cluster under load.
struct Place {
    cluster: Cluster,
    access: Access,
    /// For a running cluster.
    pool: Option<String>,
    keep: bool,
    /// Stopped when dropped.
    _own: Option<Ceph>,
}

impl Place {
    fn open(options: &RadosOptions, librados: &Librados, context: &Context) -> Result<Self> {
        let Some(conf) = &options.ceph_conf else {
            let own = Ceph::start(librados, &options.ceph, &context.leftovers).context("starting Ceph")?;
            let access = Access { conf: own.conf(), user: "admin".to_owned(), keyring: None };
            let cluster = own.cluster().clone();
            return Ok(Place { cluster, access, pool: None, keep: true, _own: Some(own) });
        };
        ensure!(conf.is_file(), "{} is not a file", conf.display());
        let (user, keyring) = (options.ceph_user.clone(), options.ceph_keyring.clone());
        let access = Access { conf: conf.clone(), user, keyring };
        let connect = ConnectOptions {
            conf: Some(conf.clone()),
            user: access.user.clone(),
            keyring: access.keyring.clone(),
            connect_timeout: CONNECT_TIMEOUT,
            ..ConnectOptions::default()
        };
        let cluster = Cluster::connect(librados, &connect)?;
        Ok(Place { cluster, access, pool: options.pool.clone(), keep: options.keep, _own: None })
    }

    /// Runs a load on the given pool or a new one; removes its objects unless they are to be kept.
    fn measure(&self, load: Load, generator: &str, context: &Context) -> Result<Outcome> {
        let name = if let Some(name) = &self.pool {
            name.clone()
        } else {
            create_pool(&self.cluster, POOL, PLACEMENT_GROUPS)?;
            POOL.to_owned()
        };
        let pool = self.cluster.open_pool(&name)?;
        if generator == GENERATORS[0] {
            let prefix = format!("gnudi_bench_{}", uuid::Uuid::new_v4().simple());
            let outcome = load::run(&pool, &load, &prefix, &context.stop)?;
            if !self.keep {
                load::remove(&pool, &prefix, outcome.writes, load.in_flight)?;
            }
            return Ok(outcome);
        }
        let directory = tempfile::tempdir().context("a directory")?;
        context.leftovers.add_directory(directory.path());
        peer::run(&self.access, &name, &load, self.keep, directory.path(), context)
    }
}

fn findings(options: &RadosOptions, measured: &[Measured]) -> Findings {
    let RadosOptions { concurrent_operations, block_size, seconds, .. } = options;
    let block_bytes = *block_size as f64;
    let title = format!(
        "blocks of {block_size} bytes written to Ceph, {concurrent_operations} at a time, for {} s a load",
        seconds.as_secs()
    );
    let mut findings = Findings::new(title);
    let medians = medians(measured);
    for Measured { kind, generator, outcome } in &medians {
        let is_own = *generator == GENERATORS[0];
        let of = |what: &str| format!("{} {generator} {what}", kind.name());
        let mut figure = |what: &str, value: Value| {
            // The peer's are not ours to compare.
            let better = value.better().filter(|_| is_own);
            findings.figures.push(Figure { name: of(what), value, better });
        };
        figure("speed", Value::rate(outcome.rate(), "write"));
        figure("data", Value::rate(outcome.rate() * block_bytes / BYTES_PER_MIB, "MiB"));
        for (what, latency) in latencies(outcome) {
            if let Some(latency) = latency {
                figure(what, Value::latency(latency));
            }
        }
        findings.tell(of("writes"), Value::Count(outcome.writes));
    }
    for &kind in RadosWrite::value_variants() {
        if let Some(ratio) = ratio(measured, kind) {
            let name = format!("{} speed, gnudi to rados bench", kind.name());
            findings.compare(name, Value::Percent(ratio * 100.0));
        }
    }
    findings.tables.push(table(&medians, block_bytes));
    findings.plots.push(plot(&medians));
    findings
}

/// The load with the median speed for each kind and generator; the slower one of two.
fn medians(measured: &[Measured]) -> Vec<Measured> {
    let mut medians = Vec::new();
    for &kind in RadosWrite::value_variants() {
        for generator in GENERATORS {
            let mut outcomes = outcomes(measured, kind, generator);
            outcomes.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
            let middle = outcomes.get(outcomes.len().saturating_sub(1) / 2);
            let outcome = middle.map(|&outcome| outcome.clone());
            medians.extend(outcome.map(|outcome| Measured { kind, generator, outcome }));
        }
    }
    medians
}

/// In the order of the rounds.
fn outcomes<'a>(measured: &'a [Measured], kind: RadosWrite, generator: &str) -> Vec<&'a Outcome> {
    let wanted = measured.iter().filter(|one| one.kind == kind && one.generator == generator);
    wanted.map(|one| &one.outcome).collect()
}

/// How many times faster gnudi is than the peer, by round: the median of the ratios, the lower one of two.
fn ratio(measured: &[Measured], kind: RadosWrite) -> Option<f64> {
    let own = outcomes(measured, kind, GENERATORS[0]);
    let peers = outcomes(measured, kind, GENERATORS[1]);
    let pairs = own.iter().zip(&peers).filter(|(_, peer)| peer.rate() > 0.0);
    let mut ratios: Vec<f64> = pairs.map(|(own, peer)| own.rate() / peer.rate()).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len().saturating_sub(1) / 2).copied()
}

/// The latencies in the results, in order.
fn latencies(outcome: &Outcome) -> [(&'static str, Option<Duration>); 6] {
    let percentile = |share: f64| outcome.latencies.as_ref().map(|latencies| latencies.percentile(share));
    let known = |latency: Duration| (!latency.is_zero()).then_some(latency);
    [
        ("latency avg", known(outcome.latency_avg)),
        ("latency min", known(outcome.latency_min)),
        ("latency p50", percentile(0.5)),
        ("latency p95", percentile(0.95)),
        ("latency p99", percentile(0.99)),
        ("latency max", known(outcome.latency_max)),
    ]
}

fn table(measured: &[Measured], block_bytes: f64) -> Table {
    let rows = measured.iter().map(|Measured { kind, generator, outcome }| {
        let rate = outcome.rate();
        let mut row = vec![kind.name(), (*generator).to_owned(), format!("{rate:.0}")];
        row.push(format!("{:.2}", rate * block_bytes / BYTES_PER_MIB));
        let ms = |latency: Duration| format!("{:.2}", latency.as_secs_f64() * 1e3);
        row.extend(latencies(outcome).map(|(_, latency)| latency.map_or_else(String::new, ms)));
        row
    });
    let headings = "kind | generator | IOPS | MiB/s | avg ms | min ms | p50 ms | p95 ms | p99 ms | max ms";
    let mut table = Table::new("Small writes to Ceph", headings, rows);
    for (kind, iops, avg, max) in PUBLISHED {
        if measured.iter().any(|one| one.kind == kind) {
            let cells = [&*kind.name(), "published", iops, "", avg, "", "", "", "", max];
            table.rows.push(cells.map(str::to_owned).to_vec());
        }
    }
    table
}

fn plot(measured: &[Measured]) -> Plot {
    let line = |Measured { kind, generator, outcome }: &Measured| {
        // An incomplete last second is dropped.
        let full = (outcome.elapsed.as_secs() as usize).min(outcome.per_second.len());
        let points = outcome.per_second[..full].iter().enumerate();
        let points = points.map(|(second, writes)| ((second + 1) as f64, *writes as f64));
        Line::new(format!("{}, {}", kind.name(), generator), points)
    };
    let (x, y) = (Axis::linear("seconds"), Axis::linear("writes/s"));
    Plot::new("Writes in each second", x, y, measured.iter().map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(kind: RadosWrite, generator: &'static str, writes: u64) -> Measured {
        let outcome = Outcome { writes, elapsed: Duration::from_secs(1), ..Outcome::default() };
        Measured { kind, generator, outcome }
    }

    #[test]
    fn rounds_are_told_by_their_medians_and_pairs() {
        let (object, gnudi, peer) = (RadosWrite::WriteObject, GENERATORS[0], GENERATORS[1]);
        let rounds = [(100, 200), (900, 300), (300, 100)];
        let mut all = Vec::new();
        for (own, others) in rounds {
            all.extend([measured(object, peer, others), measured(object, gnudi, own)]);
        }
        let told: Vec<_> = medians(&all).iter().map(|one| (one.generator, one.outcome.writes)).collect();
        assert_eq!(told, [(gnudi, 300), (peer, 200)]);
        assert_eq!(ratio(&all, object), Some(3.0), "of 0.5, 3 and 3");
        assert_eq!(ratio(&all, RadosWrite::WriteOmap), None);
        assert_eq!(ratio(&all[1..2], object), None, "nobody to compare with");
    }
}
