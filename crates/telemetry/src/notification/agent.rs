//! The agent's loop: receives messages, publishes their contents, and settles them once that is safe.
//!
//! Messages of sample queues are processed in parallel; those of other queues in order, since events of one resource
//! must not overtake each other. Waiting for receipts blocks nothing: the consumer's limits bound how many messages
//! wait.

use std::{
    borrow::Cow,
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{FutureExt as _, future::join_all};
use tokio::{sync::watch, task::JoinSet};

use super::{
    AsideOptions, aside,
    handler::{Attempt, MessageHandler},
};
use crate::{
    messaging::{
        Consumer, Delivery, Inbox, Outbox, Outcome, Outgoing, Settler,
        compression::{Compression, decompressed},
    },
    time::now,
};

/// Delay before the first retry of a message; it grows by as much with each retry.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The reason why a message is set aside after panics.
const PANIC: &str = "it caused a panic";

/// Maximum messages taken from the inbox at once. Sample messages among them are processed one after the other: waking
/// a thread for each would cost as much as processing it.
const TAKEN_MAX: usize = 16;

#[derive(Clone, Debug)]
pub struct NotificationAgentOptions {
    /// Attempts to process a message that causes panics, before it is set aside.
    pub tries_max: u32,
    /// The queue for messages set aside.
    pub aside: AsideOptions,
    /// On shutdown: how long messages in flight may take.
    pub graceful_timeout: Duration,
}

/// Shared by all messages.
struct NotificationContext {
    handler: MessageHandler,
    outbox: Arc<dyn Outbox>,
    options: NotificationAgentOptions,
}

/// An agent with one inbox.
pub struct NotificationAgent {
    shared: Arc<NotificationContext>,
}

impl NotificationAgent {
    /// `outbox` publishes messages that are set aside.
    pub fn new(handler: MessageHandler, outbox: Arc<dyn Outbox>, options: NotificationAgentOptions) -> Self {
        NotificationAgent { shared: Arc::new(NotificationContext { handler, outbox, options }) }
    }

    /// Processes a consumer's messages until `stop`; then messages in flight get a grace period.
    pub async fn run(&self, consumer: Consumer, mut inbox: Inbox, stop: impl Future<Output = ()>) {
        self.shared.handler.figures.watch(consumer.figures.clone());
        let mut tasks = JoinSet::new();
        self.receive_until(&mut inbox, &mut tasks, stop).await;
        consumer.stop_consuming();
        // Messages already delivered are processed too, if there is time.
        let mut taken = Vec::new();
        let graceful = async {
            loop {
                tokio::select! {
                    1.. = inbox.deliveries.recv_many(&mut taken, TAKEN_MAX) => self.start(&mut tasks, &mut taken, &inbox.settler),
                    ended = tasks.join_next() => if ended.is_none() { break },
                }
            }
        };
        if tokio::time::timeout(self.shared.options.graceful_timeout, graceful).await.is_err() {
            let messages = consumer.figures.in_flight.load(Ordering::Relaxed);
            tracing::warn!(messages, "not published in time: they stay in the broker");
        }
        consumer.close().await;
        tasks.abort_all();
    }

    /// The loop, for any source of messages.
    pub async fn receive_until(
        &self,
        inbox: &mut Inbox,
        tasks: &mut JoinSet<()>,
        stop: impl Future<Output = ()>,
    ) {
        let mut stop = std::pin::pin!(stop);
        let mut taken = Vec::new();
        loop {
            tokio::select! {
                count = inbox.deliveries.recv_many(&mut taken, TAKEN_MAX) => {
                    if count == 0 {
                        return;
                    }
                    self.start(tasks, &mut taken, &inbox.settler);
                }
                Some(_) = tasks.join_next() => {}
                () = &mut stop => return,
            }
        }
    }

    fn start(&self, tasks: &mut JoinSet<()>, taken: &mut Vec<Delivery>, settler: &Settler) {
        let mut of_samples = Vec::new();
        for delivery in taken.drain(..) {
            let message = InFlightMessage {
                number: self.shared.handler.figures.began(delivery.body.len(), delivery.is_redelivered),
                shared: self.shared.clone(),
                settler: settler.clone(),
                delivery,
            };
            if message.delivery.queue.ends_with(".sample") {
                of_samples.push(message);
            } else {
                tasks.spawn(message.process());
            }
        }
        if !of_samples.is_empty() {
            tasks.spawn(async move {
                join_all(of_samples.into_iter().map(InFlightMessage::process)).await;
            });
        }
    }
}

/// A message in flight.
struct InFlightMessage {
    number: u64,
    shared: Arc<NotificationContext>,
    settler: Settler,
    delivery: Delivery,
}

impl InFlightMessage {
    /// A panic is a defect in a definition or in this program: it fails this message only.
    fn attempt(&self) -> Result<Attempt, String> {
        let attempt = || self.shared.handler.attempt(&self.delivery.body, self.number);
        std::panic::catch_unwind(AssertUnwindSafe(attempt)).map_err(|_| PANIC.to_owned())
    }

    /// Attempts to publish the message at once; the future ends when it is settled.
    fn process(self) -> impl Future<Output = ()> + Send {
        let first = self.attempt();
        async move {
            let settled = AssertUnwindSafe(self.settle(first)).catch_unwind().await;
            let (settled, figures) = (settled.unwrap_or(Outcome::Returned), &self.shared.handler.figures);
            figures.acknowledged.inc_by(u64::from(settled == Outcome::Done));
            self.settler.settle(self.delivery.ticket, settled);
            figures.ended(self.number);
        }
    }

    async fn settle(&self, first: Result<Attempt, String>) -> Outcome {
        let figures = &self.shared.handler.figures;
        let (mut attempt, mut tries) = (first, 1);
        loop {
            let reason = match attempt {
                Ok(Attempt::Undecodable(reason)) => {
                    figures.undecodable.inc();
                    return self.set_aside(&reason, tries).await;
                }
                Ok(Attempt::Malformed(malformed)) => {
                    figures.malformed.inc();
                    return self.set_aside(&malformed.0, tries).await;
                }
                Ok(Attempt::Duplicate) => {
                    figures.duplicates.inc();
                    return Outcome::Done;
                }
                Ok(Attempt::InFlight(mut end)) => {
                    let is_published = end.wait_for(|published| *published).await.is_ok();
                    attempt = if is_published { Ok(Attempt::Duplicate) } else { self.attempt() };
                    continue;
                }
                Ok(Attempt::Published { receipt, turn, bad }) => {
                    match AssertUnwindSafe(receipt).catch_unwind().await {
                        Ok(Ok(())) => {
                            return self.published(turn, bad.map(|bad| bad.reason), tries).await;
                        }
                        // Another try would repeat the message to the publishers that have it.
                        Ok(Err(error)) => return self.set_aside(&error.0, tries).await,
                        Err(_) => PANIC.to_owned(),
                    }
                }
                Err(reason) => reason,
            };
            if tries >= self.shared.options.tries_max {
                return self.set_aside(&reason, tries).await;
            }
            figures.retries.inc();
            tracing::info!(queue = &*self.delivery.queue, reason, tries, "not published: trying again");
            tokio::time::sleep(RETRY_PAUSE.saturating_mul(tries)).await;
            tries += 1;
            attempt = self.attempt();
        }
    }

    async fn published(
        &self,
        turn: Option<(String, watch::Sender<bool>)>,
        bad: Option<String>,
        tries: u32,
    ) -> Outcome {
        // If it is requeued or set aside, its next delivery is not a duplicate: its bad part was stored nowhere.
        if let Some(reason) = bad {
            return self.set_aside(&reason, tries).await;
        }
        if let Some((id, turn)) = turn {
            self.shared.handler.duplicates.lock().acknowledged(id, &turn);
        }
        Outcome::Done
    }

    /// Settles the message once it is in the aside queue.
    async fn set_aside(&self, reason: &str, tries: u32) -> Outcome {
        let options = &self.shared.options.aside;
        tracing::warn!(queue = &*self.delivery.queue, reason, tries, "a message is set aside");
        let mut aside = Outgoing {
            exchange: String::new(),
            routing_key: options.queue.clone(),
            body: self.delivery.body.clone(),
            headers: aside::headers(reason, &self.delivery.queue, tries, now()),
            lifetime: options.age_max,
        };
        let mut published = self.shared.outbox.publish(&aside).await;
        // The broker's limit may be lower than when it took the message. Readers recognise a compressed body.
        if published.as_ref().is_err_and(|error| error.refuses_size(aside.body.len()))
            && matches!(decompressed(&aside.body), Ok(Cow::Borrowed(_)))
        {
            aside.body = Compression::Zlib.compress(&aside.body).into();
            published = self.shared.outbox.publish(&aside).await;
        }
        let figures = &self.shared.handler.figures;
        match published {
            Ok(()) => {
                figures.set_aside.inc();
                Outcome::Done
            }
            // It would come back, and be refused again, without end.
            Err(error) if error.refuses_size(aside.body.len()) => {
                tracing::error!(%error, reason, "a message that is too large to be set aside is dropped");
                figures.aside.dropped.fetch_add(1, Ordering::Relaxed);
                Outcome::Done
            }
            Err(error) => {
                tracing::error!(%error, "a message cannot be set aside: it is requeued");
                Outcome::Returned
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use bytes::Bytes;
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        event::Event,
        messaging::{MessagingError, Ticket},
        notification::MetadataMemory,
        publishers::{PublishError, Publisher, Receipt},
        sample::Sample,
    };

    /// Accepts all, or fails all with this error; records what it gets.
    #[derive(Default)]
    struct Taking {
        messages: Mutex<usize>,
        volumes: Mutex<Vec<Value>>,
        metadata: Mutex<Vec<Value>>,
        error: Option<PublishError>,
        /// Its receipts panic.
        panics: bool,
        /// Its receipts resolve later.
        is_slow: bool,
    }

    impl Publisher for Taking {
        fn samples(&self, samples: &[Sample<'_>]) -> Receipt {
            *self.messages.lock() += 1;
            self.volumes.lock().extend(samples.iter().map(|sample| sample.volume.clone()));
            let metadata =
                samples.iter().map(|sample| Value::Object(sample.resource_metadata.map().into_owned()));
            self.metadata.lock().extend(metadata);
            if self.panics {
                return Receipt::of(async { panic!("a defect") });
            }
            if self.is_slow {
                return Receipt::of(async {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    Ok(())
                });
            }
            self.error.clone().map_or_else(Receipt::done, Receipt::failed)
        }

        fn events(&self, _: &[Event]) -> Receipt {
            Receipt::done()
        }
    }

    /// Fails a number of times, then records what it gets, up to a size if there is one.
    #[derive(Default)]
    struct Aside {
        failures: Mutex<usize>,
        bytes_max: Option<usize>,
        messages: Mutex<Vec<Outgoing>>,
    }

    #[async_trait]
    impl Outbox for Aside {
        async fn publish(&self, message: &Outgoing) -> Result<(), MessagingError> {
            self.try_publish(message).await
        }

        async fn try_publish(&self, message: &Outgoing) -> Result<(), MessagingError> {
            let mut failures = self.failures.lock();
            if *failures > 0 {
                *failures -= 1;
                return Err(MessagingError("no confirmation".to_owned()));
            }
            let bytes = message.body.len();
            if self.bytes_max.is_some_and(|most| bytes > most) {
                let text = format!("PRECONDITION_FAILED - message size {bytes} is larger than max size");
                return Err(MessagingError(text));
            }
            self.messages.lock().push(message.clone());
            Ok(())
        }
    }

    fn body(samples: &[Value]) -> Bytes {
        let message = json!({
            "message_id": "m", "publisher_id": "p", "event_type": "telemetry.polling", "priority": "SAMPLE",
            "payload": { "samples": samples }, "timestamp": "2026-01-01 00:00:00.000000", "_unique_id": "u",
        });
        json!({ "oslo.version": "2.0", "oslo.message": message.to_string() }).to_string().into()
    }

    fn good() -> Value {
        json!({
            "counter_name": "image.size", "counter_type": "gauge", "counter_unit": "B", "counter_volume": 1,
            "user_id": null, "project_id": "p", "resource_id": "r", "timestamp": "2026-01-01T00:00:00",
            "resource_metadata": {}, "message_id": "i", "source": "openstack", "message_signature": "",
        })
    }

    fn agent(taking: &Arc<Taking>, aside: &Arc<Aside>) -> NotificationAgent {
        let handler = MessageHandler {
            pipelines: taking.clone(),
            meters: None,
            names: None,
            events: None,
            figures: Arc::default(),
            duplicates: Mutex::default(),
            metadata: MetadataMemory::default(),
        };
        let options = NotificationAgentOptions {
            tries_max: 5,
            aside: AsideOptions { queue: "aside".to_owned(), messages_max: None, age_max: None },
            graceful_timeout: Duration::from_secs(1),
        };
        NotificationAgent::new(handler, aside.clone(), options)
    }

    fn delivery(body: &Bytes, tag: u64) -> Delivery {
        let ticket = Ticket { session: 1, tag };
        Delivery { body: body.clone(), queue: "q.sample".into(), is_redelivered: tag > 1, ticket }
    }

    /// What is published of a usual message with these replacements, of which nothing is set aside.
    async fn published(samples: &[Value], replaced: &[(&str, &str)]) -> Arc<Taking> {
        let (taking, aside) = (Arc::<Taking>::default(), Arc::<Aside>::default());
        let mut text = String::from_utf8(body(samples).to_vec()).unwrap();
        for (from, to) in replaced {
            assert!(text.contains(from), "{text}");
            text = text.replace(from, to);
        }
        assert_eq!(outcomes(&taking, &aside, &text.into(), 1).await, [Outcome::Done]);
        assert!(aside.messages.lock().is_empty());
        taking
    }

    /// The outcome of a message delivered so many times, one after the other.
    async fn outcomes(taking: &Arc<Taking>, aside: &Arc<Aside>, body: &Bytes, times: u64) -> Vec<Outcome> {
        let agent = agent(taking, aside);
        let (mut inbox, deliveries, mut settled) = Inbox::new();
        let mut outcomes = Vec::new();
        for tag in 1..=times {
            assert!(deliveries.send(delivery(body, tag)).is_ok());
            let mut tasks = JoinSet::new();
            let settle = async { outcomes.push(settled.recv().await.expect("it is settled").1) };
            agent.receive_until(&mut inbox, &mut tasks, settle).await;
        }
        outcomes
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_is_no_duplicate_before_it_is_safe() {
        let (taking, aside) = (Arc::<Taking>::default(), Arc::<Aside>::default());
        *aside.failures.lock() = 1;
        let partly = body(&[good(), json!({ "counter_name": "" })]);
        let outcome = outcomes(&taking, &aside, &partly, 3).await;
        assert_eq!(outcome, [Outcome::Returned, Outcome::Done, Outcome::Done]);
        // The third may have been replayed.
        assert_eq!((*taking.messages.lock(), aside.messages.lock().len()), (3, 2));
        assert_eq!(outcomes(&taking, &aside, &body(&[good()]), 2).await, [Outcome::Done; 2]);
        assert_eq!((*taking.messages.lock(), aside.messages.lock().len()), (4, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_delivered_again_while_it_is_published_is_published_once() {
        let taking = Arc::new(Taking { is_slow: true, ..Taking::default() });
        let agent = agent(&taking, &Arc::default());
        let (mut inbox, deliveries, mut settled) = Inbox::new();
        for tag in 1..=2 {
            assert!(deliveries.send(delivery(&body(&[good()]), tag)).is_ok());
        }
        let mut outcomes = Vec::new();
        let settle = async {
            for _ in 1..=2 {
                outcomes.push(settled.recv().await.expect("it is settled").1);
            }
        };
        agent.receive_until(&mut inbox, &mut JoinSet::new(), settle).await;
        assert_eq!(outcomes, [Outcome::Done; 2]);
        assert_eq!(*taking.messages.lock(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_is_acknowledged_is_counted() {
        let agent = agent(&Arc::default(), &Arc::default());
        let (mut inbox, deliveries, mut settled) = Inbox::new();
        // One that is set aside, one that is published, and its duplicate.
        let bodies = [Bytes::from_static(b"\xff"), body(&[good()]), body(&[good()])];
        for (body, tag) in bodies.iter().zip(1..) {
            assert!(deliveries.send(delivery(body, tag)).is_ok());
        }
        let settle = async {
            for _ in &bodies {
                assert_eq!(settled.recv().await.expect("it is settled").1, Outcome::Done);
            }
        };
        agent.receive_until(&mut inbox, &mut JoinSet::new(), settle).await;
        assert_eq!(agent.shared.handler.figures.acknowledged.get(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn numbers_of_pythons_json_are_read() {
        for (number, text) in [("NaN", "nan"), ("Infinity", "inf"), ("-Infinity", "-inf")] {
            let replaced = [
                (r#"\"counter_volume\":1"#, format!(r#"\"counter_volume\":{number}"#)),
                ("{}", format!(r#"{{\"x\":[{number}]}}"#)),
                (r#"\"source\""#, format!(r#"\"monotonic_time\":{number},\"source\""#)),
            ];
            let replaced = replaced.each_ref().map(|(from, to)| (*from, to.as_str()));
            let taking = published(&[good(), good()], &replaced).await;
            assert_eq!(*taking.volumes.lock(), [text, text]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn numbers_beyond_floats_leave_the_rest_of_the_metadata() {
        let metadata = ("{}", r#"{\"host\":\"h\",\"x\":[1e999,-1E999]}"#);
        let volume = (r#"\"counter_volume\":1"#, r#"\"counter_volume\":2e308"#);
        let taking = published(&[good()], &[metadata, volume]).await;
        assert_eq!(*taking.metadata.lock(), [json!({"host": "h", "x": ["inf", "-inf"]})]);
        assert_eq!(*taking.volumes.lock(), ["inf"]);
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_surrogate_pair_leaves_the_rest_of_the_metadata() {
        let taking = published(&[good()], &[("{}", r#"{\"host\":\"h\",\"name\":\"a\\ud800\"}"#)]).await;
        assert_eq!(*taking.metadata.lock(), [json!({"host": "h", "name": "a\u{fffd}"})]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_decoded_is_set_aside_with_the_reason() {
        let (taking, aside) = (Arc::<Taking>::default(), Arc::<Aside>::default());
        assert_eq!(outcomes(&taking, &aside, &Bytes::from_static(b"\xff"), 1).await, [Outcome::Done]);
        let messages = aside.messages.lock();
        let headers = [("reason", "not UTF-8"), ("queue", "q.sample"), ("tries", "1")];
        for (name, value) in headers {
            assert!(messages[0].headers.contains(&(name.to_owned(), value.to_owned())), "{name}");
        }
        assert_eq!(&*messages[0].body, b"\xff");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_too_large_for_the_broker_is_compressed_or_dropped() {
        let taking = Arc::<Taking>::default();
        let aside = Arc::new(Aside { bytes_max: Some(1000), ..Aside::default() });
        let body = Bytes::from([&b"\xff"[..], &[b' '; 5000]].concat());
        assert_eq!(outcomes(&taking, &aside, &body, 1).await, [Outcome::Done]);
        let kept = aside.messages.lock().pop().unwrap();
        assert_eq!(*decompressed(&kept.body).unwrap(), *body);
        let mut random = vec![0; 5000];
        fastrand::Rng::with_seed(7).fill(&mut random[1..]);
        random[0] = 0xff;
        assert_eq!(outcomes(&taking, &aside, &random.into(), 1).await, [Outcome::Done]);
        assert!(aside.messages.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_for_good_is_set_aside_at_once() {
        let refused = |error| Arc::new(Taking { error: Some(error), ..Taking::default() });
        let body = body(&[good()]);
        let taking = refused(PublishError("attributes of instance r: no".to_owned()));
        let aside = Arc::<Aside>::default();
        assert_eq!(outcomes(&taking, &aside, &body, 1).await, [Outcome::Done]);
        // Not again: other publishers may have it.
        assert_eq!(*taking.messages.lock(), 1);
        let reason = ("reason".to_owned(), "attributes of instance r: no".to_owned());
        assert!(aside.messages.lock()[0].headers.contains(&reason));
    }

    #[tokio::test(start_paused = true)]
    async fn what_causes_panics_is_set_aside_after_some_tries() {
        let taking = Arc::new(Taking { panics: true, ..Taking::default() });
        let aside = Arc::<Aside>::default();
        assert_eq!(outcomes(&taking, &aside, &body(&[good()]), 1).await, [Outcome::Done]);
        assert_eq!((*taking.messages.lock(), aside.messages.lock().len()), (5, 1));
        assert!(aside.messages.lock()[0].headers.contains(&("reason".to_owned(), PANIC.to_owned())));
    }
}
