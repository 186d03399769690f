//! Applies definitions to documents and notifications, read as JSON lines from stdin.
//! `tests/telemetry/test_definitions.py` compares the answers with Ceilometer's.
//!
//! ```text
//! {"do": "path", "path": "a.b", "document": {}}                 {"values": []}
//! {"do": "field", "field": {}, "all": false, "document": {}}    {"values": []}
//! {"do": "meters", "folders": null}                             {"meters": 38}
//! {"do": "events", "file": null, "drop": false, "raw": []}      {}
//! {"do": "notification", "priority": "info", "message": {}}     {"samples": [], "event": {}}
//! {"do": "speed", "rounds": 10, "messages": [{}]}               {"seconds": 0.1, "samples": 7, "events": 3}, processor
//! time
//! ```
//! A rejected definition gives `{"refused": "..."}`. One that fails on a document gives `{"error": "..."}`, or
//! `sample_error` and `event_error` for a notification.

use std::{
    borrow::Cow,
    error::Error,
    io::{BufRead, Write, stdin, stdout},
    path::{Path, PathBuf},
};

use gnudi_model::python::text_of_float;
use gnudi_telemetry::{
    definitions::{Field, JsonPath, LookupError},
    event::{Event, TraitValue},
    events::{EventDefinitions, EventOptions},
    meters::{MadeSamples, MeterDefinitions, SampleOptions},
    notification::Notification,
    sample::Sample,
};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum Task {
    Path { path: String, document: Value },
    Field { field: Value, all: bool, document: Value },
    Meters { folders: Option<Vec<PathBuf>> },
    Events { file: Option<PathBuf>, drop: bool, raw: Vec<String> },
    Notification { priority: String, message: Value },
    Speed { rounds: usize, messages: Vec<Value> },
}

/// A notification, as definitions see it.
#[derive(Deserialize)]
struct Message {
    ctxt: Map<String, Value>,
    publisher_id: String,
    event_type: String,
    payload: Box<RawValue>,
    metadata: Map<String, Value>,
}

impl Message {
    fn parse(message: &Value) -> Result<Self, Box<dyn Error>> {
        // Serialized again, so that parts that are not read keep their text.
        Ok(serde_json::from_str(&message.to_string())?)
    }

    fn notification<'a>(&'a self, priority: &'a str) -> Notification<'a> {
        let text =
            |key: &str| Cow::Borrowed(self.metadata.get(key).and_then(Value::as_str).unwrap_or_default());
        Notification {
            publisher_id: Cow::Borrowed(&self.publisher_id),
            event_type: Cow::Borrowed(&self.event_type),
            priority: Cow::Borrowed(priority),
            message_id: text("message_id"),
            timestamp: text("timestamp"),
            payload: &self.payload,
            context: self.ctxt.clone(),
            unique_id: None,
        }
    }
}

struct Definitions {
    meters: MeterDefinitions,
    events: EventDefinitions,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut definitions = Definitions {
        meters: MeterDefinitions::shipped(SampleOptions::default())?,
        events: EventDefinitions::load(None, &EventOptions::default())?,
    };
    let mut out = stdout().lock();
    for line in stdin().lock().lines() {
        let answer = definitions.answer(serde_json::from_str(&line?)?)?;
        writeln!(out, "{answer}")?;
    }
    Ok(())
}

fn values(found: Result<Vec<Cow<'_, Value>>, LookupError>) -> Value {
    match found {
        Ok(values) => json!({ "values": values.iter().map(AsRef::as_ref).collect::<Vec<&Value>>() }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}

impl Definitions {
    fn answer(&mut self, task: Task) -> Result<Value, Box<dyn Error>> {
        Ok(match task {
            Task::Path { path, document } => match JsonPath::parse(&path) {
                Ok(path) => values(path.find(&document)),
                Err(refused) => json!({ "refused": refused.to_string() }),
            },
            Task::Field { field, all, document } => match Field::parse("field", &field) {
                Ok(field) if all => values(field.all(&document)),
                Ok(field) => values(field.first(&document).map(|found| found.into_iter().collect())),
                Err(refused) => json!({ "refused": refused.to_string() }),
            },
            Task::Meters { folders } => {
                match MeterDefinitions::load(folders.as_deref(), SampleOptions::default()) {
                    Ok(meters) => {
                        self.meters = meters;
                        json!({ "meters": self.meters.len() })
                    }
                    Err(refused) => json!({ "refused": refused.to_string() }),
                }
            }
            Task::Events { file, drop, raw } => {
                let options = EventOptions { drop_unmatched_notifications: drop, store_raw: raw };
                match EventDefinitions::load(file.as_deref().map(Path::new), &options) {
                    Ok(events) => {
                        self.events = events;
                        json!({})
                    }
                    Err(refused) => json!({ "refused": refused.to_string() }),
                }
            }
            Task::Notification { priority, message } => {
                self.notification(&priority, &Message::parse(&message)?)
            }
            Task::Speed { rounds, messages } => self.speed(rounds, &messages)?,
        })
    }

    fn notification(&self, priority: &str, message: &Message) -> Value {
        let notification = message.notification(priority);
        let document = match notification.document() {
            Ok(document) => document,
            Err(error) => return json!({ "sample_error": error.0, "event_error": error.0 }),
        };
        let mut answer = Map::new();
        match self.meters.samples(&notification, &document) {
            Ok(MadeSamples { samples, .. }) => {
                assert!(samples.is_empty() || self.meters.matches(&notification.event_type));
                answer.insert("samples".to_owned(), samples.iter().map(sample).collect());
            }
            Err(error) => drop(answer.insert("sample_error".to_owned(), error.to_string().into())),
        }
        match self.events.event(&notification, &document) {
            Ok(found) => drop(answer.insert("event".to_owned(), found.as_ref().map_or(Value::Null, event))),
            Err(error) => drop(answer.insert("event_error".to_owned(), error.to_string().into())),
        }
        Value::Object(answer)
    }

    /// Times the way from each message's text to its samples and its event.
    fn speed(&self, rounds: usize, messages: &[Value]) -> Result<Value, Box<dyn Error>> {
        let texts: Vec<String> = messages.iter().map(Value::to_string).collect();
        let (mut samples, mut events) = (0, 0);
        let started = processor_time();
        for _ in 0..rounds {
            for text in &texts {
                let message: Message = serde_json::from_str(text)?;
                let notification = message.notification("info");
                let document = notification.document()?;
                samples += self.meters.samples(&notification, &document).map_or(0, |made| made.samples.len());
                events += usize::from(
                    self.events.event(&notification, &document).is_ok_and(|event| event.is_some()),
                );
            }
        }
        Ok(json!({ "seconds": processor_time() - started, "samples": samples, "events": events }))
    }
}

/// Processor time of this thread in seconds.
fn processor_time() -> f64 {
    let account = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    account
        .split(' ')
        .next()
        .and_then(|nanoseconds| nanoseconds.parse().ok())
        .map_or(0.0, |number: f64| number / 1e9)
}

/// Without its id: Ceilometer's is random.
fn sample(sample: &Sample<'_>) -> Value {
    let mut record = sample.record();
    record.as_object_mut().expect("a record").remove("id");
    record
}

fn event(event: &Event) -> Value {
    let value = |value: &TraitValue| match value {
        TraitValue::Untyped(text) => json!([0, text]),
        TraitValue::Text(text) => json!([1, text]),
        TraitValue::Integer(number) => json!([2, number]),
        TraitValue::Float(number) => json!([3, text_of_float(*number)]),
        TraitValue::Datetime(nanoseconds) => json!([4, nanoseconds]),
    };
    json!({
        "message_id": event.message_id,
        "event_type": event.event_type,
        "generated": event.generated,
        "traits": event.traits.iter().map(|item| json!([item.name, value(&item.value)])).collect::<Vec<_>>(),
        "raw": event.raw,
    })
}
