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

use super::{in_turn, within};
use crate::{
    context::Context,
    findings::{Findings, Value},
    named::Named as _,
    peers::Peer,
    sheet::Sheet,
    table::{bytes, short},
};
use plan::Plan;

/// Load raw samples into SQL, gnudi and Gnocchi, and read them aggregated.
#[derive(Clone, Debug, Args)]
pub struct SamplesOptions {
    /// Instances with one sample per minute.
    #[arg(short, long, value_name = "N", default_value_t = 100, value_parser = within(1..=10_000))]
    instances: usize,
    /// Days of samples.
    #[arg(short, long, value_name = "N", default_value_t = 30, value_parser = within(1..=366))]
    days: usize,
    /// Number of instances for Gnocchi, which is slow: rates are compared.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = within(1..=10_000))]
    gnocchi_instances: usize,
    /// Stores, in order.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [SampleStore::Postgresql, SampleStore::Gnudi, SampleStore::Gnocchi])]
    stores: Vec<SampleStore>,
    /// Connections that load, each its share of the instances.
    #[arg(short = 'w', long, value_name = "N", default_value_t = 2, value_parser = within(1..=64))]
    connections: usize,
    /// Maximum samples per call or COPY.
    #[arg(short, long, value_name = "N", default_value_t = 5_000, value_parser = within(1..=100_000))]
    batch: usize,
    /// Instances to read, each by the minute and by the hour.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = within(1..=100))]
    reads: usize,
}

/// Requests are built before the clock starts, at 60 bytes per sample.
const SAMPLES_MAX: usize = 20_000_000;

/// A store of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SampleStore {
    Postgresql,
    Gnudi,
    Gnocchi,
}

impl SampleStore {
    /// The server, if it has Gnocchi's API.
    fn peer(self) -> Option<Peer> {
        Peer::from_name(&self.name())
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
    /// By the minute and by the hour; fewer if the run was interrupted or failed.
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
pub fn run(options: &SamplesOptions, context: &Context) -> Result<Findings> {
    let &SamplesOptions { instances, days, connections, batch, .. } = options;
    let plan = Plan { instances, minutes: days * 24 * 60, connections, batch };
    let samples = plan.samples();
    ensure!(samples <= SAMPLES_MAX, "{samples} samples, at most {SAMPLES_MAX}");
    let mut findings = Findings::new(format!(
        "{instances} instances, {days} days by the minute, {samples} samples: raw in SQL, aggregated in gnudi and in Gnocchi"
    ));
    let failed = |kind: SampleStore| format!("{}: not measured", kind.name());
    let mut measured = in_turn(options.stores.iter().copied(), context, &mut findings, failed, |kind| {
        let most = if kind == SampleStore::Gnocchi { options.gnocchi_instances } else { usize::MAX };
        measure(kind, &Plan { instances: instances.min(most), ..plan }, options.reads, context)
    });
    for store in &mut measured {
        if let Some(failure) = store.failure.take() {
            findings.partial = Some(format!("{} failed", store.kind.name()));
            findings.note_failure(format!("{}: {failure}", store.kind.name()));
        }
    }
    ensure!(!measured.is_empty(), "nothing was measured");
    tell(samples, &measured, &mut findings);
    Ok(findings)
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
        for granularity_s in [60, 3600] {
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

/// A line per store, with gnudi's advantage after each figure.
fn tell(wanted: usize, measured: &[Measured], findings: &mut Findings) {
    let mut sheet = Sheet::<Measured>::new();
    sheet.text("", |store| store.kind.name());
    sheet.text("samples", |store| short(store.loaded.samples as f64));
    sheet.figure("loaded in", "load time", |store| Value::seconds(store.loaded.elapsed));
    sheet.compared("load", "load speed", |store| Value::rate(store.rate(), "sample"));
    for (index, name) in ["read by 60 s", "read by 3600 s"].into_iter().enumerate() {
        sheet.compared(name, name, move |store| store.reads.get(index).copied().map(Value::latency));
    }
    sheet.figure("on disk", "disk", |store| store.bytes.map(Value::Bytes));
    sheet.compared("a sample", "", |store| store.bytes_per_sample().map(|bytes| Value::each(bytes, "B")));
    for store in measured {
        let (name, samples) = (store.kind.name(), store.loaded.samples);
        findings.tell(format!("{name} samples"), Value::Count(samples as u64));
        sheet.add_figures(store, |figure| format!("{name} {figure}"), findings);
        findings.note(format!("{name}: {}; {}", store.loaded.note, store.kind.durability()));
        if let Some((empty, stored)) = store.bytes_empty.zip(store.bytes)
            && empty * 10 > stored
        {
            let empty = bytes(empty as f64);
            findings.note(format!("{name}: {empty} of its disk were laid out before the first sample"));
        }
        if samples < wanted {
            findings.note(format!(
                "{name}: {samples} of {wanted} samples: rates and bytes a sample are compared"
            ));
        }
    }
    let gnudi = measured.iter().find(|store| store.kind == SampleStore::Gnudi);
    findings.tables.push(sheet.table("Raw samples and aggregates", measured, |_| gnudi));
    findings
        .note("a read is the median over several instances; every answer was checked against the samples");
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
        let mut findings = Findings::default();
        tell(1000, &stores, &mut findings);
        let table = &findings.tables[0];
        assert!(table.rows.iter().all(|row| row.len() == table.headings.len()));
        let column = |name: &str| table.headings.iter().position(|heading| heading == name).unwrap();
        assert_eq!(table.rows[0][column("load") + 1], "10.0x");
        assert_eq!(table.rows[1][column("load") + 1], "");
        assert_eq!(table.rows[2][column("load") + 1], "20.0x");
        assert_eq!(table.rows[2][column("read by 60 s") + 1], "4.00x");
        assert_eq!(table.rows[2][column("a sample") + 1], "5.00x");
        let note = findings.notes.iter().find(|note| note.contains("100 of 1000 samples")).unwrap();
        assert!(note.starts_with("gnocchi"), "{note}");
    }
}
