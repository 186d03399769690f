//! `gnudi-benchmark samples`: the comparison that motivated Gnocchi. A month by the minute of many instances, as raw
//! samples in SQL and as aggregates in gnudi and in Gnocchi: loading time, reading time, and disk use.
//!
//! Every response is checked against the samples.

mod http;
mod plan;
mod sql;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};

use super::in_turn;
use crate::{
    context::Context,
    findings::{Findings, Table, Value},
    peers::Peer,
    table::{self, bytes, seconds, short},
};
use plan::Plan;

/// Load raw samples into SQL, gnudi and Gnocchi, and read them aggregated.
#[derive(Clone, Debug, Args)]
pub struct SamplesOptions {
    /// Instances with one sample per minute.
    #[arg(short, long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub instances: u32,
    /// Days of samples.
    #[arg(short, long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=366))]
    pub days: u32,
    /// Number of instances for Gnocchi, which is slow: rates are compared.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub gnocchi_instances: u32,
    /// Stores, in order.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [SampleStore::Postgresql, SampleStore::Gnudi, SampleStore::Gnocchi])]
    pub stores: Vec<SampleStore>,
    /// Connections that load, each its share of the instances.
    #[arg(short = 'w', long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub connections: u32,
    /// Maximum samples per call or COPY.
    #[arg(short, long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub batch: u32,
    /// Instances to read, each by the minute and by the hour.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub reads: u32,
}

/// Requests are built before the clock starts, at 60 bytes per sample.
const SAMPLES_MAX: usize = 20_000_000;

/// Means to read: by the minute, and by the hour.
const GRANULARITIES_S: [i64; 2] = [60, 3600];

/// A store of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SampleStore {
    Postgresql,
    Gnudi,
    Gnocchi,
}

impl SampleStore {
    /// The server, if it has Gnocchi's API.
    fn peer(self) -> Option<Peer> {
        match self {
            SampleStore::Postgresql => None,
            SampleStore::Gnudi => Some(Peer::Gnudi),
            SampleStore::Gnocchi => Some(Peer::Gnocchi),
        }
    }

    fn name(self) -> &'static str {
        self.peer().map_or("postgresql", Peer::name)
    }

    fn durability(self) -> &'static str {
        self.peer().map_or("what is committed is on disk (fsync)", Peer::durability)
    }

    fn start<'a>(self, plan: &Plan, context: &'a Context) -> Result<Box<dyn Store + 'a>> {
        Ok(match self.peer() {
            None => Box::new(sql::Sql::start(plan, context)?),
            Some(peer) => Box::new(http::Http::start(peer, plan, context)?),
        })
    }
}

/// A running store with the instances, without samples.
trait Store {
    /// Loads the plan's samples until they can be read.
    fn load(&mut self, plan: &Plan) -> Result<Loaded>;

    /// Reads an instance's means; returns the time of the response, without parsing.
    fn read(&mut self, instance: usize, granularity_s: i64) -> Result<(Duration, Vec<plan::Point>)>;

    /// Disk use of the samples with indexes, without incoming logs; `None` if unknown.
    fn disk_bytes(&mut self) -> Result<Option<u64>>;
}

/// The result of a load.
struct Loaded {
    /// Fewer than planned if it was interrupted.
    samples: usize,
    elapsed: Duration,
    note: String,
}

/// The results of a store.
struct Measured {
    kind: SampleStore,
    loaded: Loaded,
    /// By granularity; fewer if the run was interrupted or failed.
    reads: Vec<Duration>,
    /// Before and after the load.
    bytes_empty: Option<u64>,
    bytes: Option<u64>,
    failure: Option<String>,
}

impl Measured {
    fn rate(&self) -> f64 {
        self.loaded.samples as f64 / self.loaded.elapsed.as_secs_f64()
    }

    fn bytes_per_sample(&self) -> Option<f64> {
        self.bytes.map(|bytes| bytes as f64 / self.loaded.samples as f64)
    }
}

/// Measures each store in turn; failures are noted, and the others continue.
pub fn run(options: &SamplesOptions, context: &mut Context) -> Result<Findings> {
    let plan = plan(options)?;
    let title = format!(
        "{} instances, {} days by the minute, {} samples: raw in SQL, aggregated in gnudi and in Gnocchi",
        plan.instances,
        options.days,
        plan.samples()
    );
    let mut findings = Findings::new(title);
    let failed = |kind: SampleStore| format!("{}: not measured", kind.name());
    let mut measured = in_turn(options.stores.iter().copied(), context, &mut findings, failed, |kind| {
        let instances = match kind {
            SampleStore::Gnocchi => plan.instances.min(options.gnocchi_instances as usize),
            SampleStore::Postgresql | SampleStore::Gnudi => plan.instances,
        };
        measure(kind, &Plan { instances, ..plan }, options.reads as usize, context)
    });
    for store in &mut measured {
        if let Some(failure) = store.failure.take() {
            findings.partial = Some(format!("{} failed", store.kind.name()));
            findings.note_failure(format!("{}: {failure}", store.kind.name()));
        }
    }
    context.mark_partial(&mut findings, "interrupted");
    ensure!(!measured.is_empty(), "nothing was measured");
    tell(&plan, &measured, &mut findings);
    Ok(findings)
}

fn plan(options: &SamplesOptions) -> Result<Plan> {
    let plan = Plan {
        instances: options.instances as usize,
        minutes: options.days as usize * 24 * 60,
        connections: options.connections as usize,
        batch: options.batch as usize,
    };
    ensure!(plan.samples() <= SAMPLES_MAX, "{} samples, at most {SAMPLES_MAX}", plan.samples());
    Ok(plan)
}

/// Fails if the load has no results.
fn measure(kind: SampleStore, plan: &Plan, reads: usize, context: &Context) -> Result<Measured> {
    let progress = |what: &str| eprintln!("{}: {what}", kind.name());
    progress("starting");
    let mut store = kind.start(plan, context)?;
    let bytes_empty = store.disk_bytes()?;
    progress(&format!("loading {} samples", plan.samples()));
    let loaded = store.load(plan)?;
    let mut measured = Measured { kind, loaded, reads: Vec::new(), bytes_empty, bytes: None, failure: None };
    if context.stop.is_set() {
        return Ok(measured);
    }
    let mut look = || {
        measured.bytes = store.disk_bytes()?;
        for granularity_s in GRANULARITIES_S {
            progress(&format!("reading by {granularity_s} s"));
            measured.reads.push(median_read(store.as_mut(), plan, granularity_s, reads)?);
        }
        Ok::<_, anyhow::Error>(())
    };
    if let Err(error) = look() {
        measured.failure = (!context.stop.is_set()).then(|| format!("{error:#}"));
    }
    Ok(measured)
}

/// Reads instances, spread evenly, and checks the responses.
fn median_read(store: &mut dyn Store, plan: &Plan, granularity_s: i64, reads: usize) -> Result<Duration> {
    let mut times = Vec::new();
    for instance in (0..plan.instances).step_by(plan.instances.div_ceil(reads)) {
        let (elapsed, points) = store.read(instance, granularity_s)?;
        plan::check(&points, &plan.expected(instance, granularity_s))
            .with_context(|| format!("instance {instance} by {granularity_s} s"))?;
        times.push(elapsed);
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

fn tell(plan: &Plan, measured: &[Measured], findings: &mut Findings) {
    for store in measured {
        let name = store.kind.name();
        let seconds = |duration: &Duration| Value::Seconds(duration.as_secs_f64());
        findings.tell(format!("{name} samples"), Value::Count(store.loaded.samples as u64));
        findings.tell(format!("{name} load time"), seconds(&store.loaded.elapsed));
        findings.compare(format!("{name} load speed"), Value::Rate(store.rate(), "sample"));
        for (granularity_s, time) in GRANULARITIES_S.iter().zip(&store.reads) {
            let time = Value::Latency(time.as_secs_f64());
            findings.compare(format!("{name} read by {granularity_s} s"), time);
        }
        if let Some(bytes) = store.bytes {
            findings.compare(format!("{name} disk"), Value::Bytes(bytes));
        }
        findings.note(format!("{name}: {}; {}", store.loaded.note, store.kind.durability()));
        if let Some((empty, stored)) = store.bytes_empty.zip(store.bytes)
            && empty * 10 > stored
        {
            let empty = bytes(empty as f64);
            findings.note(format!("{name}: {empty} of its disk were laid out before the first sample"));
        }
        let wanted = plan.samples();
        if store.loaded.samples < wanted {
            findings.note(format!(
                "{name}: {} of {wanted} samples: rates and bytes a sample are compared",
                store.loaded.samples
            ));
        }
    }
    findings.tables.push(table(measured));
    findings
        .note("a read is the median over several instances; every answer was checked against the samples");
}

/// One line per store, with gnudi's advantage after each figure.
fn table(measured: &[Measured]) -> Table {
    let gnudi = measured.iter().find(|store| store.kind == SampleStore::Gnudi);
    let rows = measured.iter().map(|store| {
        // gnudi's advantage in figures for which less is better.
        let better = |figure: &dyn Fn(&Measured) -> Option<f64>| match gnudi {
            Some(gnudi) if store.kind != SampleStore::Gnudi => {
                let ratio = figure(store).zip(figure(gnudi)).map(|(theirs, ours)| theirs / ours);
                ratio.map(table::times).unwrap_or_default()
            }
            _ => String::new(),
        };
        let mut row = vec![
            store.kind.name().to_owned(),
            short(store.loaded.samples as f64),
            seconds(store.loaded.elapsed),
            format!("{}/s", short(store.rate())),
            better(&|store| Some(1.0 / store.rate())),
        ];
        for index in 0..GRANULARITIES_S.len() {
            let read = |store: &Measured| store.reads.get(index).map(Duration::as_secs_f64);
            row.push(read(store).map_or_else(String::new, |seconds| format!("{:.1} ms", seconds * 1e3)));
            row.push(better(&read));
        }
        row.push(store.bytes.map(|stored| bytes(stored as f64)).unwrap_or_default());
        row.push(store.bytes_per_sample().map_or_else(String::new, |bytes| format!("{bytes:.1} B")));
        row.push(better(&Measured::bytes_per_sample));
        row
    });
    let headings = "| samples | loaded in | load | gnudi is | read by 60 s | gnudi is | read by 3600 s | gnudi is \
                    | on disk | a sample | gnudi is";
    Table::new("Raw samples and aggregates", headings, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(kind: SampleStore, samples: usize, load_s: u64, read_ms: u64, bytes: u64) -> Measured {
        let loaded = Loaded { samples, elapsed: Duration::from_secs(load_s), note: String::new() };
        Measured {
            kind,
            loaded,
            reads: vec![Duration::from_millis(read_ms); 2],
            bytes_empty: Some(0),
            bytes: Some(bytes),
            failure: None,
        }
    }

    #[test]
    fn stores_are_compared_by_rates() {
        let stores = [
            measured(SampleStore::Postgresql, 1000, 10, 50, 200_000),
            measured(SampleStore::Gnudi, 1000, 1, 5, 2_000),
            measured(SampleStore::Gnocchi, 100, 2, 20, 1_000),
        ];
        let table = table(&stores);
        assert!(table.rows.iter().all(|row| row.len() == table.headings.len()));
        let column = |name: &str| table.headings.iter().position(|heading| heading == name).unwrap();
        assert_eq!(table.rows[0][column("load") + 1], "10.0x");
        assert_eq!(table.rows[1][column("load") + 1], "");
        assert_eq!(table.rows[2][column("load") + 1], "20.0x");
        assert_eq!(table.rows[2][column("read by 60 s") + 1], "4.00x");
        assert_eq!(table.rows[2][column("a sample") + 1], "5.00x");
        let mut findings = Findings::default();
        let plan = Plan { instances: 10, minutes: 100, connections: 1, batch: 60 };
        tell(&plan, &stores, &mut findings);
        let note = findings.notes.iter().find(|note| note.contains("100 of 1000 samples")).unwrap();
        assert!(note.starts_with("gnocchi"), "{note}");
    }

    #[test]
    fn what_an_interrupted_run_left_is_shown() {
        let mut store = measured(SampleStore::Gnudi, 10, 1, 1, 1);
        (store.reads, store.bytes) = (Vec::new(), None);
        let table = table(&[store]);
        assert_eq!(table.rows[0].len(), table.headings.len());
    }
}
