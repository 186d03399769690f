//! The aside queue: its messages, their replay, and its limits.
//!
//! It is a queue of the broker, so no message is lost when an agent stops or crashes. A message is published to the
//! aside queue before it is acknowledged in its own, and the other way round on replay. An interruption duplicates it;
//! nothing is lost.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use gnudi_model::Timestamp;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::{Figures, read};
use crate::{
    hex::hex,
    messaging::{
        AmqpOutbox, MessagingError,
        browser::{Browser, HeldMessage, depth, trim},
        compression::{Compression, HEADER, decompressed},
        envelope, json_of_python,
    },
    time::naive_iso,
};

/// Maximum characters of a stored reason.
const REASON_CHARACTERS_MAX: usize = 500;

/// Bytes of an id, shown as hexadecimal digits.
const ID_BYTES: usize = 6;

/// Interval of counting the queue; the second one applies while nothing was set aside.
const LOOK: Duration = Duration::from_secs(1);
const IDLE_LOOK: Duration = Duration::from_secs(10);

const REASON: &str = "reason";
const QUEUE: &str = "queue";
const TRIES: &str = "tries";
const TIME: &str = "time";

/// The aside queue and its limits.
#[derive(Clone, Debug)]
pub struct AsideOptions {
    pub queue: String,
    /// Beyond it the oldest messages are dropped; `None`: no limit.
    pub messages_max: Option<u32>,
    /// Older messages are dropped; `None`: no limit.
    pub age_max: Option<Duration>,
}

/// The headers of a message that is set aside.
pub(super) fn headers(reason: &str, queue: &str, tries: u32, now: Timestamp) -> Vec<(String, String)> {
    let reason: String = reason.chars().take(REASON_CHARACTERS_MAX).collect();
    [(REASON, reason), (QUEUE, queue.to_owned()), (TRIES, tries.to_string()), (TIME, naive_iso(now))]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
}

/// A message in the aside queue, held by a browser.
#[derive(Clone, Debug)]
pub struct Aside {
    /// A hash of its queue and body: the same message gets the same id when it is set aside again.
    pub id: String,
    /// ISO 8601, UTC; empty if unknown.
    pub time: String,
    /// Its original queue.
    pub queue: String,
    pub tries: String,
    pub reason: String,
    pub held: HeldMessage,
}

impl Aside {
    pub fn new(held: HeldMessage) -> Self {
        let text = |name| held.header(name).unwrap_or_default().to_owned();
        let (queue, time, tries, reason) = (text(QUEUE), text(TIME), text(TRIES), text(REASON));
        Aside { id: id(&queue, &held.body), time, queue, tries, reason, held }
    }

    /// The event type; `None` if it cannot be read.
    pub fn event_type(&self) -> Option<String> {
        let body = decompressed(&self.held.body).ok()?;
        let message = envelope::open(&body).ok()?;
        read(&json_of_python(&message)).ok().map(|notification| notification.event_type.into_owned())
    }

    /// The message without its envelope; the body itself if it has no readable envelope.
    pub fn text(&self) -> String {
        let body = decompressed(&self.held.body).unwrap_or(Cow::Borrowed(&self.held.body));
        envelope::open(&body).map_or_else(|_| String::from_utf8_lossy(&body).into_owned(), Cow::into_owned)
    }

    /// Moves it back to its original queue.
    pub async fn replay(&self, browser: &Browser) -> Result<(), MessagingError> {
        if self.queue.is_empty() {
            return Err(MessagingError("its headers do not name its original queue".to_owned()));
        }
        // Other agents recognise a compressed message by its header only.
        let compression = Compression::of(&self.held.body);
        let header = compression.map(|one| (HEADER.to_owned(), one.content_type().to_owned()));
        browser.forward(&self.held, &self.queue, header.as_slice()).await
    }
}

fn id(queue: &str, body: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(queue);
    hash.update([0]);
    hash.update(body);
    hex(&hash.finalize()[..ID_BYTES])
}

/// State of the aside queue, for `/metrics`.
#[derive(Debug, Default)]
pub struct AsideFigures {
    /// Messages in the queue, of all agents.
    pub waiting: AtomicU64,
    /// Messages dropped by this agent because of the length limit, or because the broker takes none of their size.
    pub dropped: AtomicU64,
}

/// Counts the messages at intervals and drops the oldest beyond the limit. Never returns.
pub async fn enforce_limits(outbox: Arc<AmqpOutbox>, options: AsideOptions, figures: Arc<Figures>) {
    let mut looked: Option<(u64, Instant)> = None;
    let mut is_away = false;
    loop {
        let set_aside = figures.set_aside.get();
        if looked.is_none_or(|(before, at)| before != set_aside || at.elapsed() >= IDLE_LOOK) {
            let outcome = enforce_limits_once(&outbox, &options, &figures.aside).await;
            if let Err(error) = &outcome
                && !is_away
            {
                tracing::debug!(%error, queue = options.queue, "what was set aside cannot be counted for now");
            }
            is_away = outcome.is_err();
            looked = Some((set_aside, Instant::now()));
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn enforce_limits_once(
    outbox: &AmqpOutbox,
    options: &AsideOptions,
    figures: &AsideFigures,
) -> Result<(), MessagingError> {
    let mut waiting = depth(outbox, &options.queue).await?.unwrap_or(0);
    if let Some(most) = options.messages_max.filter(|most| waiting > *most) {
        let dropped = trim(outbox, &options.queue, most).await?;
        figures.dropped.fetch_add(dropped as u64, Ordering::Relaxed);
        waiting = most;
        let queue = &options.queue;
        tracing::warn!(queue, dropped, "more was set aside than aside_length_max: the oldest is dropped");
    }
    figures.waiting.store(u64::from(waiting), Ordering::Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_known_by_its_bytes_and_its_queue() {
        assert_eq!(id("q", b"body").len(), 2 * ID_BYTES);
        assert_ne!(id("q", b"body"), id("q", b"other"));
        assert_ne!(id("q", b"body"), id("qb", b"ody"));
    }

    #[test]
    fn reasons_are_cut() {
        let headers = headers(&"é".repeat(9000), "q", 3, Timestamp(0));
        assert_eq!(headers[0].1.chars().count(), REASON_CHARACTERS_MAX);
        assert_eq!(headers[3], ("time".to_owned(), "1970-01-01T00:00:00".to_owned()));
    }
}
