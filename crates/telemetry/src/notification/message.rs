//! A notification as services put it on the bus (oslo.messaging), out of its envelope.

use std::borrow::Cow;

use serde_json::{Map, Value, value::RawValue};

/// One notification. Texts borrow from the message's body.
#[derive(Clone, Debug)]
pub struct Notification<'a> {
    pub publisher_id: Cow<'a, str>,
    pub event_type: Cow<'a, str>,
    /// In lower case: audit, debug, info, warn, error, critical, sample.
    pub priority: Cow<'a, str>,
    pub message_id: Cow<'a, str>,
    /// `YYYY-MM-DD HH:MM:SS.ffffff`, UTC, as the sender wrote it.
    pub timestamp: Cow<'a, str>,
    /// JSON of any shape, not yet looked into.
    pub payload: &'a RawValue,
    /// What stood behind `_context_`, without that prefix.
    pub context: Map<String, Value>,
    /// By which duplicates are known.
    pub unique_id: Option<Cow<'a, str>>,
}

impl Notification<'_> {
    /// The form that definitions look into: `publisher_id`, `event_type`, `message_id`, `priority`, `payload`, `ctxt`, and
    /// `metadata` with `message_id` and `timestamp`.
    pub fn document(&self) -> Value {
        let payload = serde_json::from_str(self.payload.get()).unwrap_or(Value::Null);
        serde_json::json!({
            "priority": self.priority,
            "publisher_id": self.publisher_id,
            "event_type": self.event_type,
            "message_id": self.message_id,
            "ctxt": self.context,
            "payload": payload,
            "metadata": { "message_id": self.message_id, "timestamp": self.timestamp },
        })
    }
}
