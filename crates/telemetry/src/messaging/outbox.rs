//! Publishes to the broker with publisher confirms.

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionStatus, PublisherConfirm,
    options::{BasicPublishOptions, ConfirmSelectOptions},
    types::{AMQPValue, FieldTable},
};
use tokio::sync::Mutex;

use super::{
    BrokerOptions, MessagingError, QueueOptions, QuorumOptions, Result, compression,
    connection::{CLOSE_TIMEOUT, error},
    topology::{Declarer, check_name},
};

/// Delivery mode of messages that survive a restart of the broker in durable queues.
const PERSISTENT: u8 = 2;

/// `x-delivery-limit` of a quorum queue: practically unlimited, since each inspection of the queue counts as a
/// delivery.
const LOOKS_MAX: u32 = 1_000_000_000;

/// How long a broker that blocks the connection may still answer: it has read a part of what was sent.
const BLOCKED_WAIT: Duration = Duration::from_secs(1);

/// A message to publish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    /// Empty: the default exchange, straight to the queue `routing_key`, which is declared durable if missing.
    pub exchange: String,
    /// Also the queue declared for the message, as oslo.messaging does, so that it is kept even before anybody
    /// consumes.
    pub routing_key: String,
    pub body: Bytes,
    /// Text headers.
    pub headers: Vec<(String, String)>,
    /// Expiry, in whole milliseconds; `None`: never.
    pub lifetime: Option<Duration>,
}

/// Where messages are published.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Returns once the message is confirmed. Retries transient failures: drop the future to give up. Fails if the broker
    /// takes no message of its size.
    async fn publish(&self, message: &Outgoing) -> Result<()>;

    /// One attempt; a second one if the queue was deleted meanwhile.
    async fn try_publish(&self, message: &Outgoing) -> Result<()>;
}

/// Publishes over a connection that is opened with the first message and reopened when it fails.
#[derive(Debug)]
pub struct AmqpOutbox {
    broker: BrokerOptions,
    state: Mutex<ConnectionState>,
}

#[derive(Debug, Default)]
struct ConnectionState {
    open: Option<OpenConnection>,
    /// Number of connection attempts so far.
    turn: usize,
}

#[derive(Debug)]
struct OpenConnection {
    connection: Arc<Connection>,
    channel: Channel,
    /// Declared exchanges and routing keys.
    declared: HashSet<(String, String)>,
}

impl OpenConnection {
    fn is_blocked(&self) -> bool {
        self.channel.status().connected() && self.connection.status().blocked()
    }
}

impl AmqpOutbox {
    pub fn new(broker: BrokerOptions) -> Self {
        AmqpOutbox { broker, state: Mutex::new(ConnectionState::default()) }
    }

    /// Publishes; the returned confirmation resolves when the broker has the message.
    async fn send(&self, message: &Outgoing) -> Result<(PublisherConfirm, ConnectionStatus)> {
        check_name(&message.exchange)?;
        check_name(&message.routing_key)?;
        let mut state = self.state.lock().await;
        // What is written now would stay in memory, unconfirmed, until the broker reads again. A new connection would be
        // blocked by its first message.
        if state.open.as_ref().is_some_and(OpenConnection::is_blocked) {
            return Err(blocked());
        }
        let sent = self.send_over(&mut state, message).await;
        if sent.is_err() && !state.open.as_ref().is_some_and(OpenConnection::is_blocked) {
            state.open = None;
        }
        sent
    }

    async fn send_over(
        &self,
        state: &mut ConnectionState,
        message: &Outgoing,
    ) -> Result<(PublisherConfirm, ConnectionStatus)> {
        let open = self.connected(state).await?;
        let status = open.connection.status().clone();
        let confirmation = unless_blocked(|| status.blocked(), self.write(open, message)).await??;
        Ok((confirmation, status))
    }

    async fn write(&self, open: &mut OpenConnection, message: &Outgoing) -> Result<PublisherConfirm> {
        self.declare(open, message).await?;
        let (mut headers, mut body) = (table(&message.headers), message.body.clone());
        if let Some(compression) = self.broker.compression.filter(|_| !message.exchange.is_empty()) {
            let word = AMQPValue::LongString(compression.content_type().into());
            headers.insert(compression::HEADER.into(), word);
            body = compression.compress(&body).into();
        }
        let Outgoing { exchange, routing_key, lifetime, .. } = message;
        send_persistent(&open.channel, exchange, routing_key, headers, &body, *lifetime).await
    }

    async fn connected<'a>(&self, state: &'a mut ConnectionState) -> Result<&'a mut OpenConnection> {
        if state.open.as_ref().is_none_or(|open| !open.channel.status().connected()) {
            state.open = None;
            state.turn += 1;
            state.open = Some(self.connect(state.turn - 1).await?);
        }
        Ok(state.open.as_mut().expect("just connected"))
    }

    /// Opens another channel on this connection.
    pub(super) async fn channel(&self) -> Result<Channel> {
        let mut state = self.state.lock().await;
        let connection = self.connected(&mut state).await?.connection.clone();
        let status = connection.status();
        let created = unless_blocked(|| status.blocked(), connection.create_channel()).await?;
        if created.is_err() {
            state.open = None;
        }
        created.map_err(error)
    }

    async fn connect(&self, turn: usize) -> Result<OpenConnection> {
        let connection = self.broker.connect(turn).await?;
        let channel = connection.create_channel().await.map_err(error)?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(error)?;
        Ok(OpenConnection { connection: Arc::new(connection), channel, declared: HashSet::new() })
    }

    /// On a channel of its own: a refusal closes the channel, and the publishing one must stay open.
    async fn declare(&self, open: &mut OpenConnection, message: &Outgoing) -> Result<()> {
        let place = (message.exchange.clone(), message.routing_key.clone());
        if open.declared.contains(&place) {
            return Ok(());
        }
        let mut declarer = Declarer::new(&open.connection, self.broker.queues).await?;
        if message.exchange.is_empty() {
            // Inspecting a queue requeues its messages, which counts as a delivery.
            let quorum = self.broker.queues.quorum;
            let quorum = quorum.map(|quorum| QuorumOptions { delivery_limit: LOOKS_MAX, ..quorum });
            let durable = QueueOptions { durable: true, auto_delete: false, quorum };
            declarer.queue_of(&message.routing_key, durable).await?;
        } else {
            declarer.exchange(&message.exchange).await?;
            declarer.queue(&message.routing_key).await?;
            declarer.bind(&message.routing_key, &message.exchange, &message.routing_key).await?;
        }
        let _ = declarer.into_channel().close(200, "declared".into()).await;
        open.declared.insert(place);
        Ok(())
    }

    /// Forgets the declaration, so that the next message declares the queue again.
    async fn forget_declaration(&self, message: &Outgoing) {
        tracing::warn!(queue = message.routing_key, "the queue was deleted: it is declared again");
        if let Some(open) = &mut self.state.lock().await.open {
            open.declared.remove(&(message.exchange.clone(), message.routing_key.clone()));
        }
    }

    /// Closes the connection, if open.
    pub async fn close(&self) {
        let closing = async {
            if let Some(open) = self.state.lock().await.open.take() {
                let _ = open.connection.close(200, "goodbye".into()).await;
            }
        };
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
    }
}

fn blocked() -> MessagingError {
    MessagingError("the broker is short of memory or disk".to_owned())
}

/// Waits for the broker, as long as it does not block the connection.
async fn unless_blocked<T>(is_blocked: impl Fn() -> bool, answer: impl Future<Output = T>) -> Result<T> {
    let mut answer = std::pin::pin!(answer);
    loop {
        match tokio::time::timeout(BLOCKED_WAIT, answer.as_mut()).await {
            Ok(answer) => return Ok(answer),
            Err(_) if is_blocked() => return Err(blocked()),
            Err(_) => {}
        }
    }
}

/// Sends a JSON message, which is kept if the broker restarts.
pub(super) async fn send_persistent(
    channel: &Channel,
    exchange: &str,
    routing_key: &str,
    headers: FieldTable,
    body: &[u8],
    lifetime: Option<Duration>,
) -> Result<PublisherConfirm> {
    let mut properties = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_content_encoding("utf-8".into())
        .with_delivery_mode(PERSISTENT)
        .with_headers(headers);
    if let Some(lifetime) = lifetime {
        properties = properties.with_expiration(lifetime.as_millis().to_string().into());
    }
    // Otherwise the broker confirms messages that no queue accepts.
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let sent = channel.basic_publish(exchange.into(), routing_key.into(), options, body, properties);
    sent.await.map_err(error)
}

/// Whether a queue has accepted the message.
pub(super) fn is_queued(confirmation: &Confirmation) -> Result<bool> {
    match confirmation {
        Confirmation::Ack(returned) => Ok(returned.is_none()),
        Confirmation::Nack(_) | Confirmation::NotRequested => {
            Err(MessagingError("the broker rejects the message".to_owned()))
        }
    }
}

/// Headers as an AMQP table.
pub(super) fn table(headers: &[(String, String)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in headers {
        table.insert(name.as_str().into(), AMQPValue::LongString(value.as_str().into()));
    }
    table
}

#[async_trait]
impl Outbox for AmqpOutbox {
    async fn publish(&self, message: &Outgoing) -> Result<()> {
        check_name(&message.exchange)?;
        check_name(&message.routing_key)?;
        let mut failures = 0;
        loop {
            let error = match self.try_publish(message).await {
                Err(error) if !error.refuses_size(message.body.len()) => error,
                done => return done,
            };
            failures += 1;
            let pause = self.broker.pauses.after(failures, fastrand::f64());
            let pause_ms = pause.as_millis();
            tracing::warn!(broker = ?self.broker.url, %error, pause_ms, "not published: trying again");
            tokio::time::sleep(pause).await;
        }
    }

    async fn try_publish(&self, message: &Outgoing) -> Result<()> {
        for _ in 0..2 {
            let (confirmation, status) = self.send(message).await?;
            let confirmed = unless_blocked(|| status.blocked(), confirmation).await?;
            if is_queued(&confirmed.map_err(error)?)? {
                return Ok(());
            }
            // The queue was deleted after it was declared here: declare it once more.
            self.forget_declaration(message).await;
        }
        Err(MessagingError(format!("no queue is bound for messages to {}", message.routing_key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_broker_that_blocks_the_connection_holds_nobody_up() {
        assert!(unless_blocked(|| true, std::future::pending::<()>()).await.is_err());
        assert!(unless_blocked(|| false, tokio::time::sleep(10 * BLOCKED_WAIT)).await.is_ok());
        assert!(unless_blocked(|| true, std::future::ready(())).await.is_ok());
    }
}
