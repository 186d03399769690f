//! Rounds of polling with fake pollsters, discoveries and partitions.

use std::path::Path;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::*;
use crate::{
    polling::{
        partition::Alone,
        pollster::{Meter, PollError, Polled},
        source,
    },
    sample::Sample,
};

/// Records messages as lists of (meter, resource, timestamp).
#[derive(Default)]
struct Kept {
    messages: Mutex<Vec<Vec<(String, String, String)>>>,
}

#[async_trait]
impl SampleSender for Kept {
    async fn send(&self, samples: &[Sample<'_>]) -> Result<(), PollError> {
        let message = samples.iter().map(|sample| {
            assert_eq!((sample.source.as_ref(), sample.id.len()), ("here", 36));
            let timestamp = sample.timestamp.clone().unwrap().into_owned();
            (sample.name.clone().into_owned(), sample.resource_id.clone().into_owned(), timestamp)
        });
        self.messages.lock().push(message.collect());
        Ok(())
    }
}

impl Kept {
    fn resources(&self, meter: &str) -> Vec<String> {
        let messages = self.messages.lock();
        let samples = messages.iter().flatten().filter(|(name, ..)| name == meter);
        let mut resources: Vec<String> = samples.map(|(_, resource, _)| resource.clone()).collect();
        resources.sort();
        resources
    }
}

/// One sample per resource; fails at the one called `bad`.
struct Counting(&'static str, Option<&'static str>);

#[async_trait]
impl Pollster for Counting {
    fn name(&self) -> &str {
        self.0
    }

    fn default_discovery(&self) -> Option<&str> {
        self.1
    }

    async fn poll(&self, _: &Cycle, resources: &[Resource], outlet: &mut Outlet<'_>) -> Polled {
        for resource in resources {
            if &*resource.id == "bad" {
                return Err(PollError("bad".to_owned()));
            }
            let sample = Meter::gauge(self.0, "").sample(resource.id.to_string(), Value::from(1), Map::new());
            outlet.push(sample).await?;
        }
        Ok(())
    }
}

/// Discovers numbers, and counts its calls.
struct Numbers(usize, Mutex<usize>);

#[async_trait]
impl Discovery for Numbers {
    fn name(&self) -> &'static str {
        "numbers"
    }

    async fn discover(&self, _: &Cycle, prefix: Option<&str>) -> Result<Vec<Resource>, DiscoveryError> {
        *self.1.lock() += 1;
        Ok((0..self.0).map(|n| Resource::named(&format!("{}{n}", prefix.unwrap_or_default()))).collect())
    }
}

fn agent(sources: &str, numbers: &Arc<Numbers>, kept: &Arc<Kept>) -> PollingAgent {
    let pollster = |name, discovery| Arc::new(Counting(name, discovery)) as Arc<dyn Pollster>;
    PollingAgent {
        options: PollingOptions {
            batch_size: 50,
            pollsters_max: 1,
            jitter_max: Duration::ZERO,
            sample_source: "here".to_owned(),
        },
        sources: source::parse(Path::new("polling.yaml"), sources, "here").unwrap(),
        pollsters: vec![pollster("a", Some("numbers")), pollster("b", Some("numbers")), pollster("c", None)],
        discoveries: vec![Arc::clone(numbers) as _],
        partition: Arc::new(Alone),
        sender: Arc::clone(kept) as _,
        names: None,
        exporter: None,
        heartbeats: None,
        chance: Chance {
            now: Box::new(|| Timestamp(1_769_860_800_123_456_000)),
            new_id: Box::new(|| uuid::Uuid::new_v4().to_string()),
            seed: 7,
        },
        counts: Counts::default(),
    }
}

/// One source of the meter `a`.
const ONE: &str = "sources: [{name: s, interval: 10, meters: [a]}]";
/// Any meters, shared with the agents of a group.
const SHARED: &str =
    "sources: [{name: s, interval: 10, meters: ['*'], group_id_coordination_expression: \"'g'\"}]";

fn parts(numbers: usize) -> (Arc<Numbers>, Arc<Kept>) {
    (Arc::new(Numbers(numbers, Mutex::default())), Arc::default())
}

#[tokio::test]
async fn messages_are_bounded_and_discoveries_shared() {
    let (numbers, kept) = parts(120);
    let agent = agent("sources: [{name: s, interval: 10, meters: ['*']}]", &numbers, &kept);
    let outcome = agent.poll_once().await;
    assert_eq!(*numbers.1.lock(), 1);
    assert_eq!((outcome.polled, outcome.fault()), (2, None));
    let messages = kept.messages.lock().clone();
    let mut sizes: Vec<usize> = messages.iter().map(Vec::len).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [20, 20, 50, 50, 50, 50]);
    for message in &messages {
        assert!(
            message
                .iter()
                .all(|(name, _, time)| *name == message[0].0 && time == "2026-01-31T12:00:00.123456")
        );
    }
    assert_eq!(agent.counts.lock().samples, 240);
}

#[tokio::test]
async fn a_resource_is_looked_at_once_a_round() {
    let (numbers, kept) = parts(3);
    let sources = "sources:\n- {name: s, interval: 10, meters: [a, c], resources: [x, '1']}\n\
                   - {name: t, interval: 10, meters: [a], discovery: ['numbers', 'none']}\n";
    let agent = agent(sources, &numbers, &kept);
    let outcome = agent.poll_once().await;
    assert_eq!(kept.resources("a"), ["0", "1", "2", "x"]);
    assert_eq!(kept.resources("c"), ["1", "x"]);
    assert_eq!(agent.counts.lock().discovery_failures, 1);
    assert_eq!(
        outcome.fault().as_deref(),
        Some("resources could not be discovered, and were not polled: none")
    );
}

#[tokio::test]
async fn a_pollster_that_fails_costs_no_other() {
    let (numbers, kept) = parts(1);
    let sources =
        "sources: [{name: s, interval: 10, meters: ['*'], resources: [x, bad, z], discovery: [numbers]}]";
    let agent = agent(sources, &numbers, &kept);
    let outcome = agent.poll_once().await;
    // Samples before the failure are sent.
    for meter in ["a", "b", "c"] {
        assert_eq!(kept.resources(meter), ["x"]);
    }
    assert_eq!(agent.counts.lock().failures, 3);
    assert_eq!(outcome.fault().as_deref(), Some("no pollster published samples; failed: 3"));
}

#[tokio::test]
async fn a_round_counts_as_polled_if_one_pollster_works() {
    let (numbers, kept) = parts(0);
    let sources = "sources:\n- {name: s, interval: 10, meters: [a], resources: [bad]}\n\
                   - {name: t, interval: 10, meters: [b], resources: [x]}\n- {name: u, interval: 10, meters: [c]}\n";
    let outcome = agent(sources, &numbers, &kept).poll_once().await;
    assert_eq!(outcome, RoundOutcome { polled: 1, failed: 1, ..RoundOutcome::default() });
    assert_eq!(outcome.fault(), None);
    // No resources are no failure; no meters are one.
    let outcome = agent(ONE, &numbers, &kept).poll_once().await;
    assert_eq!((outcome.clone(), outcome.fault()), (RoundOutcome::default(), None));
    let outcome = agent("sources: [{name: s, interval: 10, meters: [x]}]", &numbers, &kept).poll_once().await;
    assert_eq!(outcome.fault().as_deref(), Some("no source has a meter that can be polled here"));
}

#[tokio::test(start_paused = true)]
async fn intervals_have_tasks_of_their_own() {
    let (numbers, kept) = parts(1);
    let sources =
        "sources:\n- {name: s, interval: 10, meters: [a]}\n- {name: t, interval: 30, meters: [b]}\n";
    let agent = agent(sources, &numbers, &kept);
    let (stop, stopped) = watch::channel(false);
    tokio::join!(agent.run(stopped), async {
        tokio::time::sleep(Duration::from_secs(65)).await;
        stop.send(true).unwrap();
    });
    assert_eq!((kept.resources("a").len(), kept.resources("b").len()), (7, 3));
}

#[tokio::test(start_paused = true)]
async fn the_first_round_is_somewhere_within_the_jitter() {
    let mut starts = Vec::new();
    for seed in 0..20 {
        let (numbers, kept) = parts(1);
        let mut agent = agent("sources: [{name: s, interval: 100, meters: [a]}]", &numbers, &kept);
        agent.options.jitter_max = Duration::from_mins(1);
        agent.chance.seed = seed;
        let (stop, stopped) = watch::channel(false);
        let started = Instant::now();
        tokio::join!(agent.run(stopped), async {
            while kept.messages.lock().is_empty() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            starts.push(started.elapsed().as_secs());
            stop.send(true).unwrap();
        });
    }
    assert!(starts.iter().all(|start| *start <= 61), "{starts:?}");
    assert!(starts.iter().collect::<HashSet<_>>().len() > 10, "{starts:?}");
}

/// Three agents that know each other; each owns the resources whose number modulo the agents is its own.
struct Third(usize, Arc<Mutex<Vec<usize>>>);

#[async_trait]
impl Partition for Third {
    async fn refresh(&self) {}

    fn is_mine(&self, _: &AgentGroup, id: &str) -> bool {
        let alive = self.1.lock();
        let turn = id.bytes().map(usize::from).sum::<usize>() % alive.len();
        alive[turn] == self.0
    }
}

#[tokio::test]
async fn agents_share_resources_and_take_over_those_of_the_dead() {
    let alive = Arc::new(Mutex::new(vec![0, 1, 2]));
    let (numbers, kept) = parts(100);
    let agents: Vec<PollingAgent> = (0..3)
        .map(|index| PollingAgent {
            partition: Arc::new(Third(index, Arc::clone(&alive))),
            ..agent(ONE, &numbers, &kept)
        })
        .collect();
    for agent in &agents {
        agent.poll_once().await;
    }
    let mut all: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    all.sort();
    assert_eq!(kept.resources("a"), all);
    assert!(agents.iter().all(|agent| agent.counts.lock().samples > 20));
    kept.messages.lock().clear();
    alive.lock().remove(1);
    agents[0].poll_once().await;
    agents[2].poll_once().await;
    assert_eq!(kept.resources("a"), all);
}

/// Owns this one resource of a named group, and all of other groups.
struct OneOf(&'static str);

#[async_trait]
impl Partition for OneOf {
    async fn refresh(&self) {}

    fn is_mine(&self, group: &AgentGroup, key: &str) -> bool {
        assert!(matches!(group, AgentGroup::Everywhere) || *group == AgentGroup::Named("s-g".into()));
        matches!(group, AgentGroup::Everywhere) || key == self.0
    }
}

#[tokio::test]
async fn agents_of_a_named_group_share_pollsters() {
    let (numbers, kept) = parts(10);
    let agent = PollingAgent { partition: Arc::new(OneOf("b")), ..agent(SHARED, &numbers, &kept) };
    agent.poll_once().await;
    assert_eq!((kept.resources("a").len(), kept.resources("b").len()), (0, 10));
}

#[tokio::test]
async fn what_another_agent_polls_is_no_longer_shown() {
    let (numbers, kept) = parts(2);
    let exporter = Arc::new(Exporter::default());
    let mut moving = PollingAgent { exporter: Some(Arc::clone(&exporter)), ..agent(SHARED, &numbers, &kept) };
    let shown = || ["ceilometer_a{", "ceilometer_b{"].map(|series| exporter.text().contains(series));
    moving.poll_once().await;
    assert_eq!(shown(), [true, true]);
    moving.partition = Arc::new(OneOf("b"));
    moving.poll_once().await;
    assert_eq!(shown(), [false, true]);
}

/// Fails from the second message on.
#[derive(Default)]
struct Once(Mutex<usize>);

#[async_trait]
impl SampleSender for Once {
    async fn send(&self, _: &[Sample<'_>]) -> Result<(), PollError> {
        let mut messages = self.0.lock();
        *messages += 1;
        if *messages > 1 { Err(PollError("the broker is away".to_owned())) } else { Ok(()) }
    }
}

#[tokio::test]
async fn what_the_broker_does_not_take_is_shown_all_the_same() {
    let (numbers, kept) = parts(120);
    let (exporter, once) = (Arc::new(Exporter::default()), Arc::new(Once::default()));
    let mut shown = PollingAgent {
        sender: Arc::clone(&once) as _,
        exporter: Some(Arc::clone(&exporter)),
        ..agent(ONE, &numbers, &kept)
    };
    shown.options.batch_size = 10;
    let outcome = shown.poll_once().await;
    assert_eq!(exporter.text().lines().filter(|line| line.starts_with("ceilometer_a{")).count(), 120);
    // It failed all the same, and did not try each message.
    assert_eq!((outcome.polled, outcome.failed, *once.0.lock()), (0, 1, 2));
    // Without an exporter nobody needs the rest.
    shown.exporter = None;
    let outcome = shown.poll_once().await;
    assert_eq!((outcome.failed, *once.0.lock(), shown.counts.lock().samples), (1, 3, 10));
}
