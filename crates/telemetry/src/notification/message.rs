//! A notification as services send it (oslo.messaging), without its envelope.

use std::borrow::Cow;

use serde_json::{Map, Value, value::RawValue};

use super::MalformedNotification;

/// One notification. Texts borrow from the message body.
#[derive(Clone, Debug)]
pub struct Notification<'a> {
    pub publisher_id: Cow<'a, str>,
    pub event_type: Cow<'a, str>,
    /// Lower case: audit, debug, info, warn, error, critical, sample.
    pub priority: Cow<'a, str>,
    pub message_id: Cow<'a, str>,
    /// `YYYY-MM-DD HH:MM:SS.ffffff`, UTC, as the sender wrote it.
    pub timestamp: Cow<'a, str>,
    /// Unparsed JSON.
    pub payload: &'a RawValue,
    /// The fields with the prefix `_context_`, without the prefix.
    pub context: Map<String, Value>,
    /// Identifies duplicates.
    pub unique_id: Option<Cow<'a, str>>,
}

impl Notification<'_> {
    /// The document that definitions look values up in: `ctxt`, `publisher_id`, `event_type`, `payload`, and `metadata`
    /// with `message_id` and `timestamp`, as oslo.messaging passes them to endpoints.
    ///
    /// # Errors
    /// A raw payload may still have too many levels, or an integer of too many digits.
    pub fn document(&self) -> Result<Value, MalformedNotification> {
        let payload: Value = serde_json::from_str(self.payload.get())
            .map_err(|error| MalformedNotification(format!("its payload: {error}")))?;
        let metadata = [("message_id", &self.message_id), ("timestamp", &self.timestamp)];
        let metadata: Map<String, Value> =
            metadata.into_iter().map(|(key, text)| (key.to_owned(), Value::from(text.as_ref()))).collect();
        let parts = [
            ("ctxt", Value::Object(self.context.clone())),
            ("publisher_id", Value::from(self.publisher_id.as_ref())),
            ("event_type", Value::from(self.event_type.as_ref())),
            ("payload", payload),
            ("metadata", Value::Object(metadata)),
        ];
        Ok(Value::Object(parts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use crate::notification::read;

    #[test]
    fn a_payload_that_cannot_be_parsed_is_an_error() {
        for payload in [r#"{"a": "\ud800"}"#, "[1e999]", &format!("{}1{}", "[".repeat(200), "]".repeat(200))]
        {
            let text = format!(r#"{{"event_type": "e", "priority": "info", "payload": {payload}}}"#);
            let error = read(&text).unwrap().document().unwrap_err();
            assert!(error.0.starts_with("its payload: "), "{error}");
        }
    }
}
