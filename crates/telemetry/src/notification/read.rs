//! Deserializes a notification without its envelope.

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer as _,
    de::{Error, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};

use super::{Notification, text::Text};

/// Maximum bytes of a header text such as the event type.
pub(super) const HEAD_BYTES_MAX: usize = 1024;

/// Maximum number of keys of a message's context.
pub(super) const CONTEXT_KEYS_MAX: usize = 1000;

/// Valid JSON, but not a notification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MalformedNotification(pub String);

/// Reads a message. Event type, priority and payload are required; other missing texts are empty.
pub fn read(message: &str) -> Result<Notification<'_>, MalformedNotification> {
    let mut deserializer = serde_json::Deserializer::from_str(message);
    let notification = deserializer.deserialize_map(NotificationVisitor).and_then(|notification| {
        deserializer.end()?;
        Ok(notification)
    });
    notification.map_err(|error| MalformedNotification(error.to_string()))
}

struct NotificationVisitor;

impl<'de> Visitor<'de> for NotificationVisitor {
    type Value = Notification<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a notification")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Notification<'de>, A::Error> {
        let empty = || Cow::Borrowed("");
        let (mut publisher_id, mut message_id, mut timestamp) = (empty(), empty(), empty());
        let (mut event_type, mut priority, mut payload) = (None, None, None::<&RawValue>);
        let (mut context, mut unique_id) = (Map::new(), None);
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                "publisher_id" => publisher_id = text(&mut map, &key)?.unwrap_or_else(empty),
                "message_id" => message_id = text(&mut map, &key)?.unwrap_or_else(empty),
                "timestamp" => timestamp = text(&mut map, &key)?.unwrap_or_else(empty),
                "event_type" => event_type = text(&mut map, &key)?,
                "priority" => priority = text(&mut map, &key)?,
                "_unique_id" => unique_id = text(&mut map, &key)?,
                "payload" => payload = Some(map.next_value()?),
                _ => {
                    if let Some(name) = key.strip_prefix("_context_") {
                        if context.len() >= CONTEXT_KEYS_MAX {
                            return Err(A::Error::custom("its context has too many keys"));
                        }
                        context.insert(name.to_owned(), map.next_value::<Value>()?);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
            }
        }
        let missing = |name: &str| A::Error::custom(format!("{name} is missing"));
        Ok(Notification {
            publisher_id,
            event_type: event_type.ok_or_else(|| missing("event_type"))?,
            priority: lower(priority.ok_or_else(|| missing("priority"))?),
            message_id,
            timestamp,
            payload: payload.ok_or_else(|| missing("payload"))?,
            context,
            unique_id,
        })
    }
}

fn text<'de, A: MapAccess<'de>>(map: &mut A, key: &str) -> Result<Option<Cow<'de, str>>, A::Error> {
    let text = map.next_value::<Option<Text<'de>>>()?.map(|text| text.0);
    if text.as_ref().is_some_and(|text| text.len() > HEAD_BYTES_MAX) {
        return Err(A::Error::custom(format!("{key} has more than {HEAD_BYTES_MAX} bytes")));
    }
    Ok(text)
}

fn lower(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(text.to_ascii_lowercase())
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_is_read() {
        let text = r#"{"_context_user": "u", "_context_x": {"y": 1}, "message_id": "m", "publisher_id": null, "extra": [1],
            "event_type": "compute.\u0069nstance", "priority": "INFO", "payload": {"a": [1, 2]}, "timestamp": "t", "_unique_id": "q"}"#;
        let notification = read(text).unwrap();
        assert_eq!((&*notification.event_type, &*notification.priority), ("compute.instance", "info"));
        assert_eq!((&*notification.message_id, &*notification.publisher_id), ("m", ""));
        assert_eq!(
            (notification.payload.get(), notification.unique_id.as_deref()),
            (r#"{"a": [1, 2]}"#, Some("q"))
        );
        assert_eq!(Value::Object(notification.context), serde_json::json!({"user": "u", "x": {"y": 1}}));
    }

    #[test]
    fn what_is_none_is_told() {
        let long = format!(r#"{{"event_type": "{}", "priority": "info", "payload": 1}}"#, "x".repeat(2000));
        let deep =
            format!(r#"{{"event_type": "e", "priority": "info", "payload": {}}}"#, "[".repeat(100_000));
        for text in [
            "",
            "1",
            "[]",
            "{}",
            "nothing",
            "{\"event_type\": 1}",
            r#"{"event_type": "e", "priority": "info"}"#,
            r#"{"event_type": null, "priority": "info", "payload": 1}"#,
            r#"{"event_type": "e", "priority": 5, "payload": 1}"#,
            r#"{"event_type": "e", "priority": "info", "payload": 1} 2"#,
            &long,
            &deep,
        ] {
            assert!(read(text).is_err(), "{}", &text[..text.len().min(80)]);
        }
    }
}
