//! Processes one message: makes its samples and events, depending on its priority, and hands them to the pipelines.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    BadSamples, Duplicates, Figures, MalformedNotification, Notification, Polled,
    duplicates::Turn,
    polled,
    polled::{EVENT_TYPE, MetadataMemory, Scanned, scan},
    read,
};
use crate::{
    definitions::LookupError,
    events::EventDefinitions,
    messaging::{
        compression::{self, CompressionError},
        envelope::{self, EnvelopeError},
        json_of_python,
    },
    meters::{MadeSamples, MeterDefinitions},
    polling::names::Names,
    publishers::{Publisher, Receipt},
};

/// The result of one attempt to publish a message.
pub enum Attempt {
    /// Handed over; the receipt resolves once the contents are safe.
    Published {
        receipt: Receipt,
        /// The message's id, for [`Duplicates::acknowledged`].
        turn: Option<(String, watch::Sender<bool>)>,
        bad: Option<BadSamples>,
    },
    /// It was acknowledged recently.
    Duplicate,
    /// Another delivery of it is being published: resolves to whether it was.
    InFlight(watch::Receiver<bool>),
    /// Not readable.
    Undecodable(String),
    /// Readable, but not valid.
    Malformed(MalformedNotification),
}

/// The pipelines, and the definitions that make samples and events for them.
pub struct MessageHandler {
    pub pipelines: Arc<dyn Publisher>,
    /// `None`: no samples, except those of polling agents.
    pub meters: Option<MeterDefinitions>,
    /// Looks up user and project names; `None`: samples go without.
    pub names: Option<Arc<Names>>,
    /// `None`: no events.
    pub events: Option<EventDefinitions>,
    pub figures: Arc<Figures>,
    pub duplicates: Mutex<Duplicates>,
    pub metadata: MetadataMemory,
}

impl MessageHandler {
    /// Publishes the contents of a message. `number` is its number among the agent's figures.
    pub fn attempt(&self, body: &[u8], number: u64) -> Attempt {
        let body = match compression::decompressed(body) {
            Ok(body) => body,
            Err(error @ CompressionError::TooLarge) => {
                return Attempt::Malformed(MalformedNotification(error.to_string()));
            }
            Err(error) => return Attempt::Undecodable(error.to_string()),
        };
        if let Some(Scanned { timestamp, unique_id, samples }) = scan(&body, &self.metadata) {
            return self.publish_unless_duplicate(number, &timestamp, unique_id.as_deref(), || {
                Ok((self.publish_polled(&Polled { samples, bad: None }), None))
            });
        }
        let message = match envelope::open(&body) {
            Ok(message) => message,
            Err(error @ EnvelopeError::TooLarge(_)) => {
                return Attempt::Malformed(MalformedNotification(error.to_string()));
            }
            Err(error) => return Attempt::Undecodable(error.to_string()),
        };
        let message = json_of_python(&message);
        let notification = match read(&message) {
            Ok(notification) => notification,
            Err(malformed) if is_json(&message) => return Attempt::Malformed(malformed),
            Err(malformed) => return Attempt::Undecodable(malformed.0),
        };
        let unique_id = notification.unique_id.as_deref();
        self.publish_unless_duplicate(number, &notification.timestamp, unique_id, || {
            self.publish(&notification)
        })
    }

    /// Publishes a message unless it is a duplicate.
    fn publish_unless_duplicate(
        &self,
        number: u64,
        timestamp: &str,
        unique_id: Option<&str>,
        publish: impl FnOnce() -> Result<(Receipt, Option<BadSamples>), MalformedNotification>,
    ) -> Attempt {
        self.figures.sent(number, timestamp);
        let turn = match unique_id.map(|id| (id, self.duplicates.lock().turn(id))) {
            None => None,
            Some((id, Turn::Ours(turn))) => Some((id.to_owned(), turn)),
            Some((_, Turn::Later(end))) => return Attempt::InFlight(end),
            Some((_, Turn::Never)) => return Attempt::Duplicate,
        };
        match publish() {
            Ok((receipt, bad)) => Attempt::Published { receipt, turn, bad },
            Err(malformed) => Attempt::Malformed(malformed),
        }
    }

    fn publish_polled(&self, Polled { samples, bad }: &Polled<'_>) -> Receipt {
        self.figures.samples.inc_by(samples.len() as u64);
        self.figures.bad_samples.inc_by(bad.as_ref().map_or(0, |bad| bad.count as u64));
        self.pipelines.samples(samples)
    }

    /// Publishes samples and events made by definitions, once the names they need are known.
    fn publish_converted(&self, MadeSamples { mut samples, looked_up }: MadeSamples) -> Receipt {
        let Some(names) = self.names.clone().filter(|_| !looked_up.is_empty()) else {
            return self.pipelines.samples(&samples);
        };
        let pipelines = self.pipelines.clone();
        Receipt::of(async move {
            for range in looked_up {
                names.complete(&mut samples[range]).await;
            }
            // Drops the samples early: they need not stay in memory until they are stored.
            let receipt = pipelines.samples(&samples);
            drop(samples);
            receipt.await
        })
    }

    fn publish(
        &self,
        notification: &Notification<'_>,
    ) -> Result<(Receipt, Option<BadSamples>), MalformedNotification> {
        let (is_sample, is_info, is_error) = match &*notification.priority {
            "sample" => (true, false, false),
            "info" => (false, true, false),
            "error" => (false, false, true),
            _ => (false, false, false),
        };
        let mut receipts = Vec::new();
        let mut bad = None;
        if is_sample && notification.event_type == EVENT_TYPE {
            let polled = polled(notification.payload.get())?;
            receipts.push(self.publish_polled(&polled));
            bad = polled.bad;
        }
        let event_type = &*notification.event_type;
        let meters = self.meters.as_ref().filter(|_| is_info || is_sample && event_type != EVENT_TYPE);
        let meters = meters.filter(|meters| meters.matches(event_type));
        let events =
            self.events.as_ref().filter(|events| (is_info || is_error) && events.matches(event_type));
        if meters.is_none() && events.is_none() {
            return Ok((Receipt::all(receipts), bad));
        }
        // Both are made before either is published: a message that fails is set aside whole.
        let document = notification.document()?;
        let unusable = |error: LookupError| MalformedNotification(error.0);
        let made =
            meters.map(|meters| meters.samples(notification, &document)).transpose().map_err(unusable)?;
        let event =
            events.map(|events| events.event(notification, &document)).transpose().map_err(unusable)?;
        if let Some(made) = made.filter(|made| !made.samples.is_empty()) {
            self.figures.samples.inc_by(made.samples.len() as u64);
            receipts.push(self.publish_converted(made));
        }
        if let Some(event) = event.flatten() {
            self.figures.events.inc();
            receipts.push(self.pipelines.events(&[event]));
        }
        Ok((Receipt::all(receipts), bad))
    }
}

/// Whether it is JSON at all; checked only for messages that could not be read.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}
