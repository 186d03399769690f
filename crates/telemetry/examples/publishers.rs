//! Runs pipelines, publishers and signatures for the tests: one JSON line in, one JSON line out.
//!
//! - `{"sign": {...}, "secret": "s"}` answers the signature of a message.
//! - `{"payload": [sample, ...], "secret": "s"}` answers the payload of a notification of polled samples.
//! - `{"globs": [[pattern, name], ...]}` answers whether each name matches.
//! - `{"route": "FILE", "events": false, "batches": [[name, ...], ...]}` reads a pipeline file and answers, for each
//!   publisher URL, the names that it got, batch by batch; or `{"error": "..."}`.
//! - `{"publish": "URL", "samples": [...], "events": [...], "secret": "s", "host": "h"}` answers `null`, or the error.

mod support;

use std::{collections::BTreeMap, io::BufRead as _, path::PathBuf, sync::Arc};

use gnudi_model::python::fnmatch::Pattern;
use gnudi_telemetry::{
    event::{Event, Trait, TraitValue},
    messaging::{BrokerOptions, envelope::Version},
    pipeline::{PipelineFigures, PipelineKind, PipelineOrigin, Pipelines},
    publishers::{
        BusOptions, NotifierOptions, Publisher, PublisherContext, PublisherFigures, PublisherTasks,
        Publishers, Receipt, bus_opener,
    },
    sample::{Metadata, Sample},
    wire::{Signer, samples_payload},
};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn sample(value: &Value) -> Sample<'_> {
    let metadata = value["resource_metadata"].as_object().cloned().unwrap_or_default();
    support::sample(value, Metadata::Parsed(metadata))
}

fn event(value: &Value) -> Event {
    let one = |parts: &Value| Trait {
        name: parts[0].as_str().unwrap_or_default().to_owned(),
        value: match parts[1].as_u64() {
            Some(0) => TraitValue::Untyped(parts[2].as_str().unwrap_or_default().to_owned()),
            Some(2) => TraitValue::Integer(parts[2].as_i64().unwrap_or_default()),
            Some(3) => TraitValue::Float(parts[2].as_f64().unwrap_or_default()),
            Some(4) => TraitValue::Datetime(parts[2].as_i64().unwrap_or_default() * 1_000),
            _ => TraitValue::Text(parts[2].as_str().unwrap_or_default().to_owned()),
        },
    };
    Event {
        message_id: text(value, "message_id"),
        event_type: text(value, "event_type"),
        generated: value["generated_us"].as_i64().unwrap_or_default() * 1_000,
        traits: value["traits"].as_array().into_iter().flatten().map(one).collect(),
        raw: value["raw"].clone(),
    }
}

/// Records the names it gets, batch by batch.
#[derive(Default)]
struct Names(Mutex<Vec<Vec<String>>>);

impl Publisher for Names {
    fn samples(&self, samples: &[Sample<'_>]) -> Receipt {
        self.0.lock().push(samples.iter().map(|sample| sample.name.clone().into_owned()).collect());
        Receipt::done()
    }

    fn events(&self, events: &[Event]) -> Receipt {
        self.0.lock().push(events.iter().map(|event| event.event_type.clone()).collect());
        Receipt::done()
    }
}

fn route(line: &Value) -> Value {
    let opened: Mutex<BTreeMap<String, Arc<Names>>> = Mutex::default();
    let open = |url: &str, _: PipelineKind| -> gnudi_telemetry::publishers::Opened {
        Ok(opened.lock().entry(url.to_owned()).or_default().clone())
    };
    let file = PipelineOrigin::File(PathBuf::from(text(line, "route")));
    let is_events = line["events"] == true;
    let (samples, events) =
        if is_events { (PipelineOrigin::Nowhere, file) } else { (file, PipelineOrigin::Nowhere) };
    let pipelines = match Pipelines::load(&samples, &events, &open, PipelineFigures::default()) {
        Ok(pipelines) => pipelines,
        Err(error) => return json!({"error": error.to_string()}),
    };
    for batch in line["batches"].as_array().into_iter().flatten() {
        let names: Vec<Value> = batch.as_array().cloned().unwrap_or_default();
        if is_events {
            let events: Vec<Event> = names.iter().map(|name| event(&json!({"event_type": name}))).collect();
            drop(pipelines.events(&events));
        } else {
            // A name may carry a volume.
            let values: Vec<Value> = names
                .iter()
                .map(|name| match name {
                    Value::Array(pair) => json!({"name": pair[0], "volume": pair[1]}),
                    name => json!({"name": name, "volume": 1}),
                })
                .collect();
            let samples: Vec<Sample<'_>> = values.iter().map(sample).collect();
            drop(pipelines.samples(&samples));
        }
    }
    let opened = opened.lock();
    let seen: Map<String, Value> =
        opened.iter().map(|(url, names)| (url.clone(), json!(*names.0.lock()))).collect();
    json!({"published": seen})
}

async fn publish(line: &Value) -> Value {
    let host = text(line, "host");
    let broker = line["broker"].as_str().unwrap_or("rabbit://");
    let broker = BrokerOptions::new(broker.parse().expect("a transport URL"), "test");
    let bus = BusOptions { exchange: "ceilometer".to_owned(), version: Version::Two, host: host.clone() };
    let publishers = Publishers::built_in(PublisherContext {
        host,
        signer: Signer::new(&text(line, "secret")),
        notifier: NotifierOptions {
            metering_topic: "metering".to_owned(),
            event_topic: "event".to_owned(),
            open: bus_opener(broker, bus),
        },
        figures: PublisherFigures::default(),
        tasks: PublisherTasks::watched().0,
    });
    let purpose = if line["events"].is_array() { PipelineKind::Events } else { PipelineKind::Samples };
    let publisher = match publishers.open(&text(line, "publish"), purpose) {
        Ok(publisher) => publisher,
        Err(error) => return json!({"left_out": error.to_string()}),
    };
    let receipt = if purpose == PipelineKind::Events {
        let events: Vec<Event> = line["events"].as_array().into_iter().flatten().map(event).collect();
        publisher.events(&events)
    } else {
        let samples: Vec<Sample<'_>> = line["samples"].as_array().into_iter().flatten().map(sample).collect();
        publisher.samples(&samples)
    };
    match receipt.await {
        Ok(()) => Value::Null,
        Err(error) => error.to_string().into(),
    }
}

#[tokio::main]
async fn main() {
    for line in std::io::stdin().lock().lines() {
        let line: Value = serde_json::from_str(&line.expect("a line")).expect("a line of JSON");
        let signer = || Signer::new(line["secret"].as_str().unwrap_or_default());
        let answer = if let Some(message) = line["sign"].as_object() {
            signer().sign(message).into()
        } else if let Some(samples) = line["payload"].as_array() {
            let samples: Vec<Sample<'_>> = samples.iter().map(sample).collect();
            samples_payload(&samples, &signer()).into()
        } else if let Some(pairs) = line["globs"].as_array() {
            let fits = |pair: &Value| {
                Pattern::new(pair[0].as_str().unwrap_or_default())
                    .matches(pair[1].as_str().unwrap_or_default())
            };
            pairs.iter().map(fits).collect::<Vec<bool>>().into()
        } else if line["route"].is_string() {
            route(&line)
        } else {
            publish(&line).await
        };
        println!("{answer}");
    }
}
