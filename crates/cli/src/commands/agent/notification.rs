//! `gnudi agent notification`, and the same within `gnudi serve --with notification`.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, anyhow, bail};
use futures_util::future::try_join_all;
use gnudi_telemetry::{
    events::{EventDefinitions, EventOptions},
    messaging::{AmqpOutbox, Consumer, Inbox, envelope::Version},
    meters::{MeterDefinitions, SampleOptions},
    notification::{
        AsideOptions, Duplicates, Figures, MessageHandler, MetadataMemory, NotificationAgent,
        NotificationAgentOptions, NotificationFiguresCollector, aside,
    },
    pipeline::{PipelineFigures, PipelineOrigin, Pipelines},
    publishers::{
        BusOptions, NotifierOptions, OpenError, PublisherContext, PublisherFigures, PublisherPanics,
        PublisherTasks, Publishers, ZaqarPublisher, bus_opener, gnocchi,
    },
    wire::Signer,
};
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use super::{broker, credentials, polling};
use crate::{
    args::AgentArgs,
    commands::{
        beside,
        collectors::{Sink, until_stopped},
        metrics, run_service, runtime,
    },
    config::Config,
    service_manager,
};

/// Timeout for what publishers have accepted and not sent yet. Where they retry for longer, the broker has the messages, except
/// those in the queues of `notifier://` with `policy=queue`.
const QUEUED_TIMEOUT: Duration = Duration::from_secs(2);

/// `gnudi agent notification`
pub fn run(args: &AgentArgs) -> Result<()> {
    let config = super::prepare(&args.program, "agent-notification")?;
    let threads = config.int("notification", "workers");
    let threads = threads.unwrap_or_else(|| crate::commands::processors() as i64);
    run_service(runtime(&config, "notification", Some(threads))?, async {
        crate::commands::ignore_hangup()?;
        let mut registry = Registry::default();
        let agent = NotificationService::new(&config, None, &mut registry)?;
        let stopped = until_stopped();
        let mut tasks = metrics::serve_if_configured(args.metrics_listen.as_deref(), &config, registry)?;
        service_manager::ready();
        // On a worker thread: this one would have to be woken for every message.
        let running = tokio::spawn(agent.run(stopped));
        beside(&mut tasks, async { running.await? }).await?;
        tracing::info!("stopped");
        Ok(())
    })
}

/// The agent, configured by ceilometer.conf.
pub struct NotificationService {
    agent: NotificationAgent,
    /// One per broker.
    consumers: Vec<(Consumer, Inbox)>,
    panics: PublisherPanics,
    outbox: Arc<AmqpOutbox>,
    aside: AsideOptions,
    figures: Arc<Figures>,
}

impl NotificationService {
    /// Reads all files and starts to connect. `own` is the server in this process, if there is one. Must be called
    /// within a Tokio runtime.
    pub fn new(config: &Config, own: Option<&Sink>, registry: &mut Registry) -> Result<Self> {
        let (tasks, panics) = PublisherTasks::watched();
        let pipelines = pipelines(config, own, registry.sub_registry_with_prefix("gnudi"), &tasks)?;
        let figures = Arc::new(Figures::default());
        registry.register_collector(Box::new(NotificationFiguresCollector(figures.clone())));
        let handler = MessageHandler {
            meters: meters(config, &pipelines)?,
            names: polling::names(config, polling::cloud(config)?),
            events: events(config, &pipelines)?,
            pipelines: Arc::new(pipelines),
            figures: figures.clone(),
            duplicates: Duplicates::default().into(),
            metadata: MetadataMemory::default(),
        };
        let name = format!("gnudi agent notification on {}", super::host(config));
        let aside = aside_options(config)?;
        let options = NotificationAgentOptions {
            tries_max: u32::try_from(config.size("notification", "tries_max")).unwrap_or(u32::MAX),
            aside: aside.clone(),
            graceful_timeout: crate::commands::graceful_timeout(config),
        };
        let outbox = Arc::new(AmqpOutbox::new(broker::aside_broker(config, &name)?));
        let agent = NotificationAgent::new(handler, outbox.clone(), options);
        let mut consumers = Vec::new();
        for broker in broker::brokers(config, &name)? {
            let consumer = Consumer::start(broker, broker::listening(config))
                .context("the notification agent's queues")?;
            consumers.push(consumer);
        }
        Ok(NotificationService { agent, consumers, panics, outbox, aside, figures })
    }

    /// Processes notifications until `stop`, then finishes those in flight.
    ///
    /// # Errors
    /// A part of it has ended before.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<()> {
        let (told, stopped) = watch::channel(false);
        let running = try_join_all(self.consumers.into_iter().map(|(consumer, inbox)| {
            let mut stop = stopped.clone();
            let running = self.agent.run(consumer, inbox, async move {
                let _ = stop.wait_for(|stop| *stop).await;
            });
            to_be_stopped(running, stopped.clone())
        }));
        let stopping = async {
            stop.await;
            tracing::info!("stopping");
            let _ = told.send(true);
            anyhow::Ok(())
        };
        let mut keeping = tokio::spawn(aside::enforce_limits(self.outbox.clone(), self.aside, self.figures));
        let outcome = tokio::select! {
            outcome = async { tokio::try_join!(running, stopping) } => outcome.map(drop),
            ended = &mut keeping => Err(anyhow!("the limits of the aside queue are not kept: {ended:?}")),
            name = self.panics.recv() => Err(anyhow!("{name} has failed")),
        };
        keeping.abort();
        // Its publishers end with it.
        drop(self.agent);
        if tokio::time::timeout(QUEUED_TIMEOUT, self.panics.ended()).await.is_err() {
            tracing::warn!("publishers were still sending: what is only in their queues is lost");
        }
        self.outbox.close().await;
        outcome
    }
}

/// Runs a task that must not end before it is stopped.
async fn to_be_stopped(running: impl Future<Output = ()>, stopped: watch::Receiver<bool>) -> Result<()> {
    running.await;
    if !*stopped.borrow() {
        bail!("what consumes from the broker has ended");
    }
    Ok(())
}

/// Whether the agent could start with these files and options. Opens no publisher.
pub fn check(config: &Config) -> Result<()> {
    aside_options(config)?;
    config.named_file("event", "definitions_cfg_file")?;
    let [samples, events] = origins(config)?;
    // Nothing is started.
    let (tasks, _) = PublisherTasks::watched();
    let publishers = publishers(config, None, &mut Registry::default(), &tasks)?;
    Pipelines::check(&samples, &events, &|url| publishers.check(url)).context("the notification agent")
}

/// Where the pipelines of samples and those of events come from.
fn origins(config: &Config) -> Result<[PipelineOrigin; 2]> {
    let names = config.list("notification", "pipelines");
    if let Some(other) = names.iter().find(|name| !matches!(name.as_str(), "meter" | "event")) {
        bail!("{} = {other}: must be meter or event", config.place("notification", "pipelines"));
    }
    let origin = |pipeline: &str, option: &str| {
        if names.iter().any(|name| name == pipeline) {
            pipeline_file(config, option)
        } else {
            Ok(PipelineOrigin::Nowhere)
        }
    };
    Ok([origin("meter", "pipeline_cfg_file")?, origin("event", "event_pipeline_cfg_file")?])
}

fn pipelines(
    config: &Config,
    own: Option<&Sink>,
    registry: &mut Registry,
    tasks: &PublisherTasks,
) -> Result<Pipelines> {
    let [samples, events] = origins(config)?;
    let publishers = publishers(config, own, registry, tasks)?;
    let figures = PipelineFigures::default();
    figures.register(registry);
    let pipelines = Pipelines::load(&samples, &events, &|url, kind| publishers.open(url, kind), figures)?;
    for publisher in pipelines.publishers_left_out() {
        tracing::error!("{publisher}");
    }
    Ok(pipelines)
}

/// Without an aside queue, failing messages would be retried forever.
pub fn aside_options(config: &Config) -> Result<AsideOptions> {
    let name = config.text("notification", "aside_queue").unwrap_or_default();
    if name.is_empty() || name.len() > 255 {
        bail!("{} = {name}: a queue's name has 1 to 255 bytes", config.place("notification", "aside_queue"));
    }
    let messages_max = Some(config.size("notification", "aside_length_max")).filter(|most| *most > 0);
    Ok(AsideOptions {
        queue: name.to_owned(),
        messages_max: messages_max.map(|most| u32::try_from(most).unwrap_or(u32::MAX)),
        age_max: Some(config.seconds("notification", "aside_age_max")).filter(|age| !age.is_zero()),
    })
}

/// A configured file must exist; otherwise the defaults apply.
fn pipeline_file(config: &Config, option: &str) -> Result<PipelineOrigin> {
    if let Some(path) = config.named_file("DEFAULT", option)? {
        return Ok(PipelineOrigin::File(path));
    }
    let name = config.text("DEFAULT", option).unwrap_or_default();
    tracing::info!(file = name, "the file does not exist: everything goes to the store");
    Ok(PipelineOrigin::Defaults)
}

fn publishers(
    config: &Config,
    own: Option<&Sink>,
    registry: &mut Registry,
    tasks: &PublisherTasks,
) -> Result<Publishers> {
    let figures = PublisherFigures::default();
    figures.register(registry);
    let host = super::host(config);
    let topic = |name| config.text("publisher_notifier", name).unwrap_or_default().to_owned();
    let broker = broker::main_broker(config, &format!("gnudi publisher on {host}"))?;
    let bus = BusOptions {
        exchange: config.text("DEFAULT", "control_exchange").unwrap_or_default().to_owned(),
        version: match config.text("publisher_notifier", "telemetry_driver") {
            Some("messaging") => Version::Bare,
            _ => Version::Two,
        },
        host: host.clone(),
    };
    let zaqar_counts = figures.of("zaqar");
    let mut publishers = Publishers::built_in(PublisherContext {
        host,
        signer: Signer::new(config.text("publisher", "telemetry_secret").unwrap_or_default()),
        notifier: NotifierOptions {
            metering_topic: topic("metering_topic"),
            event_topic: topic("event_topic"),
            open: bus_opener(broker, bus),
        },
        figures,
        tasks: tasks.clone(),
    });
    // Only needed if a pipeline publishes to Zaqar.
    let section = config.text("zaqar", "auth_section").unwrap_or("service_credentials");
    let zaqar = credentials::keystone(config, section).and_then(|keystone| {
        keystone.with_context(|| format!("[{section}] auth_url is not set: no credentials"))
    });
    match zaqar {
        Ok(keystone) => {
            publishers.add("zaqar", move |url, _| ZaqarPublisher::open(url, &keystone, zaqar_counts.clone()));
        }
        Err(error) => publishers.refuse("zaqar", OpenError(gnudi_http::with_causes(&*error))),
    }
    let figures = gnocchi::GnocchiFigures::default();
    figures.register(registry);
    match credentials::gnocchi(config, own) {
        Ok(options) => publishers.add("gnocchi", gnocchi::opener(options, figures, tasks.clone())),
        // Only needed if a pipeline publishes to the store.
        Err(error) => publishers.refuse("gnocchi", OpenError(gnudi_http::with_causes(&*error))),
    }
    Ok(publishers)
}

/// `None` if no pipeline accepts samples.
fn meters(config: &Config, pipelines: &Pipelines) -> Result<Option<MeterDefinitions>> {
    if !pipelines.take_samples() {
        return Ok(None);
    }
    let folders: Vec<PathBuf> =
        config.list("meter", "meter_definitions_dirs").into_iter().map(PathBuf::from).collect();
    let options = SampleOptions {
        sample_source: config.text("DEFAULT", "sample_source").unwrap_or_default().to_owned(),
        reserved: super::reserved_metadata(config),
    };
    let is_set = config.is_set("meter", "meter_definitions_dirs");
    Ok(Some(MeterDefinitions::load(is_set.then_some(folders.as_slice()), options)?))
}

/// The same for events.
fn events(config: &Config, pipelines: &Pipelines) -> Result<Option<EventDefinitions>> {
    if !pipelines.take_events() {
        return Ok(None);
    }
    let file = config.named_file("event", "definitions_cfg_file")?;
    let options = EventOptions {
        drop_unmatched_notifications: config.bool("event", "drop_unmatched_notifications"),
        store_raw: config.list("event", "store_raw"),
    };
    Ok(Some(EventDefinitions::load(file.as_deref(), &options)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_consumer_that_ends_unasked_is_an_error() {
        let (stop, stopped) = watch::channel(false);
        assert!(to_be_stopped(std::future::ready(()), stopped.clone()).await.is_err());
        stop.send_replace(true);
        assert!(to_be_stopped(std::future::ready(()), stopped).await.is_ok());
    }
}
