//! Fills an inbox from the broker and reconnects on failures.
//!
//! One task owns the connection: it declares, consumes, tracks unacknowledged messages and sends acknowledgements.
//! Memory is bounded by the prefetch count of each queue and by a limit of bytes in flight. At that limit all consumers
//! are cancelled until half of the bytes are settled. Messages under way still arrive, so the prefetch count starts
//! small, grows while the bytes fit, and shrinks when they passed the limit.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream::SelectAll};
use lapin::{
    Channel, Connection,
    options::{
        BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions,
    },
    types::FieldTable,
};
use tokio::{
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender},
        watch,
    },
    task::JoinHandle,
    time::MissedTickBehavior,
};

use super::{
    BrokerOptions, Delivery, Inbox, MessagingError, Outcome, Result, Ticket,
    connection::{CLOSE_TIMEOUT, error},
    ledger::{Acknowledgement, Ledger},
    topology::{Declarer, check_name},
};

/// The priorities of oslo.messaging, each with a queue of its own.
pub const PRIORITIES: [&str; 7] = ["audit", "debug", "info", "warn", "error", "critical", "sample"];

/// How often acknowledgements are sent.
const ACKNOWLEDGE_DELAY: Duration = Duration::from_millis(20);

/// Send acknowledgements early at this many outcomes.
const OUTCOMES_MAX: usize = 64;

/// Initial prefetch count while message sizes are unknown, and its increment.
const PREFETCH_FIRST: u16 = 8;
const PREFETCH_GROWTH: u16 = 4;

/// A connection that lasted this long resets the reconnect delay.
const STABLE: Duration = Duration::from_secs(10);

/// Limit for the last acknowledgements and the close: a broker that is silent must not hold up the agent's end.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// What to consume.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    pub exchanges: Vec<String>,
    /// Each topic has a queue per priority, `topic.priority`.
    pub topics: Vec<String>,
    /// Consume one queue of this name instead, which gets copies of all messages.
    pub pool: Option<String>,
    /// Maximum prefetch count of each queue.
    pub prefetch: u16,
    /// Limit of unsettled bytes, those of earlier connections included; at the limit consuming pauses.
    pub in_flight_bytes_max: usize,
}

impl ConsumerOptions {
    /// Queues with their routing keys.
    fn queues(&self) -> Vec<(String, Vec<String>)> {
        let keys = |topic: &String| PRIORITIES.map(|priority| format!("{topic}.{priority}"));
        match &self.pool {
            Some(pool) => vec![(pool.clone(), self.topics.iter().flat_map(keys).collect())],
            None => self.topics.iter().flat_map(keys).map(|key| (key.clone(), vec![key])).collect(),
        }
    }

    fn check(&self) -> Result<()> {
        let queues = self.queues();
        let names = queues.iter().flat_map(|(queue, keys)| std::iter::once(queue).chain(keys));
        names.chain(&self.exchanges).try_for_each(|name| check_name(name))
    }
}

/// Counters of a consumer.
#[derive(Debug, Default)]
pub struct ConsumerFigures {
    pub is_connected: AtomicBool,
    pub connections: AtomicU64,
    /// Acknowledgements sent; each may cover many messages.
    pub acknowledgements: AtomicU64,
    pub in_flight: AtomicU64,
    pub in_flight_bytes: AtomicU64,
    /// How often consuming paused at the byte limit.
    pub pauses: AtomicU64,
}

/// Handle of a consumer task.
#[derive(Debug)]
pub struct Consumer {
    stage: watch::Sender<Stage>,
    task: JoinHandle<()>,
    pub figures: Arc<ConsumerFigures>,
}

/// The requested state of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Consume,
    /// Consume nothing more; continue to acknowledge.
    Settle,
    /// Send the last acknowledgements and close.
    Close,
}

impl Consumer {
    /// Starts to consume; must be called within a Tokio runtime. Fails if a name is too long.
    pub fn start(broker: BrokerOptions, listening: ConsumerOptions) -> Result<(Self, Inbox)> {
        listening.check()?;
        let (stage, wanted) = watch::channel(Stage::Consume);
        let (worker, inbox) = Worker::new(broker, listening, wanted);
        let figures = worker.figures.clone();
        Ok((Consumer { stage, task: tokio::spawn(worker.run()), figures }, inbox))
    }

    /// Stops consuming; what was delivered can still be settled.
    pub fn stop_consuming(&self) {
        self.stage.send_if_modified(|stage| std::mem::replace(stage, (*stage).max(Stage::Settle)) != *stage);
    }

    /// Sends the last acknowledgements and closes the connection; the broker keeps what is not settled.
    pub async fn close(mut self) {
        self.stage.send_replace(Stage::Close);
        match tokio::time::timeout(END_TIMEOUT, &mut self.task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the consumer ended"),
            Err(_) => {
                tracing::warn!("the broker does not respond: the connection is dropped");
                self.task.abort();
            }
        }
    }
}

struct Worker {
    broker: BrokerOptions,
    listening: ConsumerOptions,
    deliveries: UnboundedSender<Delivery>,
    outcomes: UnboundedReceiver<(Ticket, Outcome)>,
    wanted: watch::Receiver<Stage>,
    figures: Arc<ConsumerFigures>,
    ledger: Ledger,
    /// What earlier connections have delivered and nobody has settled yet, by session: it is still in memory.
    earlier: Vec<(u64, Ledger)>,
    session: u64,
}

/// The consumers of one channel.
struct Consumers {
    channel: Channel,
    streams: SelectAll<lapin::Consumer>,
    tags: Vec<String>,
    queues: HashSet<Arc<str>>,
    /// Prefetch count of each queue, for consumers created from now on.
    prefetch: u16,
    turn: u64,
}

impl Worker {
    fn new(
        broker: BrokerOptions,
        listening: ConsumerOptions,
        wanted: watch::Receiver<Stage>,
    ) -> (Self, Inbox) {
        let (inbox, deliveries, outcomes) = Inbox::new();
        let (figures, ledger, earlier, session) = Default::default();
        let worker =
            Worker { broker, listening, deliveries, outcomes, wanted, figures, ledger, earlier, session };
        (worker, inbox)
    }

    async fn run(mut self) {
        let (mut failures, mut turn) = (0, 0);
        loop {
            let began = Instant::now();
            let ended = self.connected(turn).await;
            let was_connected = self.figures.is_connected.swap(false, Ordering::Relaxed);
            // Unacknowledged messages are redelivered on the next connection.
            self.end_session();
            self.show();
            let Err(error) = ended else { return };
            turn += 1;
            // An attempt to connect may take as long.
            failures = if was_connected && began.elapsed() >= STABLE { 1 } else { failures + 1 };
            let pause = self.broker.pauses.after(failures, fastrand::f64());
            let pause_ms = pause.as_millis();
            tracing::warn!(broker = ?self.broker.url, %error, pause_ms, "not connected to the broker: trying again");
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = self.wanted.wait_for(|stage| *stage != Stage::Consume) => return,
            }
        }
    }

    /// Consumes over one connection until it fails (an error) or consuming is stopped.
    async fn connected(&mut self, turn: usize) -> Result<()> {
        let connection = tokio::select! {
            connection = self.broker.connect(turn) => connection?,
            _ = self.wanted.wait_for(|stage| *stage != Stage::Consume) => return Ok(()),
        };
        self.session += 1;
        let mut consumers = self.declare(&connection).await?;
        self.adjust(&mut consumers).await?;
        self.figures.is_connected.store(true, Ordering::Relaxed);
        self.figures.connections.fetch_add(1, Ordering::Relaxed);
        tracing::info!(broker = ?self.broker.url, queues = consumers.queues.len(), "listening");
        self.exchange(&mut consumers).await?;
        // The broker keeps unacknowledged messages even if the close does not arrive.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, connection.close(200, "goodbye".into())).await;
        Ok(())
    }

    async fn declare(&self, connection: &Connection) -> Result<Consumers> {
        let mut declarer = Declarer::new(connection, self.broker.queues).await?;
        for exchange in &self.listening.exchanges {
            declarer.exchange(exchange).await?;
        }
        let mut queues = HashSet::new();
        for (queue, keys) in self.listening.queues() {
            declarer.queue(&queue).await?;
            for exchange in &self.listening.exchanges {
                for key in &keys {
                    declarer.bind(&queue, exchange, key).await?;
                }
            }
            queues.insert(Arc::from(queue));
        }
        let (channel, prefetch) = (declarer.into_channel(), PREFETCH_FIRST.min(self.listening.prefetch));
        Ok(Consumers { channel, streams: SelectAll::new(), tags: Vec::new(), queues, prefetch, turn: 0 })
    }

    async fn exchange(&mut self, consumers: &mut Consumers) -> Result<()> {
        let mut ticks = tokio::time::interval(ACKNOWLEDGE_DELAY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut outcomes_count = 0;
        loop {
            tokio::select! {
                delivery = consumers.streams.next(), if !consumers.streams.is_empty() => {
                    self.receive(consumers, delivery)?;
                }
                outcome = self.outcomes.recv() => {
                    let Some((ticket, outcome)) = outcome else { return Ok(()) };
                    self.apply(&consumers.channel, ticket, outcome).await?;
                    outcomes_count += 1;
                    if outcomes_count >= OUTCOMES_MAX {
                        outcomes_count = 0;
                        self.acknowledge(&consumers.channel, false).await?;
                    }
                }
                _ = ticks.tick() => {
                    outcomes_count = 0;
                    self.acknowledge(&consumers.channel, false).await?;
                    if !consumers.channel.status().connected() {
                        return Err(MessagingError("the channel was closed".to_owned()));
                    }
                }
                changed = self.wanted.changed() => {
                    if changed.is_err() || *self.wanted.borrow() == Stage::Close {
                        return self.finish(&consumers.channel).await;
                    }
                    consumers.cancel().await?;
                }
            }
            consumers.check()?;
            self.adjust(consumers).await?;
        }
    }

    /// Ends the session of this connection: its unsettled messages stay in memory and are still counted.
    fn end_session(&mut self) {
        let mut ledger = std::mem::take(&mut self.ledger);
        ledger.due(Instant::now(), true);
        if ledger.bytes() > 0 {
            self.earlier.push((self.session, ledger));
        }
    }

    /// A message of an earlier connection was settled, and is no longer in memory.
    fn forget(&mut self, ticket: Ticket) {
        for (_, ledger) in self.earlier.iter_mut().filter(|(session, _)| *session == ticket.session) {
            ledger.remove(ticket.tag);
        }
        self.earlier.retain(|(_, ledger)| ledger.bytes() > 0);
    }

    /// Bytes of all messages in memory.
    fn bytes(&self) -> usize {
        self.ledger.bytes() + self.earlier.iter().map(|(_, ledger)| ledger.bytes()).sum::<usize>()
    }

    /// Pauses or resumes consuming by the bytes in flight.
    async fn adjust(&mut self, consumers: &mut Consumers) -> Result<()> {
        if *self.wanted.borrow() != Stage::Consume {
            return Ok(());
        }
        let (limit, most) = (self.listening.in_flight_bytes_max, self.listening.prefetch);
        let (bytes, count) = (self.bytes(), self.ledger.count());
        if consumers.tags.is_empty() {
            // Drain the cancelled consumers first, so that messages stay in order.
            if consumers.streams.is_empty() && bytes <= limit / 2 {
                consumers.consume().await?;
            }
        } else if bytes > limit {
            self.figures.pauses.fetch_add(1, Ordering::Relaxed);
            consumers.prefetch = fitting(limit, self.ledger.bytes(), count).min(consumers.prefetch);
            let prefetch = consumers.prefetch;
            tracing::debug!(bytes, prefetch, "too many bytes in flight: consuming pauses");
            consumers.cancel().await?;
        } else if consumers.prefetch < most
            && count >= usize::from(consumers.prefetch)
            && bytes <= limit / usize::from(PREFETCH_GROWTH)
        {
            consumers.prefetch = consumers.prefetch.saturating_mul(PREFETCH_GROWTH).min(most);
            consumers.cancel().await?;
        }
        Ok(())
    }

    fn receive(
        &mut self,
        consumers: &Consumers,
        delivery: Option<Result<lapin::message::Delivery, lapin::Error>>,
    ) -> Result<()> {
        // The last stream has ended: all consumers were cancelled. `check` detects whether the broker did it.
        let Some(delivery) = delivery else { return Ok(()) };
        let delivery = delivery.map_err(error)?;
        self.ledger.opened(delivery.delivery_tag, delivery.data.len());
        let queue = self.listening.pool.as_deref().unwrap_or(delivery.routing_key.as_str());
        let taken = Delivery {
            queue: consumers.queues.get(queue).cloned().unwrap_or_else(|| Arc::from(queue)),
            is_redelivered: delivery.redelivered,
            ticket: Ticket { session: self.session, tag: delivery.delivery_tag },
            body: delivery.data.into(),
        };
        // If the inbox is closed, the message is requeued when the connection ends.
        let _ = self.deliveries.send(taken);
        Ok(())
    }

    /// Acknowledges or requeues a delivery of this session.
    async fn apply(&mut self, channel: &Channel, ticket: Ticket, outcome: Outcome) -> Result<()> {
        if ticket.session != self.session {
            self.forget(ticket);
            return Ok(());
        }
        match outcome {
            Outcome::Done => self.ledger.done(ticket.tag, Instant::now()),
            Outcome::Returned => {
                if self.ledger.remove(ticket.tag) {
                    let options = BasicRejectOptions { requeue: true };
                    channel.basic_reject(ticket.tag, options).await.map_err(error)?;
                }
            }
        }
        Ok(())
    }

    async fn acknowledge(&mut self, channel: &Channel, is_final: bool) -> Result<()> {
        for due in self.ledger.due(Instant::now(), is_final) {
            let (tag, multiple) = match due {
                Acknowledgement::UpTo(tag) => (tag, true),
                Acknowledgement::One(tag) => (tag, false),
            };
            self.figures.acknowledgements.fetch_add(1, Ordering::Relaxed);
            channel.basic_ack(tag, BasicAckOptions { multiple }).await.map_err(error)?;
        }
        self.show();
        Ok(())
    }

    /// Applies all outcomes reported so far.
    async fn finish(&mut self, channel: &Channel) -> Result<()> {
        while let Ok((ticket, outcome)) = self.outcomes.try_recv() {
            self.apply(channel, ticket, outcome).await?;
        }
        self.acknowledge(channel, true).await
    }

    fn show(&self) {
        self.figures.in_flight.store(self.ledger.count() as u64, Ordering::Relaxed);
        self.figures.in_flight_bytes.store(self.bytes() as u64, Ordering::Relaxed);
    }
}

impl Consumers {
    async fn consume(&mut self) -> Result<()> {
        self.turn += 1;
        // The prefetch count applies to consumers created after it.
        self.channel.basic_qos(self.prefetch, BasicQosOptions::default()).await.map_err(error)?;
        for queue in &self.queues {
            let tag = format!("gnudi-{}-{queue}", self.turn);
            let tag = if tag.len() > 255 { format!("gnudi-{}-{}", self.turn, self.tags.len()) } else { tag };
            let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
            let consuming =
                self.channel.basic_consume((&**queue).into(), tag.as_str().into(), options, arguments);
            self.streams.push(consuming.await.map_err(error)?);
            self.tags.push(tag);
        }
        Ok(())
    }

    /// A stream that ends although it was not cancelled here belongs to a queue that was deleted or whose node is down.
    /// The next connection declares it again.
    fn check(&self) -> Result<()> {
        if self.streams.len() < self.tags.len() {
            return Err(MessagingError("the broker has ended a consumer: its queue is gone".to_owned()));
        }
        Ok(())
    }

    /// Streams end after the messages under way have arrived.
    async fn cancel(&mut self) -> Result<()> {
        for tag in std::mem::take(&mut self.tags) {
            let cancelled = self.channel.basic_cancel(tag.as_str().into(), BasicCancelOptions::default());
            cancelled.await.map_err(error)?;
        }
        Ok(())
    }
}

/// How many messages of this average size fit the limit; at least one.
fn fitting(limit: usize, bytes: usize, count: usize) -> u16 {
    let average = (bytes / count.max(1)).max(1);
    u16::try_from(limit / average).unwrap_or(u16::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_come_one_by_one() {
        assert_eq!(fitting(48 << 20, 50 << 20, 1000), 960);
        assert_eq!(fitting(48 << 20, 128 << 20, 8), 3);
        assert_eq!(fitting(48 << 20, 64 << 20, 1), 1);
        assert_eq!(fitting(1 << 30, 1, 0), u16::MAX);
    }

    fn listening(pool: Option<&str>) -> ConsumerOptions {
        ConsumerOptions {
            exchanges: vec!["nova".into(), "ceilometer".into()],
            topics: vec!["notifications".into(), "other".into()],
            pool: pool.map(str::to_owned),
            prefetch: 100,
            in_flight_bytes_max: 1 << 20,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_broker_that_is_silent_does_not_hold_up_the_end() {
        let (stage, _wanted) = watch::channel(Stage::Consume);
        let consumer =
            Consumer { stage, task: tokio::spawn(std::future::pending()), figures: Arc::default() };
        let began = tokio::time::Instant::now();
        let closed = tokio::time::timeout(END_TIMEOUT * 2, consumer.close()).await;
        assert!(closed.is_ok() && began.elapsed() >= END_TIMEOUT);
    }

    #[test]
    fn what_earlier_connections_have_delivered_counts_until_it_is_settled() {
        let (_stage, wanted) = watch::channel(Stage::Consume);
        let broker = BrokerOptions::new("rabbit://a/".parse().unwrap(), "test");
        let (mut worker, _inbox) = Worker::new(broker, listening(None), wanted);
        worker.session = 1;
        for (tag, bytes) in [(1, 100), (2, 50), (3, 10)] {
            worker.ledger.opened(tag, bytes);
        }
        worker.ledger.done(2, Instant::now());
        worker.end_session();
        assert_eq!((worker.bytes(), worker.ledger.count()), (110, 0));
        worker.session = 2;
        worker.ledger.opened(1, 7);
        for (session, tag, left) in [(1, 2, 117), (1, 1, 17), (3, 3, 17), (1, 3, 7), (1, 3, 7)] {
            worker.forget(Ticket { session, tag });
            assert_eq!(worker.bytes(), left, "{session} {tag}");
        }
        assert!(worker.earlier.is_empty());
        worker.ledger.done(1, Instant::now());
        worker.end_session();
        assert!(worker.earlier.is_empty());
    }

    #[test]
    fn each_topic_has_a_queue_a_priority_and_a_pool_one_for_all() {
        let queues = listening(None).queues();
        assert_eq!(queues.len(), 14);
        assert!(queues.contains(&("other.sample".to_owned(), vec!["other.sample".to_owned()])));
        let queues = listening(Some("shadow")).queues();
        assert_eq!((queues.len(), queues[0].0.as_str(), queues[0].1.len()), (1, "shadow", 14));
        assert!(listening(None).check().is_ok());
        assert!(listening(Some(&"x".repeat(256))).check().is_err());
    }
}
