//! An event as a signed message, and as the record written to files.

use std::fmt::Write as _;

use gnudi_model::{Timestamp, python::text_of_float};
use serde_json::{Value, json};

use super::{python, signature::Signer};
use crate::{
    event::{Event, Trait, TraitValue},
    time::{naive_iso, naive_text},
};

impl TraitValue {
    /// The code of its type in messages.
    pub fn type_number(&self) -> u8 {
        match self {
            TraitValue::Untyped(_) => 0,
            TraitValue::Text(_) => 1,
            TraitValue::Integer(_) => 2,
            TraitValue::Float(_) => 3,
            TraitValue::Datetime(_) => 4,
        }
    }
}

/// The unsigned message of an event, as HTTP endpoints get it. Traits are lists of name, type and value.
pub fn event_message(event: &Event) -> Value {
    let traits: Vec<Value> = event
        .traits
        .iter()
        .map(|Trait { name, value }| json!([name, value.type_number(), trait_value(value)]))
        .collect();
    json!({
        "message_id": event.message_id,
        "event_type": event.event_type,
        "generated": naive_iso(Timestamp(event.generated)),
        "traits": traits,
        "raw": raw(event),
    })
}

/// Signed messages as JSON: the payload of a notification of events.
pub fn events_list(events: &[Event], signer: &Signer) -> String {
    let signed = |event| {
        let mut message = event_message(event);
        let signature = signer.sign(message.as_object().expect("made as an object"));
        message["message_signature"] = signature.into();
        message
    };
    Value::Array(events.iter().map(signed).collect()).to_string()
}

/// The record as `json.dumps` writes it, with times as texts.
pub fn event_record_json(event: &Event) -> String {
    let traits: Vec<Value> = event
        .traits
        .iter()
        .map(|Trait { name, value }| {
            let shown = match value {
                TraitValue::Datetime(time) => naive_text(Timestamp(*time)).into(),
                value => trait_value(value),
            };
            json!({"name": name, "dtype": value.type_number(), "value": shown})
        })
        .collect();
    python::json(&json!({
        "message_id": event.message_id,
        "event_type": event.event_type,
        "generated": naive_text(Timestamp(event.generated)),
        "traits": traits,
        "raw": raw(event),
    }))
}

/// The record as Python prints a dictionary.
pub fn event_record_repr(event: &Event) -> String {
    let mut out = format!(
        "{{'message_id': {}, 'event_type': {}, 'generated': {}, 'traits': [",
        python::repr(&event.message_id.as_str().into()),
        python::repr(&event.event_type.as_str().into()),
        datetime_repr(event.generated),
    );
    for (at, Trait { name, value }) in event.traits.iter().enumerate() {
        let comma = if at > 0 { ", " } else { "" };
        let shown = match value {
            TraitValue::Datetime(time) => datetime_repr(*time),
            value => python::repr(&trait_value(value)),
        };
        let (name, number) = (python::repr(&name.as_str().into()), value.type_number());
        let _ = write!(out, "{comma}{{'name': {name}, 'dtype': {number}, 'value': {shown}}}");
    }
    let _ = write!(out, "], 'raw': {}}}", python::repr(&raw(event)));
    out
}

/// An empty object if it is not kept.
fn raw(event: &Event) -> Value {
    if event.raw.is_null() { json!({}) } else { event.raw.clone() }
}

/// A value in JSON. Numbers that JSON lacks are texts, as in samples.
pub fn trait_value(value: &TraitValue) -> Value {
    match value {
        TraitValue::Text(text) | TraitValue::Untyped(text) => text.as_str().into(),
        TraitValue::Integer(number) => (*number).into(),
        TraitValue::Float(number) if number.is_finite() => (*number).into(),
        TraitValue::Float(number) => text_of_float(*number).into(),
        TraitValue::Datetime(time) => naive_iso(Timestamp(*time)).into(),
    }
}

/// Python's `repr` of a `datetime`, which omits zero seconds and microseconds.
fn datetime_repr(nanoseconds: i64) -> String {
    let text = naive_iso(Timestamp(nanoseconds));
    let mut numbers: Vec<u32> =
        text.split(['-', 'T', ':', '.']).map(|part| part.parse().unwrap_or_default()).collect();
    if numbers.len() == 6 && numbers[5] == 0 {
        numbers.pop();
    }
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    format!("datetime.datetime({})", numbers.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(raw: Value) -> Event {
        Event {
            message_id: "m".to_owned(),
            event_type: "compute.instance.update".to_owned(),
            generated: 1_346_277_295_123_456_000,
            traits: vec![
                Trait { name: "host".to_owned(), value: TraitValue::Text("h".to_owned()) },
                Trait { name: "at".to_owned(), value: TraitValue::Datetime(1_346_277_240_000_000_000) },
                Trait { name: "f".to_owned(), value: TraitValue::Float(2.0) },
                Trait { name: "i".to_owned(), value: TraitValue::Integer(-1) },
                Trait { name: "n".to_owned(), value: TraitValue::Untyped("u".to_owned()) },
            ],
            raw,
        }
    }

    #[test]
    fn events_have_ceilometers_forms() {
        let message = event_message(&event(Value::Null));
        assert_eq!(
            message,
            json!({
                "message_id": "m", "event_type": "compute.instance.update", "generated": "2012-08-29T21:54:55.123456",
                "traits": [["host", 1, "h"], ["at", 4, "2012-08-29T21:54:00"], ["f", 3, 2.0], ["i", 2, -1], ["n", 0, "u"]],
                "raw": {},
            })
        );
        let record: Value = serde_json::from_str(&event_record_json(&event(json!({"a": 1})))).unwrap();
        assert_eq!(record["generated"], "2012-08-29 21:54:55.123456");
        assert_eq!(record["traits"][1], json!({"name": "at", "dtype": 4, "value": "2012-08-29 21:54:00"}));
        assert_eq!(
            event_record_repr(&event(json!({"a": [null]}))),
            "{'message_id': 'm', 'event_type': 'compute.instance.update', 'generated': datetime.datetime(2012, 8, 29, 21, 54, \
             55, 123456), 'traits': [{'name': 'host', 'dtype': 1, 'value': 'h'}, {'name': 'at', 'dtype': 4, 'value': \
             datetime.datetime(2012, 8, 29, 21, 54)}, {'name': 'f', 'dtype': 3, 'value': 2.0}, {'name': 'i', 'dtype': 2, \
             'value': -1}, {'name': 'n', 'dtype': 0, 'value': 'u'}], 'raw': {'a': [None]}}"
        );
        assert_eq!(trait_value(&TraitValue::Float(f64::NEG_INFINITY)), "-inf");
        let signed: Value =
            serde_json::from_str(&events_list(&[event(Value::Null)], &Signer::new("s"))).unwrap();
        assert_eq!(signed[0]["message_signature"].as_str().unwrap().len(), 64);
    }
}
