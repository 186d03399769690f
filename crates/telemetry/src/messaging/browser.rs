//! Browses a queue: each message is held while it is inspected, then removed, forwarded to another queue, or requeued.
//!
//! Unacknowledged messages belong to the browser's channel: when the channel ends, also by a crash, the broker requeues them.

use bytes::Bytes;
use lapin::{
    BasicProperties, Channel, ErrorKind,
    options::{
        BasicAckOptions, BasicGetOptions, BasicRejectOptions, ConfirmSelectOptions, QueueDeclareOptions,
    },
    types::{AMQPValue, FieldTable, ShortString},
};

use super::{
    AmqpOutbox, MessagingError, Result,
    connection::{CLOSE_TIMEOUT, error},
    outbox::{is_queued, send_persistent, table},
};

/// AMQP reply code for a missing queue.
const NOT_FOUND: u16 = 404;

/// A message held by the browser.
#[derive(Clone, Debug)]
pub struct HeldMessage {
    tag: u64,
    pub body: Bytes,
    /// Only the headers that are texts.
    pub headers: Vec<(String, String)>,
}

impl HeldMessage {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// Iterates from a queue's first message to the one that was last when the browser was opened.
pub struct Browser {
    queue: ShortString,
    channel: Channel,
    left: u32,
}

impl Browser {
    /// `None` if the queue does not exist.
    pub async fn open(outbox: &AmqpOutbox, queue: &str) -> Result<Option<Self>> {
        let Some(left) = depth(outbox, queue).await? else { return Ok(None) };
        let channel = outbox.channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(error)?;
        Ok(Some(Browser { queue: queue.into(), channel, left }))
    }

    /// The next message; `None` at the end. Messages that arrived after opening are not visited.
    pub async fn next(&mut self) -> Result<Option<HeldMessage>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let got = self.channel.basic_get(self.queue.clone(), BasicGetOptions::default()).await;
        Ok(got.map_err(error)?.map(|got| HeldMessage {
            tag: got.delivery.delivery_tag,
            headers: texts(&got.delivery.properties),
            body: got.delivery.data.into(),
        }))
    }

    /// Removes a message from the queue for good.
    pub async fn remove(&self, held: &HeldMessage) -> Result<()> {
        self.channel.basic_ack(held.tag, BasicAckOptions::default()).await.map_err(error)
    }

    /// Moves a message to another queue: publishes it, waits for the confirmation, and removes it here. If that queue
    /// does not exist, an error: the message stays held.
    pub async fn forward(&self, held: &HeldMessage, queue: &str, headers: &[(String, String)]) -> Result<()> {
        let sent = send_persistent(&self.channel, "", queue, table(headers), &held.body, None).await?;
        if !is_queued(&sent.await.map_err(error)?)? {
            return Err(MessagingError(format!("there is no queue {queue}")));
        }
        self.remove(held).await
    }

    /// Requeues the held messages at their old positions.
    pub async fn close(self) {
        // If closing fails the connection is gone, and the broker has requeued them.
        close(&self.channel).await;
    }
}

/// Number of messages in a queue; `None` if it does not exist.
pub async fn depth(outbox: &AmqpOutbox, queue: &str) -> Result<Option<u32>> {
    let channel = outbox.channel().await?;
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    match channel.queue_declare(queue.into(), options, FieldTable::default()).await {
        Ok(declared) => {
            close(&channel).await;
            Ok(Some(declared.message_count()))
        }
        // The broker reports a missing queue by closing the channel.
        Err(failure) => match failure.kind() {
            ErrorKind::ProtocolError(reason) if reason.get_id() == NOT_FOUND => Ok(None),
            _ => Err(error(failure)),
        },
    }
}

/// Removes the oldest messages of a queue until at most `messages_max` are left; returns the number removed. Safe to
/// run concurrently: each removes a message only while more than that are left.
pub async fn trim(outbox: &AmqpOutbox, queue: &str, messages_max: u32) -> Result<usize> {
    let channel = outbox.channel().await?;
    let mut removed = 0;
    while let Some(got) = channel.basic_get(queue.into(), BasicGetOptions::default()).await.map_err(error)? {
        let tag = got.delivery.delivery_tag;
        if got.message_count < messages_max {
            channel.basic_reject(tag, BasicRejectOptions { requeue: true }).await.map_err(error)?;
            break;
        }
        channel.basic_ack(tag, BasicAckOptions::default()).await.map_err(error)?;
        removed += 1;
    }
    close(&channel).await;
    Ok(removed)
}

/// A broker that is silent must not hold up the caller.
async fn close(channel: &Channel) {
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, channel.close(200, "done".into())).await;
}

fn texts(properties: &BasicProperties) -> Vec<(String, String)> {
    let headers = properties.headers().iter().flat_map(FieldTable::inner);
    let text = |(name, value): (&ShortString, &AMQPValue)| match value {
        AMQPValue::LongString(value) => Some((name.to_string(), value.to_string())),
        AMQPValue::ShortString(value) => Some((name.to_string(), value.to_string())),
        _ => None,
    };
    headers.filter_map(text).collect()
}
