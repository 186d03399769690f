//! Sends samples to the notification agents, through the broker.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

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

#[derive(Clone, Debug)]
pub struct SampleNotifierOptions {
    /// `ceilometer`
    pub exchange: String,
    /// `notifications`, and further ones if configured: each gets all messages.
    pub topics: Vec<String>,
    pub version: Version,
    /// How long to retry a message before its samples are dropped: the next round has newer ones.
    pub timeout: std::time::Duration,
}

/// Publishes samples as signed notifications `telemetry.polling` of priority SAMPLE.
pub struct SampleNotifier {
    pub options: SampleNotifierOptions,
    pub signer: Signer,
    pub outbox: Arc<dyn Outbox>,
    pub now: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// Creates message ids: UUIDs as text.
    pub new_id: Box<dyn Fn() -> String + Send + Sync>,
    /// Number of messages published.
    pub messages: AtomicU64,
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
            self.options.version,
        )
        .into();
        for topic in &self.options.topics {
            let message = Outgoing {
                exchange: self.options.exchange.clone(),
                routing_key: format!("{topic}.{}", PRIORITY.to_lowercase()),
                body: body.clone(),
                ..Outgoing::default()
            };
            let late =
                |_| PollError(format!("the broker has not confirmed {} samples in time", samples.len()));
            let published = tokio::time::timeout(self.options.timeout, self.outbox.publish(&message));
            published.await.map_err(late)?.map_err(|error| PollError(error.to_string()))?;
            self.messages.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
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
