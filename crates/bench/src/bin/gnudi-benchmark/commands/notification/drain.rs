//! Drains a full queue with an agent that has its own store.
//!
//! The agent first creates all resources in its store, by one round of all instances and meters. Then it is restarted
//! with a further round, which warms its caches, followed by the measured messages. Time runs from when the queue holds
//! only those until the last is acknowledged. Stored samples are checked before and after.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use gnudi_client::{Client, MeasuresFilter};
use lapin::options::QueuePurgeOptions;

use super::{
    NotificationOptions,
    messages::{Content, METERS, QUEUE, SAMPLES, fill, round},
};
use crate::{
    context::Context,
    load::Headers,
    peers::{
        Peer, Server,
        child::{Guarded, Signal, log_end},
        directory,
        rabbitmq::{self, RabbitMq},
    },
    process::Probe,
};

const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time limit of the rounds that create resources or fill caches.
const WARM_UP_MAX: Duration = Duration::from_mins(30);
/// Time limit until the store shows accepted measures.
const SHOW_MAX: Duration = Duration::from_mins(2);

#[derive(Clone, Copy, Debug, Default)]
pub struct Drain {
    pub messages: f64,
    pub seconds: f64,
    pub cpu_seconds: f64,
    pub memory_bytes: u64,
    /// Messages in the queue at the end.
    pub left: u64,
}

impl Drain {
    pub fn rate(&self) -> f64 {
        self.messages / self.seconds.max(1e-9)
    }

    pub fn sample_rate(&self) -> f64 {
        self.rate() * f64::from(SAMPLES)
    }

    pub fn sample_us(&self) -> f64 {
        self.cpu_seconds * 1e6 / (self.messages * f64::from(SAMPLES)).max(1.0)
    }
}

/// An agent to measure: command lines without the configuration.
pub struct Agent {
    pub start: Vec<OsString>,
    /// Prepares the store before the start, if the agent does not do so itself.
    pub upgrade: Option<OsString>,
    pub store: Peer,
}

impl Agent {
    pub fn drain(
        &self,
        options: &NotificationOptions,
        context: &Context,
        broker: &RabbitMq,
    ) -> Result<Drain> {
        let server = Server::start(self.store, context)?;
        let directory = directory(&context.leftovers)?;
        let configuration = configure(directory.path(), broker, &server)?;
        let log = directory.path().join("agent.log");
        let launch = |words: &[OsString]| {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).arg("--config-file").arg(&configuration);
            Guarded::start(&mut command, &log, Signal::TERM, &context.leftovers)
        };
        if let Some(upgrade) = &self.upgrade {
            let ended = launch(std::slice::from_ref(upgrade))?.wait_end(|| context.stop.is_set())?;
            ensure!(ended.is_none_or(|status| status.success()), "ceilometer-upgrade: {}", log_end(&log));
        }
        let (instances, round) = (options.instances, round(options.instances));
        fill(context, broker, instances, 0..round)?;
        // A stopped agent may requeue unfinished messages.
        while measure(launch(&self.start)?, context, broker, 0, WARM_UP_MAX)?.left > 0
            && !context.stop.is_set()
        {}
        if !context.stop.is_set() {
            let last = Content::new(round - 1, instances);
            expect_stored(&server, &last).with_context(|| log_end(&log))?;
        }
        fill(context, broker, instances, round..2 * round + options.messages)?;
        if context.stop.is_set() {
            return Ok(Drain::default());
        }
        let limit = Duration::from_secs(options.seconds);
        let drained = measure(launch(&self.start)?, context, broker, u64::from(options.messages), limit)?;
        purge(context, broker)?;
        if !context.stop.is_set() && drained.messages >= 1.0 {
            // Messages need not be stored in order: not the last one.
            let number = 2 * round + drained.messages as u32 / 2;
            expect_stored(&server, &Content::new(number, instances)).with_context(|| log_end(&log))?;
        }
        Ok(drained)
    }
}

/// The configuration shared by both agents.
fn configure(directory: &Path, broker: &RabbitMq, server: &Server) -> Result<PathBuf> {
    let shown = directory.display();
    let Headers { host, prefix, .. } = &server.headers;
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

/// Measures an agent from when the queue holds at most `begin_at` messages until it is empty, or the time limit, and
/// stops it.
fn measure(
    mut agent: Guarded,
    context: &Context,
    broker: &RabbitMq,
    begin_at: u64,
    most: Duration,
) -> Result<Drain> {
    let (_connection, channel) = context.runtime.block_on(rabbitmq::connect(&broker.url()))?;
    let depth = || context.runtime.block_on(rabbitmq::depth(&channel, QUEUE));
    let probe = Probe::Processes(vec![agent.pid()]);
    let mut first = depth()?;
    agent.wait_ready(WARM_UP_MAX, || {
        first = depth().unwrap_or(first);
        first <= begin_at || context.stop.is_set()
    })?;
    let (begin, cpu) = (Instant::now(), probe.cpu_seconds().unwrap_or(0.0));
    let mut drained = Drain { memory_bytes: probe.memory_bytes().unwrap_or(0), ..Drain::default() };
    let mut last = first;
    while last > 0 && begin.elapsed() < most && !context.stop.is_set() {
        std::thread::sleep(POLL_INTERVAL);
        last = depth()?;
        drained.memory_bytes = drained.memory_bytes.max(probe.memory_bytes().unwrap_or(0));
    }
    let cut_off = begin.elapsed();
    drained.cpu_seconds = probe.cpu_seconds().unwrap_or(0.0) - cpu;
    // Unacknowledged messages are in no queue. An agent that has emptied the queue finishes them before it exits, and
    // its time runs until then; messages that it requeues do not count.
    drop(agent);
    drained.seconds = if last > 0 { cut_off } else { begin.elapsed() }.as_secs_f64();
    drained.left = depth()?;
    drained.messages = first.saturating_sub(drained.left) as f64;
    Ok(drained)
}

/// Waits until the store shows the last sample of a message: an agent that loses samples would be fast.
fn expect_stored(server: &Server, content: &Content) -> Result<()> {
    let context = server.context;
    let client = server.client()?;
    let (resource, meter, minute) =
        (content.resource(SAMPLES - 1), METERS[content.meter].0, content.minute());
    let deadline = Instant::now() + SHOW_MAX;
    while !context.runtime.block_on(shows(&client, &resource.to_string(), meter, &minute))? {
        ensure!(
            Instant::now() < deadline || context.stop.is_set(),
            "the store has no {meter} of {resource} of {minute}, which the agent has acknowledged"
        );
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

/// Whether a metric has a point at or after the five minutes of this minute.
async fn shows(client: &Client, resource: &str, meter: &str, minute: &str) -> Result<bool> {
    let resource = client
        .get_resource("instance", resource)
        .await
        .context("an instance that the agent should have made")?;
    let metric = *resource.metrics.get(meter).with_context(|| format!("{meter} is missing"))?;
    let filter =
        MeasuresFilter { start: Some(minute.to_owned()), refresh: true, ..MeasuresFilter::default() };
    Ok(!client.get_measures(metric, &filter).await?.is_empty())
}

fn purge(context: &Context, broker: &RabbitMq) -> Result<()> {
    context.runtime.block_on(async {
        let (_connection, channel) = rabbitmq::connect(&broker.url()).await?;
        channel.queue_purge(QUEUE.into(), QueuePurgeOptions::default()).await?;
        Ok(())
    })
}
