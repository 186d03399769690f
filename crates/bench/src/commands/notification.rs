//! `gnudi benchmark notification`: a queue full of samples, drained by gnudi's notification agent, by Ceilometer's, and by a
//! consumer that only acknowledges, which is what the broker gives at most.
//!
//! Each agent brings a store up to date first with one round of all instances and meters; then it is started anew on a full
//! queue. What is measured begins with the first message that leaves the queue and ends with the last.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use futures_util::StreamExt as _;
use lapin::{
    BasicProperties, Channel, PublisherConfirm,
    options::{
        BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
        QueueDeclareOptions, QueuePurgeOptions,
    },
    types::FieldTable,
};

use crate::{
    context::Context,
    findings::{Better, Findings, Table, Value},
    peers::{
        Peer, Server,
        child::{Guarded, Signal},
        directory, program,
        rabbitmq::{self, RabbitMq},
    },
    process::{self, Probe},
};

/// Drain a queue of samples by gnudi's notification agent and by Ceilometer's.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Messages in the queue.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    pub messages: u32,
    /// Instances that the samples are about.
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(50..=1_000_000))]
    pub instances: u32,
    /// Seconds after which a drain is cut off: Ceilometer's agent is not waited for.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    /// What Ceilometer's agent publishes to: gnocchi, or gnudi.
    #[arg(long, value_enum, default_value_t = Peer::Gnudi)]
    pub peer_store: Peer,
    /// A virtual environment with Ceilometer.
    #[arg(long, value_name = "DIR", default_value = "target/bench/ceilometer")]
    pub ceilometer_venv: PathBuf,
    /// Leave Ceilometer's agent out.
    #[arg(long)]
    pub without_ceilometer: bool,
}

const QUEUE: &str = "notifications.sample";
const SAMPLES: u32 = 50;
const METERS: [(&str, &str, &str); 4] = [
    ("cpu", "cumulative", "ns"),
    ("memory.usage", "gauge", "MB"),
    ("power.state", "gauge", "state"),
    ("vcpus", "gauge", "vcpu"),
];
/// Messages that a consumer may hold; the broker's speed no longer grows with it.
const PREFETCH: u16 = 400;
const LOOK_DELAY: Duration = Duration::from_millis(20);
/// How long a round that creates resources may take.
const WARM_UP_MAX: Duration = Duration::from_mins(30);
const AIM: &str = "aim: 100 times Ceilometer's agent, or 80 % of what a consumer that only acknowledges gets";

/// A drain.
#[derive(Clone, Copy, Debug, Default)]
struct Drain {
    messages: f64,
    seconds: f64,
    cpu_seconds: f64,
    memory_bytes: u64,
}

impl Drain {
    fn rate(&self) -> f64 {
        self.messages / self.seconds.max(1e-9)
    }

    fn sample_us(&self) -> f64 {
        self.cpu_seconds * 1e6 / (self.messages * f64::from(SAMPLES)).max(1.0)
    }
}

pub fn run(options: &Options, context: &mut Context) -> Result<Findings> {
    let mut findings = Findings::new("notification", "a queue of samples, drained by notification agents");
    let broker = RabbitMq::start(context)?;
    let limit = only_acknowledge(options, context, &broker)?;
    let ours = {
        let command = |configuration: &Path| {
            let mut command = Command::new(program(&context.programs)?);
            command.args(["agent", "notification", "--config-file"]).arg(configuration);
            Ok(command)
        };
        drain_by(&command, Peer::Gnudi, options, context, &broker)?
    };
    let mut drains = vec![("a consumer that only acknowledges", limit), ("gnudi agent notification", ours)];
    findings.compare("gnudi", Value::Rate(ours.rate(), "message"), Better::Higher);
    findings.compare(
        "gnudi, samples",
        Value::Rate(ours.rate() * f64::from(SAMPLES), "sample"),
        Better::Higher,
    );
    let of_processor = Value::Rate(1e6 / ours.sample_us().max(1e-9), "sample");
    findings.compare("gnudi, by seconds of a processor", of_processor, Better::Higher);
    findings.compare("gnudi, memory", Value::Bytes(ours.memory_bytes), Better::Lower);
    findings.tell("of the broker's limit", Value::Percent(100.0 * ours.rate() / limit.rate()));
    if !options.without_ceilometer && !context.stop.is_set() {
        let program = options.ceilometer_venv.join("bin/ceilometer-agent-notification");
        ensure!(program.exists(), "{} is missing: crates/bench/install-peers installs it", program.display());
        let command = |configuration: &Path| {
            let mut command = Command::new(&program);
            command.arg("--config-file").arg(configuration);
            Ok(command)
        };
        let theirs = drain_by(&command, options.peer_store, options, context, &broker)?;
        drains.push(("ceilometer-agent-notification", theirs));
        findings.tell("Ceilometer", Value::Rate(theirs.rate(), "message"));
        findings.tell("times Ceilometer's rate", Value::Text(format!("{:.1}", ours.rate() / theirs.rate())));
        let cpu = theirs.sample_us() / ours.sample_us();
        findings.tell("times less processor time a sample", Value::Text(format!("{cpu:.1}")));
    }
    let row = |(name, drain): &(&str, Drain)| {
        vec![
            (*name).to_owned(),
            format!("{:.0}", drain.messages),
            format!("{:.1}", drain.rate()),
            format!("{:.0}", drain.rate() * f64::from(SAMPLES)),
            format!("{:.2}", drain.sample_us()),
            format!("{:.0}", drain.memory_bytes as f64 / 1e6),
        ]
    };
    findings.tables.push(Table {
        title: "Messages of 50 samples".to_owned(),
        headings: ["", "messages", "messages/s", "samples/s", "us of processor time a sample", "MB"]
            .map(str::to_owned)
            .to_vec(),
        rows: drains.iter().map(row).collect(),
    });
    findings.note(AIM);
    if context.stop.is_set() {
        findings.partial = Some("interrupted".to_owned());
    }
    Ok(findings)
}

/// An agent on a store of its own: one round that creates everything, then the drain.
fn drain_by(
    command: &dyn Fn(&Path) -> Result<Command>,
    store: Peer,
    options: &Options,
    context: &Context,
    broker: &RabbitMq,
) -> Result<Drain> {
    let server = Server::start(store, context)?;
    let directory = directory(&context.leftovers)?;
    let configuration = configure(directory.path(), broker, &server)?;
    let start = || -> Result<Guarded> {
        Guarded::start(
            command(&configuration)?,
            &directory.path().join("agent.log"),
            Signal::Term,
            &context.leftovers,
        )
    };
    let round = options.instances.div_ceil(SAMPLES) * METERS.len() as u32;
    fill(options, context, broker, 0..round)?;
    drain(start()?, context, broker, WARM_UP_MAX)?;
    purge(context, broker)?;
    fill(options, context, broker, round..round + options.messages)?;
    let drained = drain(start()?, context, broker, Duration::from_secs(options.seconds))?;
    purge(context, broker)?;
    Ok(drained)
}

/// What both agents are configured by.
fn configure(directory: &Path, broker: &RabbitMq, server: &Server) -> Result<PathBuf> {
    let shown = directory.display();
    let host = &server.headers.host;
    let prefix = &server.headers.prefix;
    let configuration = format!(
        "[DEFAULT]\ntransport_url = {}\npipeline_cfg_file = {shown}/pipeline.yaml\n\
         [notification]\npipelines = meter\nworkers = 1\n\
         [service_credentials]\nauth_type = none\n\
         [gnocchi]\nauth_section = gnocchi\nauth_type = gnocchi-basic\nuser = admin\nendpoint = http://{host}{prefix}\n",
        broker.transport_url()
    );
    let path = directory.join("ceilometer.conf");
    std::fs::write(&path, configuration)?;
    std::fs::write(
        directory.join("pipeline.yaml"),
        "sources: [{name: all, meters: ['*'], sinks: [store]}]\n\
         sinks: [{name: store, publishers: ['gnocchi://?enable_filter_project=false']}]\n",
    )?;
    Ok(path)
}

/// Measures an agent until the queue is empty or the time is over, and stops it.
fn drain(mut agent: Guarded, context: &Context, broker: &RabbitMq, most: Duration) -> Result<Drain> {
    let (_connection, channel) = context.runtime.block_on(rabbitmq::connect(&broker.url()))?;
    let depth = || context.runtime.block_on(rabbitmq::depth(&channel, QUEUE));
    let probe = Probe::Processes(vec![agent.pid()]);
    let whole = depth()?;
    agent.wait_ready(WARM_UP_MAX, || depth().is_ok_and(|depth| depth < whole) || context.stop.is_set())?;
    let (begin, cpu, first) = (Instant::now(), probe.cpu_seconds().unwrap_or(0.0), depth()?);
    let mut drained = Drain::default();
    let mut last = first;
    while last > 0 && begin.elapsed() < most && !context.stop.is_set() {
        std::thread::sleep(LOOK_DELAY);
        last = depth()?;
        drained.memory_bytes = drained.memory_bytes.max(probe.memory_bytes().unwrap_or(0));
    }
    let cut_off = begin.elapsed();
    drained.cpu_seconds = probe.cpu_seconds().unwrap_or(0.0) - cpu;
    // What it has taken and is not done with is in no queue. One that has emptied the queue ends what it has begun, and its time runs until
    // then; of one that is cut off, what it gives back was not drained.
    drop(agent);
    drained.seconds = if last > 0 { cut_off } else { begin.elapsed() }.as_secs_f64();
    let left = depth()?;
    drained.messages = first.saturating_sub(left) as f64;
    ensure!(last > 0 || left == 0, "{left} messages came back from an agent that had emptied the queue");
    Ok(drained)
}

fn purge(context: &Context, broker: &RabbitMq) -> Result<()> {
    context.runtime.block_on(async {
        let (_connection, channel) = rabbitmq::connect(&broker.url()).await?;
        channel.queue_purge(QUEUE.into(), QueuePurgeOptions::default()).await?;
        Ok(())
    })
}

/// A consumer that looks at nothing.
fn only_acknowledge(options: &Options, context: &Context, broker: &RabbitMq) -> Result<Drain> {
    fill(options, context, broker, 0..options.messages)?;
    let cpu = process::own_cpu_seconds();
    let begin = Instant::now();
    context.runtime.block_on(async {
        let (_connection, channel) = rabbitmq::connect(&broker.url()).await?;
        channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
        let consuming = channel.basic_consume(
            QUEUE.into(),
            "limit".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let mut deliveries = consuming.await?;
        for number in 1..=options.messages {
            let delivery = deliveries.next().await.context("the consumer was cancelled")??;
            // One acknowledgement for many, as the agent does.
            if number % 50 == 0 || number == options.messages {
                channel.basic_ack(delivery.delivery_tag, BasicAckOptions { multiple: true }).await?;
            }
        }
        anyhow::Ok(())
    })?;
    Ok(Drain {
        messages: f64::from(options.messages),
        seconds: begin.elapsed().as_secs_f64(),
        cpu_seconds: process::own_cpu_seconds() - cpu,
        memory_bytes: 0,
    })
}

/// Puts messages into the queue; their numbers say what they are about.
fn fill(
    options: &Options,
    context: &Context,
    broker: &RabbitMq,
    numbers: std::ops::Range<u32>,
) -> Result<()> {
    const UNCONFIRMED_MAX: usize = 1_000;
    context.runtime.block_on(async {
        let (_connection, channel) = rabbitmq::connect(&broker.url()).await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        channel.queue_declare(QUEUE.into(), QueueDeclareOptions::default(), FieldTable::default()).await?;
        let mut confirms = Vec::new();
        for number in numbers {
            confirms.push(publish(&channel, &message(number, options.instances)).await?);
            if confirms.len() >= UNCONFIRMED_MAX {
                for confirm in confirms.drain(..) {
                    confirm.await?;
                }
            }
        }
        for confirm in confirms {
            confirm.await?;
        }
        Ok(())
    })
}

async fn publish(channel: &Channel, body: &str) -> Result<PublisherConfirm> {
    let properties = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_content_encoding("utf-8".into())
        .with_delivery_mode(2);
    let confirm = channel.basic_publish(
        "".into(),
        QUEUE.into(),
        BasicPublishOptions::default(),
        body.as_bytes(),
        properties,
    );
    Ok(confirm.await?)
}

/// A message as `ceilometer.polling` sends it: one meter of 50 instances; instances and meters take turns, and each round is a
/// minute later.
fn message(number: u32, instances: u32) -> String {
    let chunks = instances.div_ceil(SAMPLES);
    let (round, place) = (number / (chunks * METERS.len() as u32), number % (chunks * METERS.len() as u32));
    let (name, kind, unit) = METERS[(place / chunks) as usize];
    let minutes = round % (28 * 24 * 60);
    let (day, hour, minute) = (1 + minutes / 1_440, minutes / 60 % 24, minutes % 60);
    let timestamp = format!("2026-02-{day:02}T{hour:02}:{minute:02}:00.123456");
    let samples: Vec<serde_json::Value> = (0..SAMPLES)
        .map(|index| {
            let instance = (place % chunks * SAMPLES + index) % instances;
            sample(name, kind, unit, &timestamp, instance, f64::from(round) + f64::from(index) / 64.0)
        })
        .collect();
    let id = uuid::Uuid::from_u64_pair(1, u64::from(number));
    let inner = serde_json::json!({
        "message_id": id, "publisher_id": "ceilometer.polling", "event_type": "telemetry.polling", "priority": "SAMPLE",
        "payload": { "samples": samples }, "timestamp": timestamp.replace('T', " "),
        "_unique_id": id.simple().to_string(),
    });
    serde_json::json!({ "oslo.version": "2.0", "oslo.message": inner.to_string() }).to_string()
}

fn sample(
    name: &str,
    kind: &str,
    unit: &str,
    timestamp: &str,
    instance: u32,
    volume: f64,
) -> serde_json::Value {
    let resource = uuid::Uuid::from_u64_pair(2, u64::from(instance)).to_string();
    let project = format!("{:032x}", 7 + instance / 20);
    serde_json::json!({
        "counter_name": name, "counter_type": kind, "counter_unit": unit, "counter_volume": volume,
        "user_id": "0123456789abcdef0123456789abcdef", "user_name": null, "project_id": project, "project_name": null,
        "resource_id": resource, "timestamp": timestamp, "monotonic_time": null, "source": "openstack",
        "message_id": uuid::Uuid::from_u64_pair(3, u64::from(instance)).to_string(), "message_signature": "",
        "resource_metadata": {
            "display_name": format!("server-{instance}"), "name": format!("instance-{instance:08x}"),
            "instance_id": resource, "instance_type": "m1.small", "host": "c3f1a7d9", "instance_host": "compute-17",
            "flavor": {"id": "4b5e", "name": "m1.small", "vcpus": 2, "ram": 2048, "disk": 20, "ephemeral": 0, "swap": 0},
            "status": "active", "state": "running", "task_state": "", "image": {"id": "7f00"}, "image_ref": "7f00",
            "image_ref_url": null, "architecture": "x86_64", "OS-EXT-AZ:availability_zone": "nova",
            "vcpus": 2, "memory_mb": 2048, "disk_gb": 20, "ephemeral_gb": 0, "root_gb": 20,
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn a_round_holds_each_meter_of_each_instance() {
        let mut seen = HashSet::new();
        for number in 0..8 {
            let outer: Value = serde_json::from_str(&message(number, 100)).unwrap();
            let inner: Value = serde_json::from_str(outer["oslo.message"].as_str().unwrap()).unwrap();
            for sample in inner["payload"]["samples"].as_array().unwrap() {
                seen.insert((sample["counter_name"].to_string(), sample["resource_id"].to_string()));
                assert_eq!(sample["timestamp"], "2026-02-01T00:00:00.123456");
            }
        }
        assert_eq!(seen.len(), 400);
        assert!(message(8, 100).contains("2026-02-01T00:01:00"));
    }
}
