//! oslo.messaging's envelopes: version 2.0 holds the message as a JSON text; version 1 sends the message bare.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::{json_of_python, unescape::unescape};

/// A larger message is rejected; `OpenStack`'s are kilobytes.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// The envelope version to publish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// The driver `messaging`.
    Bare,
    /// The driver `messagingv2`.
    #[default]
    Two,
}

/// Why a body is not a valid message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    #[error("{0} bytes, more than {MESSAGE_BYTES_MAX}")]
    TooLarge(usize),
    #[error("not UTF-8")]
    Encoding,
    #[error("version {0}, where 2.0 is understood")]
    Version(String),
    #[error("{0}")]
    Json(String),
}

/// The message in an uncompressed body, as JSON: copied out of an envelope, borrowed if bare.
pub fn open(body: &[u8]) -> Result<Cow<'_, str>, EnvelopeError> {
    if body.len() > MESSAGE_BYTES_MAX {
        return Err(EnvelopeError::TooLarge(body.len()));
    }
    let text = std::str::from_utf8(body).map_err(|_| EnvelopeError::Encoding)?;
    if let Some(message) = open_usual(text) {
        return Ok(Cow::Owned(message));
    }
    // All other forms: other field order, bare, or not a message.
    if !text.contains("\"oslo.") {
        return Ok(Cow::Borrowed(text));
    }
    let envelope = json_of_python(text);
    let envelope: Envelope<'_> =
        serde_json::from_str(&envelope).map_err(|error| EnvelopeError::Json(error.to_string()))?;
    let Some(version) = envelope.version else { return Ok(Cow::Borrowed(text)) };
    let version = match version {
        Value::String(version) => version,
        other => other.to_string(),
    };
    if !is_understood(&version) {
        return Err(EnvelopeError::Version(version.chars().take(20).collect()));
    }
    let message = envelope.message.ok_or_else(|| EnvelopeError::Json("no oslo.message".to_owned()))?;
    Ok(Cow::Owned(message.into_owned()))
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "oslo.version")]
    version: Option<Value>,
    #[serde(rename = "oslo.message", borrow)]
    message: Option<Cow<'a, str>>,
}

/// The same major version, and no later minor version.
fn is_understood(version: &str) -> bool {
    version == "2" || version.strip_prefix("2.0").is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Fast path: `{"oslo.version": "2.0", "oslo.message": "..."}` with any whitespace and nothing else.
fn open_usual(text: &str) -> Option<String> {
    let mut at = start_of_message(text)?;
    let (message, length) = unescape(&text[at..])?;
    at += length;
    let end = text[at..].trim_ascii_start().strip_prefix('}')?;
    end.trim_ascii().is_empty().then_some(message)
}

/// The offset of the message text, after its quote, in an envelope of the usual form.
pub fn start_of_message(text: &str) -> Option<usize> {
    let mut rest = text;
    for token in ["{", "\"oslo.version\"", ":", "\"2.0\"", ",", "\"oslo.message\"", ":", "\""] {
        rest = rest.trim_ascii_start().strip_prefix(token)?;
    }
    Some(text.len() - rest.len())
}

/// A message to publish, fields in the order of oslo.messaging.
#[derive(Clone, Debug, Serialize)]
pub struct OsloMessage<'a> {
    #[serde(rename = "_context_request_id", skip_serializing_if = "Option::is_none")]
    pub request_id: Option<&'a str>,
    pub message_id: &'a str,
    pub publisher_id: &'a str,
    pub event_type: &'a str,
    /// In upper case.
    pub priority: &'a str,
    pub payload: &'a RawValue,
    /// `YYYY-MM-DD HH:MM:SS.ffffff`, UTC.
    pub timestamp: &'a str,
    #[serde(rename = "_unique_id")]
    pub unique_id: &'a str,
}

/// Builds the body of a message.
pub fn seal(message: &OsloMessage<'_>, version: Version) -> Vec<u8> {
    let text = serde_json::to_string(message).expect("texts and a value");
    match version {
        Version::Bare => text.into_bytes(),
        Version::Two => {
            let envelope = serde_json::json!({ "oslo.version": "2.0", "oslo.message": text });
            envelope.to_string().into_bytes()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn envelopes_are_opened() {
        for (body, message) in [
            (r#"{"oslo.version": "2.0", "oslo.message": "{\"a\": \"\\u00e9\"}"}"#, r#"{"a": "\u00e9"}"#),
            (r#" { "oslo.message" : "{}" , "oslo.version" : "2.0.1" } "#, "{}"),
            (r#"{"oslo.version": "2.0", "oslo.message": "{}", "more": 1}"#, "{}"),
            (r#"{"oslo.version": "2.0", "oslo.message": "[NaN]", "more": NaN}"#, "[NaN]"),
            (r#"{"payload": {"text": "\"oslo.version\""}}"#, r#"{"payload": {"text": "\"oslo.version\""}}"#),
            ("nothing", "nothing"),
        ] {
            assert_eq!(open(body.as_bytes()).unwrap(), message, "{body}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for body in [
            r#"{"oslo.version": "3.0", "oslo.message": "{}"}"#,
            r#"{"oslo.version": "2.1", "oslo.message": "{}"}"#,
            r#"{"oslo.version": "2.0"}"#,
            r#"{"oslo.version": "2.0", "oslo.message": {}}"#,
            r#"{"oslo.version": "2.0", "oslo.message": "{}""#,
            r#"{"oslo.version": 2, "oslo.message": 1}"#,
        ] {
            assert!(open(body.as_bytes()).is_err(), "{body}");
        }
        assert_eq!(open(b"\xff"), Err(EnvelopeError::Encoding));
        assert!(matches!(open(&vec![b' '; MESSAGE_BYTES_MAX + 1]), Err(EnvelopeError::TooLarge(_))));
    }

    proptest! {
        #[test]
        fn what_is_sealed_can_be_opened(text in any::<String>(), is_bare in any::<bool>()) {
            let payload = serde_json::value::to_raw_value(&text).unwrap();
            let message = OsloMessage {
                request_id: None,
                message_id: &text,
                publisher_id: "p",
                event_type: "e",
                priority: "INFO",
                payload: &payload,
                timestamp: "t",
                unique_id: "u",
            };
            let body = seal(&message, if is_bare { Version::Bare } else { Version::Two });
            let opened = open(&body).unwrap();
            prop_assert_eq!(&*opened, serde_json::to_string(&message).unwrap());
        }
    }
}
