//! Sends samples to the notification agents, through the broker.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_model::Timestamp;
use serde_json::value::RawValue;

use super::{outlet::SampleSender, pollster::PollError};
use crate::{
    messaging::{
        Outbox, Outgoing,
        envelope::{OsloMessage, Version, seal},
    },
    sample::Sample,
    time::naive_text,
    wire::{Signer, samples_payload},
};

/// The publisher id of polling agents.
const PUBLISHER_ID: &str = "ceilometer.polling";
const EVENT_TYPE: &str = "telemetry.polling";
const PRIORITY: &str = "SAMPLE";

/// Publishes samples as signed notifications `telemetry.polling` of priority SAMPLE.
pub struct SampleNotifier {
    /// `ceilometer`
    pub exchange: String,
    /// `notifications`, and further ones if configured: each gets all messages.
    pub topics: Vec<String>,
    pub version: Version,
    /// How long to retry a message before its samples are dropped: the next round has newer ones.
    pub timeout: Duration,
    pub signer: Signer,
    pub outbox: Arc<dyn Outbox>,
    pub now: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// Creates message ids: UUIDs as text.
    pub new_id: Box<dyn Fn() -> String + Send + Sync>,
}

#[async_trait]
impl SampleSender for SampleNotifier {
    async fn send(&self, samples: &[Sample<'_>]) -> Result<(), PollError> {
        let payload = samples_payload(samples, &self.signer);
        let payload = RawValue::from_string(payload).map_err(|error| PollError(error.to_string()))?;
        let (message_id, unique_id) = ((self.new_id)(), (self.new_id)().replace('-', ""));
        let body: Bytes = seal(
            &OsloMessage {
                request_id: None,
                message_id: &message_id,
                publisher_id: PUBLISHER_ID,
                event_type: EVENT_TYPE,
                priority: PRIORITY,
                payload: &payload,
                timestamp: &naive_text((self.now)()),
                unique_id: &unique_id,
            },
            self.version,
        )
        .into();
        let mut outcome = Ok(());
        for topic in &self.topics {
            let message = Outgoing {
                exchange: self.exchange.clone(),
                routing_key: format!("{topic}.{}", PRIORITY.to_lowercase()),
                body: body.clone(),
                ..Outgoing::default()
            };
            let late =
                |_| PollError(format!("the broker has not confirmed {} samples in time", samples.len()));
            let published = tokio::time::timeout(self.timeout, self.outbox.publish(&message)).await;
            let published = published
                .map_err(late)
                .and_then(|published| published.map_err(|error| PollError(error.to_string())));
            // The queue of one topic may be full: the others get the message.
            outcome = outcome.and(published);
        }
        outcome
    }
}

/// For agents that publish nothing.
pub struct Nowhere;

#[async_trait]
impl SampleSender for Nowhere {
    async fn send(&self, _: &[Sample<'_>]) -> Result<(), PollError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use parking_lot::Mutex;
    use serde_json::{Map, Value};

    use super::*;
    use crate::{messaging::MessagingError, polling::pollster::Meter};

    /// Confirms no message to the topic `full`.
    #[derive(Default)]
    struct Full(Mutex<Vec<String>>);

    #[async_trait]
    impl Outbox for Full {
        async fn publish(&self, message: &Outgoing) -> Result<(), MessagingError> {
            if message.routing_key.starts_with("full.") {
                pending::<()>().await;
            }
            self.0.lock().push(message.routing_key.clone());
            Ok(())
        }

        async fn try_publish(&self, message: &Outgoing) -> Result<(), MessagingError> {
            self.publish(message).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_topic_that_takes_nothing_costs_no_other() {
        let outbox = Arc::new(Full::default());
        let notifier = SampleNotifier {
            exchange: "ceilometer".to_owned(),
            topics: ["a", "full", "b"].map(str::to_owned).to_vec(),
            version: Version::Two,
            timeout: Duration::from_mins(1),
            signer: Signer::new(""),
            outbox: outbox.clone(),
            now: Box::new(|| Timestamp(0)),
            new_id: Box::new(|| "an-id".to_owned()),
        };
        let sample = Meter::gauge("a", "").sample("r".to_owned(), Value::from(1), Map::new());
        let error = notifier.send(&[sample]).await.unwrap_err();
        assert!(error.0.contains("has not confirmed 1 samples"), "{error}");
        assert_eq!(*outbox.0.lock(), ["a.sample", "b.sample"]);
    }
}
