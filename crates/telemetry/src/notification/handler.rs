//! What becomes of one message: by its priority, samples and events of it, handed to pipelines.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{
    BadSamples, Duplicates, Figures, Malformed, Notification, Polled, polled, polled::EVENT_TYPE, read,
};
use crate::{
    event::Event,
    messaging::envelope,
    publishers::{Publisher, Receipt},
    sample::Sample,
};

/// Makes samples of notifications: the definitions of meters.
pub trait SampleConverter: Send + Sync {
    /// None where no definition is for it.
    fn samples(&self, notification: &Notification<'_>) -> Vec<Sample<'static>>;
}

/// Makes events of notifications: the definitions of events.
pub trait EventConverter: Send + Sync {
    /// `None` where none is wanted.
    fn event(&self, notification: &Notification<'_>) -> Option<Event>;
}

/// One try to publish a message.
pub enum Attempt {
    /// Handed over; the receipt tells when it is safe.
    Published { receipt: Receipt, unique_id: Option<String>, bad: Option<BadSamples> },
    /// It was acknowledged a moment ago.
    Duplicate,
    /// Nobody can read it.
    Undecodable(String),
    /// It can be read, and makes no sense.
    Malformed(Malformed),
}

/// The pipelines, and what makes samples and events for them. What is `None` is not wanted.
pub struct Handler {
    pub samples: Option<(Arc<dyn SampleConverter>, Arc<dyn Publisher>)>,
    pub events: Option<(Arc<dyn EventConverter>, Arc<dyn Publisher>)>,
    pub figures: Arc<Figures>,
    pub duplicates: Mutex<Duplicates>,
}

impl Handler {
    /// Publishes what a message holds. `number` is the message's among the agent's figures.
    pub fn attempt(&self, body: &[u8], number: u64) -> Attempt {
        let message = match envelope::open(body) {
            Ok(message) => message,
            Err(error) => return Attempt::Undecodable(error.to_string()),
        };
        let notification = match read(&message) {
            Ok(notification) => notification,
            Err(malformed) if is_json(&message) => return Attempt::Malformed(malformed),
            Err(malformed) => return Attempt::Undecodable(malformed.0),
        };
        self.figures.sent(number, &notification.timestamp);
        let unique_id = notification.unique_id.as_deref().map(str::to_owned);
        if unique_id.as_ref().is_some_and(|id| self.duplicates.lock().contains(id)) {
            return Attempt::Duplicate;
        }
        match self.publish(&notification) {
            Ok((receipt, bad)) => Attempt::Published { receipt, unique_id, bad },
            Err(malformed) => Attempt::Malformed(malformed),
        }
    }

    fn publish(&self, notification: &Notification<'_>) -> Result<(Receipt, Option<BadSamples>), Malformed> {
        let (is_sample, is_info, is_error) = match &*notification.priority {
            "sample" => (true, false, false),
            "info" => (false, true, false),
            "error" => (false, false, true),
            _ => (false, false, false),
        };
        let mut receipts = Vec::new();
        let mut bad = None;
        if let Some((converter, pipeline)) = &self.samples
            && (is_sample || is_info)
        {
            if is_sample && notification.event_type == EVENT_TYPE {
                let Polled { samples, bad: bad_ones } = polled(notification.payload.get())?;
                self.figures.samples.add(samples.len());
                self.figures.bad_samples.add(bad_ones.as_ref().map_or(0, |bad| bad.count));
                receipts.push(pipeline.samples(&samples));
                bad = bad_ones;
            } else {
                let samples = converter.samples(notification);
                if !samples.is_empty() {
                    self.figures.samples.add(samples.len());
                    receipts.push(pipeline.samples(&samples));
                }
            }
        }
        if let Some((converter, pipeline)) = &self.events
            && (is_info || is_error)
            && let Some(event) = converter.event(notification)
        {
            self.figures.events.add(1);
            receipts.push(pipeline.events(&[event]));
        }
        let receipt = match receipts.len() {
            0 => Receipt::done(),
            1 => receipts.remove(0),
            _ => Receipt::all(receipts),
        };
        Ok((receipt, bad))
    }
}

/// Whether it is JSON at all, asked only where a message could not be read.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}
