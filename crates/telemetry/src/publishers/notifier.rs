//! `notifier://`: sends samples and events to a message bus, as signed notifications of priority `sample`.
//!
//! Options: `topic` (may be repeated; the queue is `<topic>.sample`), `per_meter_topic` (1: also sends each meter with
//! its name in the event type), and `policy`. `default` retries without limit, or `max_retry` times; `queue` keeps up
//! to `max_queue_length` messages and drops the oldest; `drop` tries once. A host in the URL names another broker;
//! `driver` is `rabbit`.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use uuid::Uuid;

use super::{
    OpenError, Opened, PublishError, Publisher, PublisherTasks, PublisherUrl, Receipt,
    figures::PublisherCounts,
    http::begin,
    peer_health::{AttemptResult, PeerHealth},
};
use crate::{
    event::Event,
    pipeline::PipelineKind,
    sample::Sample,
    wire::{Signer, events_list, samples_list},
};

/// Default of `max_queue_length`.
const QUEUE_MESSAGES: i64 = 1024;

/// Upper bound of `max_queue_length`, also for 0.
const QUEUE_MESSAGES_MAX: usize = 1 << 20;

/// Concurrently unconfirmed messages.
const SENDS_MAX: usize = 64;

/// A message bus.
#[async_trait]
pub trait Bus: Send + Sync {
    /// Sends a notification of priority `sample`, without retries. `id` is the same in all attempts, so that receivers
    /// recognise duplicates. `payload` is JSON. Returns once the broker has confirmed it.
    async fn notify(&self, id: Uuid, topic: &str, event_type: &str, payload: &str) -> Result<(), String>;
}

/// Connects to the agent's own bus, or to that of a transport URL.
pub type BusOpener = Arc<dyn Fn(Option<&str>) -> Result<Arc<dyn Bus>, OpenError> + Send + Sync>;

/// Options of the configuration.
#[derive(Clone)]
pub struct NotifierOptions {
    /// Topic and event type of samples: `[publisher_notifier] metering_topic`.
    pub metering_topic: String,
    /// The same for events: `event_topic`.
    pub event_topic: String,
    pub open: BusOpener,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// Retries without limit, or this many times.
    Default {
        failures_max: Option<u64>,
    },
    Queue {
        messages_max: usize,
    },
    Drop,
}

pub struct NotifierPublisher {
    shared: Arc<NotifierState>,
    signer: Signer,
    metering_type: String,
    event_type: String,
    topics: Vec<String>,
    is_per_meter: bool,
}

struct NotifierState {
    bus: Arc<dyn Bus>,
    policy: Policy,
    sends: Semaphore,
    /// For the policy `queue`; oldest first.
    queue: Mutex<VecDeque<QueuedMessage>>,
    /// Set when nothing more will be queued.
    is_closed: AtomicBool,
    /// Notified when a message is queued, and on close.
    changed: Notify,
    health: PeerHealth,
    counts: PublisherCounts,
}

struct QueuedMessage {
    id: Uuid,
    topic: String,
    event_type: String,
    payload: Arc<str>,
    /// Number of samples or events.
    items: usize,
}

impl NotifierPublisher {
    pub fn open(
        url: &PublisherUrl,
        kind: PipelineKind,
        options: &NotifierOptions,
        signer: Signer,
        counts: PublisherCounts,
        tasks: &PublisherTasks,
    ) -> Opened {
        let mut query = url.query.clone();
        let policy = policy(url)?;
        let default_topic = match kind {
            PipelineKind::Samples => &options.metering_topic,
            PipelineKind::Events => &options.event_topic,
        };
        let mut topics: Vec<String> = query.all("topic").map(str::to_owned).collect();
        if topics.is_empty() {
            topics.push(default_topic.clone());
        }
        let is_per_meter = query.integer("per_meter_topic")?.unwrap_or(0) != 0;
        let driver = query.first("driver").unwrap_or("rabbit").to_owned();
        for ours in ["topic", "per_meter_topic", "policy", "max_queue_length", "max_retry", "driver"] {
            query.take(ours);
        }
        let transport = (!url.netloc.is_empty())
            .then(|| format!("{driver}://{}{}?{}", url.netloc, url.path, query.encoded()));
        let shared = Arc::new(NotifierState {
            bus: (options.open)(transport.as_deref())?,
            policy,
            sends: Semaphore::new(SENDS_MAX),
            queue: Mutex::default(),
            is_closed: AtomicBool::new(false),
            changed: Notify::new(),
            health: PeerHealth::new(url),
            counts,
        });
        if matches!(policy, Policy::Queue { .. }) {
            let shared = shared.clone();
            tasks.spawn("what sends the queue of notifier://", async move {
                loop {
                    shared.empty_queue().await;
                    if shared.is_closed.load(Ordering::Acquire) && shared.queue.lock().is_empty() {
                        return;
                    }
                    shared.changed.notified().await;
                }
            });
        }
        Ok(Arc::new(NotifierPublisher {
            shared,
            signer,
            metering_type: options.metering_topic.clone(),
            event_type: options.event_topic.clone(),
            topics,
            is_per_meter,
        }))
    }

    fn message(&self, event_type: &str, payload: String, items: usize) -> Vec<QueuedMessage> {
        let payload: Arc<str> = payload.into();
        let to = |topic: &String| QueuedMessage {
            id: Uuid::new_v4(),
            topic: topic.clone(),
            event_type: event_type.to_owned(),
            payload: payload.clone(),
            items,
        };
        self.topics.iter().map(to).collect()
    }

    fn publish(&self, messages: Vec<QueuedMessage>) -> Receipt {
        if let Policy::Queue { messages_max } = self.shared.policy {
            self.shared.put(messages, messages_max);
            return Receipt::done();
        }
        let shared = self.shared.clone();
        begin(async move {
            let mut outcome = Ok(());
            for message in messages {
                outcome = outcome.and(shared.send(&message).await);
            }
            outcome
        })
    }
}

/// The queue is still sent, as long as the runtime lives.
impl Drop for NotifierPublisher {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Release);
        self.shared.changed.notify_one();
    }
}

fn policy(url: &PublisherUrl) -> Result<Policy, OpenError> {
    let integer = |name| url.query.integer(name);
    Ok(match url.query.last("policy") {
        Some("queue") => {
            let asked = integer("max_queue_length")?.unwrap_or(QUEUE_MESSAGES);
            let asked = usize::try_from(asked).ok().filter(|asked| *asked > 0);
            Policy::Queue { messages_max: asked.unwrap_or(QUEUE_MESSAGES_MAX).min(QUEUE_MESSAGES_MAX) }
        }
        Some("drop") => Policy::Drop,
        other => {
            if let Some(unknown) = other.filter(|other| *other != "default") {
                tracing::warn!(publisher = %url, unknown, "no such policy; there are default, queue and drop");
            }
            Policy::Default { failures_max: integer("max_retry")?.map(|max| max.max(1) as u64) }
        }
    })
}

impl Publisher for NotifierPublisher {
    fn samples(&self, samples: &[Sample<'_>]) -> Receipt {
        let payload = samples_list(samples, &self.signer);
        let mut messages = self.message(&self.metering_type, payload, samples.len());
        if self.is_per_meter {
            let mut meters: BTreeMap<&str, Vec<Sample<'_>>> = BTreeMap::new();
            for sample in samples {
                meters.entry(&sample.name).or_default().push(sample.clone());
            }
            for (meter, samples) in meters {
                let event_type = format!("{}.{meter}", self.metering_type);
                let payload = samples_list(&samples, &self.signer);
                messages.extend(self.message(&event_type, payload, samples.len()));
            }
        }
        self.publish(messages)
    }

    fn events(&self, events: &[Event]) -> Receipt {
        let payload = events_list(events, &self.signer);
        self.publish(self.message(&self.event_type, payload, events.len()))
    }
}

impl NotifierState {
    /// Sends until the broker confirms it, or `retries_max` retries have failed: then returns the last error.
    async fn deliver(&self, message: &QueuedMessage, retries_max: Option<u64>) -> Option<String> {
        let attempt = || self.attempt(message);
        let delivered = self.health.deliver(&self.counts, message.items, retries_max, attempt).await;
        delivered.unwrap_or_else(Some)
    }

    async fn attempt(&self, message: &QueuedMessage) -> AttemptResult {
        let QueuedMessage { id, topic, event_type, payload, .. } = message;
        match self.bus.notify(*id, topic, event_type, payload).await {
            Ok(()) => AttemptResult::Taken,
            Err(error) => AttemptResult::Again(error),
        }
    }

    async fn send(&self, message: &QueuedMessage) -> Result<(), PublishError> {
        let _place = self.sends.acquire().await.expect("never closed");
        if let Policy::Default { failures_max } = self.policy {
            let failed = self.deliver(message, failures_max.map(|max| max - 1)).await;
            return failed.zip(failures_max).map_or(Ok(()), |(error, max)| {
                Err(PublishError(format!("the broker did not take it in {max} tries: {error}")))
            });
        }
        if self.deliver(message, Some(0)).await.is_some() {
            self.counts.lost.inc_by(message.items as u64);
        }
        Ok(())
    }

    fn put(&self, messages: Vec<QueuedMessage>, messages_max: usize) {
        let mut queue = self.queue.lock();
        queue.extend(messages);
        let beyond = queue.len().saturating_sub(messages_max);
        let lost: usize = queue.drain(..beyond).map(|message| message.items).sum();
        drop(queue);
        self.counts.lost.inc_by(lost as u64);
        self.changed.notify_one();
    }

    /// Sends the queue. The message being sent is not in the queue, so a full queue does not drop it.
    async fn empty_queue(&self) {
        loop {
            let Some(message) = self.queue.lock().pop_front() else { return };
            self.deliver(&message, None).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::publishers::tests::sample;

    /// Fails a given number of times, and records what it gets.
    #[derive(Default)]
    struct Fake {
        failures: Mutex<u32>,
        tries: Mutex<u32>,
        /// Of all attempts.
        ids: Mutex<Vec<Uuid>>,
        /// Topic, event type and meters of each.
        seen: Mutex<Vec<String>>,
        changed: Notify,
    }

    #[async_trait]
    impl Bus for Fake {
        async fn notify(&self, id: Uuid, topic: &str, event_type: &str, payload: &str) -> Result<(), String> {
            *self.tries.lock() += 1;
            self.ids.lock().push(id);
            let mut failures = self.failures.lock();
            if *failures > 0 {
                *failures -= 1;
                return Err("away".to_owned());
            }
            let payload: Vec<Value> = serde_json::from_str(payload).unwrap();
            let meters = payload.iter().map(|message| message["counter_name"].as_str().unwrap());
            let words: Vec<&str> = [topic, event_type].into_iter().chain(meters).collect();
            self.seen.lock().push(words.join(" "));
            self.changed.notify_one();
            Ok(())
        }
    }

    fn open(url: &str, bus: &Arc<Fake>) -> Arc<dyn Publisher> {
        let bus = bus.clone();
        let options = NotifierOptions {
            metering_topic: "metering".to_owned(),
            event_topic: "event".to_owned(),
            open: Arc::new(move |transport| {
                assert!(transport.is_none_or(|url| url == "rabbit://u:p@h:1/v?ssl=1"), "{transport:?}");
                Ok(bus.clone())
            }),
        };
        let url = PublisherUrl::parse(url).unwrap();
        NotifierPublisher::open(
            &url,
            PipelineKind::Samples,
            &options,
            Signer::new("s"),
            PublisherCounts::default(),
            &PublisherTasks::watched().0,
        )
        .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_default_waits_for_the_broker() {
        let bus = Arc::new(Fake { failures: Mutex::new(7), ..Fake::default() });
        let publisher = open("notifier://u:p@h:1/v?topic=a&topic=b&ssl=1&per_meter_topic=1", &bus);
        publisher.samples(&[sample("y", 1.0), sample("x", 2.0), sample("y", 3.0)]).await.unwrap();
        assert_eq!(
            bus.seen.lock().join(", "),
            "a metering y x y, b metering y x y, a metering.x x, b metering.x x, a metering.y y y, b metering.y y y"
        );
        assert_eq!(*bus.tries.lock(), 7 + 6);
        let mut ids = bus.ids.lock().clone();
        assert!(ids[..8].iter().all(|id| *id == ids[0]), "the first was sent eight times: {ids:?}");
        ids.dedup();
        assert_eq!(ids.len(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn tries_end_where_the_options_say() {
        let bus = Arc::new(Fake { failures: Mutex::new(100), ..Fake::default() });
        let failed = open("notifier://?max_retry=3", &bus).samples(&[sample("x", 1.0)]).await;
        assert!(failed.unwrap_err().to_string().contains("3 tries: away"));
        assert_eq!(*bus.tries.lock(), 3);
        open("notifier://?policy=drop", &bus).samples(&[sample("x", 1.0)]).await.unwrap();
        assert_eq!(*bus.tries.lock(), 4);
        assert!(bus.seen.lock().is_empty());
        // What one topic does not get, the next one does.
        *bus.failures.lock() = 1;
        let partly = open("notifier://?max_retry=1&topic=a&topic=b", &bus).samples(&[sample("x", 1.0)]).await;
        assert!(partly.is_err());
        assert_eq!(*bus.seen.lock(), ["b metering x"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_forgets_the_oldest() {
        let bus = Arc::new(Fake { failures: Mutex::new(5), ..Fake::default() });
        let publisher = open("notifier://?policy=queue&max_queue_length=2", &bus);
        publisher.samples(&[sample("first", 1.0)]).await.unwrap();
        // Wait until the first is being sent and has left the queue.
        while *bus.tries.lock() == 0 {
            tokio::task::yield_now().await;
        }
        for name in ["a", "b", "c"] {
            publisher.samples(&[sample(name, 1.0)]).await.unwrap();
        }
        while bus.seen.lock().len() < 3 {
            bus.changed.notified().await;
        }
        let expected = ["first", "b", "c"].map(|name| format!("metering metering {name}"));
        assert_eq!(*bus.seen.lock(), expected);
    }
}
