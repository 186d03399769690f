//! The polling agent: one task per interval, which polls in rounds until it is stopped.
//!
//! A round goes through the sources of its interval in order, and runs a few pollsters of each at a time. A pollster
//! polls a resource once per round, however many sources name it. A round that takes longer than its interval delays
//! the next: rounds of a task never overlap.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use fastrand::Rng;
use futures_util::stream::{self, StreamExt as _};
use gnudi_model::Timestamp;
use parking_lot::Mutex;
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use tokio::{sync::watch, time::Instant};

use super::{
    cycle::Cycle,
    discovery::{AgentGroup, Discovery, DiscoveryError, split_url},
    exporter::{ExportedSeries, Exporter},
    heartbeat::Heartbeats,
    names::Names,
    outlet::{Outlet, SampleSender},
    partition::Partition,
    pollster::Pollster,
    resource::Resource,
    source::PollingSource,
};
use crate::{
    figures::{counter, gauge},
    time::naive_iso,
};

#[derive(Clone, Debug)]
pub struct PollingOptions {
    /// Samples per message; 0 for one.
    pub batch_size: usize,
    /// Pollsters of a source that run concurrently; 0 for all.
    pub pollsters_max: usize,
    /// The first round of each interval is delayed by up to this time, so that agents started together do not poll
    /// together.
    pub jitter_max: Duration,
    /// `source` of all samples.
    pub sample_source: String,
}

/// Clock and randomness; tests replace them.
pub struct Chance {
    /// Nanoseconds since the epoch.
    pub now: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// A new UUID, as text.
    pub new_id: Box<dyn Fn() -> String + Send + Sync>,
    /// Seeds the order of pollsters and the jitter.
    pub seed: u64,
}

/// Counters for `/metrics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollingCounts {
    pub rounds: u64,
    pub samples: u64,
    /// Pollsters that failed.
    pub failures: u64,
    /// Discoveries that failed.
    pub discovery_failures: u64,
    pub last_round_ms: u64,
}

/// Shared with the metrics page.
pub type Counts = Arc<Mutex<PollingCounts>>;

/// Needed since a registry owns its collectors, and the agent keeps its counters.
#[derive(Debug)]
pub struct PollingFigures(pub Counts);

impl Collector for PollingFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = *self.0.lock();
        for (name, help, count) in [
            ("rounds", "Rounds of polling that have ended", counts.rounds),
            ("samples", "Samples published", counts.samples),
            ("failures", "Pollsters that failed in a round", counts.failures),
            ("discovery_failures", "Discoveries that failed", counts.discovery_failures),
        ] {
            counter(&mut encoder, &format!("gnudi_polling_{name}"), help, count)?;
        }
        let seconds = counts.last_round_ms as f64 / 1000.0;
        gauge(&mut encoder, "gnudi_polling_last_round_seconds", "How long the last round took", seconds)
    }
}

pub struct PollingAgent {
    pub options: PollingOptions,
    pub sources: Vec<PollingSource>,
    pub pollsters: Vec<Arc<dyn Pollster>>,
    pub discoveries: Vec<Arc<dyn Discovery>>,
    pub partition: Arc<dyn Partition>,
    pub sender: Arc<dyn SampleSender>,
    /// Adds user and project names to samples, if configured.
    pub names: Option<Arc<Names>>,
    /// Also exports the samples.
    pub exporter: Option<Arc<Exporter>>,
    /// Notified when a pollster has something to poll.
    pub heartbeats: Option<Arc<Heartbeats>>,
    pub chance: Chance,
    pub counts: Counts,
}

/// What a round has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundOutcome {
    /// No source has a meter that can be polled here.
    pub selects_nothing: bool,
    /// Number of pollsters that published samples.
    pub polled: usize,
    /// Number of pollsters that failed.
    pub failed: usize,
    /// The discoveries that failed, so that their resources were not polled.
    pub discoveries_failed: Vec<String>,
}

impl RoundOutcome {
    /// Why the round counts as failed: sources without meters, resources that are unknown, or failures and no samples.
    pub fn fault(&self) -> Option<String> {
        if self.selects_nothing {
            return Some("no source has a meter that can be polled here".to_owned());
        }
        if !self.discoveries_failed.is_empty() {
            let failed = self.discoveries_failed.join(", ");
            return Some(format!("resources could not be discovered, and were not polled: {failed}"));
        }
        (self.failed > 0 && self.polled == 0)
            .then(|| format!("no pollster published samples; failed: {}", self.failed))
    }
}

/// What the pollsters of a round share.
#[derive(Default)]
struct Round {
    cycle: Cycle,
    /// By pollster, the resources that it has polled.
    seen: Mutex<HashMap<String, HashSet<Arc<str>>>>,
    outcome: Mutex<RoundOutcome>,
}

/// A source with its pollsters.
struct Work<'a> {
    source: &'a PollingSource,
    pollsters: Vec<&'a dyn Pollster>,
}

impl PollingAgent {
    /// Polls until `stop` becomes true; polls in progress are dropped. Returns at once if no source selects any
    /// pollster.
    pub async fn run(&self, mut stop: watch::Receiver<bool>) {
        let mut tasks = BTreeMap::<Duration, Vec<Work<'_>>>::new();
        for source in &self.sources {
            let work = self.work(source);
            if !work.pollsters.is_empty() {
                tasks.entry(source.interval).or_default().push(work);
            }
        }
        let mut random = Rng::with_seed(self.chance.seed);
        let rounds = tasks.into_iter().map(|(interval, works)| {
            let jitter = random.f64() * self.options.jitter_max.min(interval).as_secs_f64();
            self.repeat(interval, Duration::from_secs_f64(jitter), works, random.fork())
        });
        let all = futures_util::future::join_all(rounds.collect::<Vec<_>>());
        tokio::select! {
            _ = all => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    async fn repeat(&self, interval: Duration, jitter: Duration, works: Vec<Work<'_>>, mut random: Rng) {
        tokio::time::sleep(jitter).await;
        loop {
            let started = Instant::now();
            self.round(&works, &mut random).await;
            let elapsed = started.elapsed();
            {
                let mut counts = self.counts.lock();
                counts.rounds += 1;
                counts.last_round_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
            }
            if elapsed > interval {
                tracing::warn!(
                    elapsed_s = elapsed.as_secs(),
                    interval_s = interval.as_secs(),
                    "a round of polling took longer than its interval"
                );
            }
            tokio::time::sleep_until(started + interval).await;
        }
    }

    /// Runs one round of each interval.
    pub async fn poll_once(&self) -> RoundOutcome {
        let works: Vec<Work<'_>> = self.sources.iter().map(|source| self.work(source)).collect();
        let outcome = self.round(&works, &mut Rng::with_seed(self.chance.seed)).await;
        RoundOutcome { selects_nothing: works.iter().all(|work| work.pollsters.is_empty()), ..outcome }
    }

    fn work<'a>(&'a self, source: &'a PollingSource) -> Work<'a> {
        let selected = self.pollsters.iter().filter(|pollster| source.meters.matches(pollster.name()));
        let work = Work { source, pollsters: selected.map(AsRef::as_ref).collect() };
        if work.pollsters.is_empty() {
            tracing::warn!(source = source.name, "none of the source's meters can be polled here");
        }
        work
    }

    async fn round(&self, works: &[Work<'_>], random: &mut Rng) -> RoundOutcome {
        self.partition.refresh().await;
        let round = Round::default();
        let mut order: Vec<&Work<'_>> = works.iter().collect();
        random.shuffle(&mut order);
        for work in order {
            let mut pollsters = work.pollsters.clone();
            random.shuffle(&mut pollsters);
            let at_once = match self.options.pollsters_max {
                0 => pollsters.len().max(1),
                pollsters_max => pollsters_max,
            };
            let round = &round;
            stream::iter(pollsters)
                .for_each_concurrent(at_once, |pollster| async move {
                    self.poll(round, work.source, pollster).await;
                })
                .await;
        }
        round.outcome.into_inner()
    }

    async fn poll(&self, round: &Round, source: &PollingSource, pollster: &dyn Pollster) {
        if let Some(group) = &source.group
            && !self.partition.is_mine(group, pollster.name())
        {
            // This agent may have polled it before: the exporter must not go on to show those samples.
            self.show(source, pollster, Vec::new());
            tracing::debug!(meter = pollster.name(), source = source.name, "another agent polls it");
            return;
        }
        let mut resources = self.resources(round, source, pollster).await;
        {
            let mut seen = round.seen.lock();
            let seen = seen.entry(pollster.name().to_owned()).or_default();
            resources.retain(|resource| seen.insert(Arc::clone(&resource.id)));
        }
        if resources.is_empty() {
            self.show(source, pollster, Vec::new());
            tracing::debug!(meter = pollster.name(), source = source.name, "no resources in this round");
            return;
        }
        let timestamp = naive_iso((self.chance.now)());
        if let Some(heartbeats) = &self.heartbeats {
            heartbeats.beat(pollster.name(), &timestamp);
        }
        let mut outlet = Outlet {
            sender: self.sender.as_ref(),
            names: self.names.as_deref(),
            timestamp,
            source: self.options.sample_source.clone(),
            new_id: self.chance.new_id.as_ref(),
            batch_size: self.options.batch_size,
            waiting: Vec::new(),
            samples: 0,
            shown: self.exporter.as_ref().map(|_| Vec::new()),
            failure: None,
        };
        let polled = pollster.poll(&round.cycle, &resources, &mut outlet).await;
        let polled = match outlet.finish().await {
            Ok(()) => polled,
            Err(error) => polled.and(Err(error)),
        };
        self.show(source, pollster, outlet.shown.take().unwrap_or_default());
        let mut counts = self.counts.lock();
        counts.samples += outlet.samples;
        let mut outcome = round.outcome.lock();
        if let Err(error) = polled {
            counts.failures += 1;
            outcome.failed += 1;
            tracing::error!(%error, meter = pollster.name(), source = source.name, "cannot be polled in this round");
        } else if outlet.samples > 0 {
            outcome.polled += 1;
        }
    }

    fn show(&self, source: &PollingSource, pollster: &dyn Pollster, series: Vec<ExportedSeries>) {
        if let Some(exporter) = &self.exporter {
            exporter.replace(&source.name, pollster.name(), series);
        }
    }

    /// The resources named by the source, or else the pollster's default discovery; this agent's share of them.
    async fn resources(
        &self,
        round: &Round,
        source: &PollingSource,
        pollster: &dyn Pollster,
    ) -> Vec<Resource> {
        let named =
            source.resources.iter().filter(|name| self.partition.is_mine(&AgentGroup::Everywhere, name));
        let mut resources: Vec<Resource> = named.map(|name| Resource::named(name)).collect();
        for url in &source.discovery {
            resources.extend(self.discover(round, url).await.iter().cloned());
        }
        if let (true, Some(url)) = (resources.is_empty(), pollster.default_discovery()) {
            resources.extend(self.discover(round, url).await.iter().cloned());
        }
        resources
    }

    /// This agent's share of a discovery's resources; each discovery runs once per round.
    async fn discover(&self, round: &Round, url: &str) -> Arc<Vec<Resource>> {
        let ask = || async {
            self.try_discover(&round.cycle, url).await.unwrap_or_else(|error| {
                self.counts.lock().discovery_failures += 1;
                round.outcome.lock().discoveries_failed.push(url.to_owned());
                tracing::error!(%error, discovery = url, "no resources in this round");
                Vec::new()
            })
        };
        round.cycle.shared(format!("discovery {url}"), ask).await
    }

    async fn try_discover(&self, cycle: &Cycle, url: &str) -> Result<Vec<Resource>, DiscoveryError> {
        let (name, parameter) = split_url(url);
        let discovery = self.discoveries.iter().find(|discovery| discovery.name() == name);
        let discovery = discovery.ok_or_else(|| DiscoveryError("there is no such discovery".to_owned()))?;
        let mut resources = discovery.discover(cycle, parameter).await?;
        let group = discovery.group();
        resources.retain(|resource| self.partition.is_mine(&group, &discovery.key(resource)));
        Ok(resources)
    }
}

#[cfg(test)]
mod tests;
