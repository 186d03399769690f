//! `gnudi-benchmark notification`: drains a queue of samples with gnudi's notification agent, with Ceilometer's, and
//! with a consumer that only acknowledges, the broker's limit.

mod drain;
mod messages;

use std::{ffi::OsString, path::PathBuf, time::Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use futures_util::StreamExt as _;
use lapin::{
    options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions},
    types::FieldTable,
};

use crate::{
    context::Context,
    findings::{Findings, Value},
    peers::{
        Peer, program,
        rabbitmq::{self, RabbitMq},
    },
    process,
    sheet::Sheet,
};
use drain::{Agent, Drain};
use messages::{QUEUE, fill};

/// Drain a queue of samples with gnudi's notification agent and with Ceilometer's.
#[derive(Clone, Debug, Args)]
pub struct NotificationOptions {
    /// Messages in the queue.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    pub messages: u32,
    /// Instances in the samples.
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(50..=1_000_000))]
    pub instances: u32,
    /// Time limit of a drain in seconds, for Ceilometer's slow agent.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    /// Server that Ceilometer's agent publishes to: gnocchi, or gnudi.
    #[arg(long, value_enum, default_value_t = Peer::Gnudi)]
    pub peer_store: Peer,
    /// A virtual environment with Ceilometer.
    #[arg(long, value_name = "DIR", default_value = "target/bench/ceilometer")]
    pub ceilometer_venv: PathBuf,
    /// Skip Ceilometer's agent.
    #[arg(long)]
    pub without_ceilometer: bool,
}

/// Prefetch count of the consumer; higher ones are not faster.
const PREFETCH: u16 = 400;
const AIM: &str = "aim: 100 times Ceilometer's agent, or 80 % of what a consumer that only acknowledges gets";

type Drained = (&'static str, Drain);

pub fn run(options: &NotificationOptions, context: &Context) -> Result<Findings> {
    let mut findings = Findings::new("a queue of samples, drained by notification agents");
    let broker = RabbitMq::start(context)?;
    let mut drains: Vec<Drained> =
        vec![("a consumer that only acknowledges", only_acknowledge(options, context, &broker)?)];
    if !context.stop.is_set() {
        let mut start = vec![program(&context.programs)?.into_os_string()];
        start.extend(["agent", "notification"].map(OsString::from));
        let agent = Agent { start, upgrade: None, store: Peer::Gnudi };
        drains.push(("gnudi agent notification", agent.drain(options, context, &broker)?));
    }
    if !options.without_ceilometer && !context.stop.is_set() {
        let agent = Agent {
            start: vec![ceilometer(options, "ceilometer-agent-notification")?],
            upgrade: Some(ceilometer(options, "ceilometer-upgrade")?),
            store: options.peer_store,
        };
        drains.push(("ceilometer-agent-notification", agent.drain(options, context, &broker)?));
    }
    // Nothing was drained if it was stopped during the warm-up.
    if context.stop.is_set() {
        drains.pop_if(|(_, drain)| drain.messages < 1.0);
    }
    compare(&mut findings, &drains);
    let mut sheet = Sheet::<Drained>::new();
    sheet.text("", |(name, _)| (*name).to_owned());
    sheet.text("messages", |(_, drain)| format!("{:.0}", drain.messages));
    sheet.text("messages/s", |(_, drain)| format!("{:.1}", drain.rate()));
    sheet.text("samples/s", |(_, drain)| format!("{:.0}", drain.sample_rate()));
    sheet.text("us of processor time a sample", |(_, drain)| format!("{:.2}", drain.sample_us()));
    sheet.text("MB", |(_, drain)| format!("{:.0}", drain.memory_bytes as f64 / 1e6));
    findings.tables.push(sheet.table("Messages of 50 samples", &drains, |_| None));
    findings.note(AIM);
    Ok(findings)
}

/// The figures of gnudi's agent, beside the consumer's and Ceilometer's.
fn compare(findings: &mut Findings, drains: &[Drained]) {
    let [(_, limit), (_, ours), others @ ..] = drains else { return };
    findings.compare("gnudi", Value::rate(ours.rate(), "message"));
    findings.compare("gnudi, samples", Value::rate(ours.sample_rate(), "sample"));
    let of_processor = Value::rate(1e6 / ours.sample_us().max(1e-9), "sample");
    findings.compare("gnudi, by seconds of a processor", of_processor);
    findings.compare("gnudi, memory", Value::Bytes(ours.memory_bytes));
    findings.tell("of the broker's limit", Value::Percent(100.0 * ours.rate() / limit.rate()));
    for (_, theirs) in others {
        findings.tell("Ceilometer", Value::rate(theirs.rate(), "message"));
        findings.tell("times Ceilometer's rate", Value::Text(format!("{:.1}", ours.rate() / theirs.rate())));
        let cpu = theirs.sample_us() / ours.sample_us();
        findings.tell("times less processor time a sample", Value::Text(format!("{cpu:.1}")));
    }
}

fn ceilometer(options: &NotificationOptions, name: &str) -> Result<OsString> {
    let program = options.ceilometer_venv.join("bin").join(name);
    ensure!(program.exists(), "{} is missing: crates/bench/install-peers installs it", program.display());
    Ok(program.into_os_string())
}

/// A consumer that discards messages, until the queue is empty or the run is stopped.
fn only_acknowledge(options: &NotificationOptions, context: &Context, broker: &RabbitMq) -> Result<Drain> {
    let filled = fill(context, broker, options.instances, 0..options.messages)?;
    let cpu = process::own_cpu_seconds();
    let begin = Instant::now();
    let taken = context.runtime.block_on(async {
        let (_connection, channel) = rabbitmq::connect(&broker.url()).await?;
        channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        let mut deliveries = channel.basic_consume(QUEUE.into(), "limit".into(), options, arguments).await?;
        for number in 1..=filled {
            if context.stop.is_set() {
                return Ok(number - 1);
            }
            let delivery = deliveries.next().await.context("the consumer was cancelled")??;
            // One acknowledgement for many messages, like the agent.
            if number % 50 == 0 || number == filled {
                channel.basic_ack(delivery.delivery_tag, BasicAckOptions { multiple: true }).await?;
            }
        }
        anyhow::Ok(filled)
    })?;
    Ok(Drain {
        messages: f64::from(taken),
        seconds: begin.elapsed().as_secs_f64(),
        cpu_seconds: process::own_cpu_seconds() - cpu,
        ..Drain::default()
    })
}
