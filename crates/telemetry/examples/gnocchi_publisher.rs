//! Publishes samples and events to a store, for the tests: JSON lines on stdin and stdout.
//!
//! usage: `gnocchi_publisher STORE [URL] [FOLDER ...]`, for example STORE `http://127.0.0.1:8041` and URL `gnocchi://`.
//!
//! Lines: `{"samples": [...]}` and `{"events": [...]}` are one message each. `{"wait": true}` waits for all earlier
//! messages and answers the result of each (`null`, or the error). `{"upgrade": true}` creates the resource types.
//! `{"definitions": true}` answers the shipped definitions.

mod support;

use std::{io::BufRead as _, path::PathBuf};

use gnudi_http::Trust;
use gnudi_model::Secret;
use gnudi_telemetry::{
    event::{Event, Trait, TraitValue},
    publishers::{
        Publisher as _, PublisherTasks, PublisherUrl, Receipt,
        gnocchi::{
            GnocchiFigures, GnocchiLimits, GnocchiOptions, GnocchiPublisher, StoreAccess,
            shipped_definitions, upgrade,
        },
    },
    sample::{Metadata, Sample},
};
use serde_json::{Value, json, value::RawValue};

fn event(value: &Value) -> Event {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let traits = value["traits"].as_array().into_iter().flatten().map(|pair| Trait {
        name: text(&pair[0]),
        value: match &pair[1] {
            Value::Number(number) if number.is_i64() => {
                TraitValue::Integer(number.as_i64().unwrap_or_default())
            }
            Value::Number(number) => TraitValue::Float(number.as_f64().unwrap_or_default()),
            other => TraitValue::Text(text(other)),
        },
    });
    Event {
        message_id: text(&value["message_id"]),
        event_type: text(&value["event_type"]),
        generated: 0,
        traits: traits.collect(),
        raw: Value::Null,
    }
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let endpoint = arguments.next().expect("the store's URL");
    let url = arguments.next().unwrap_or_else(|| "gnocchi://?enable_filter_project=false".to_owned());
    let options = GnocchiOptions {
        access: StoreAccess::Basic { user: "admin".to_owned(), password: Secret::default() },
        endpoint: Some(endpoint),
        trust: Trust::Anyone,
        identity: None,
        cloud: None,
        config_dirs: arguments.map(PathBuf::from).collect(),
        create_resource_types: false,
        limits: GnocchiLimits::default(),
    };
    let publisher = GnocchiPublisher::start(
        &PublisherUrl::parse(&url).expect("a URL"),
        &options,
        GnocchiFigures::default(),
        &PublisherTasks::watched().0,
    )
    .expect("a publisher");
    let mut receipts: Vec<Receipt> = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        if let Some(samples) = line["samples"].as_array() {
            let metadata: Vec<Box<RawValue>> = samples
                .iter()
                .map(|sample| serde_json::value::to_raw_value(&sample["resource_metadata"]).expect("JSON"))
                .collect();
            let sample = |(value, metadata)| support::sample(value, Metadata::Text(metadata));
            let samples: Vec<Sample<'_>> =
                samples.iter().zip(metadata.iter().map(|text| &**text)).map(sample).collect();
            receipts.push(publisher.samples(&samples));
        }
        if let Some(events) = line["events"].as_array() {
            receipts.push(publisher.events(&events.iter().map(event).collect::<Vec<_>>()));
        }
        if line["upgrade"] == true {
            upgrade(&options).await.expect("types of resources");
            println!("null");
        }
        if line["definitions"] == true {
            println!("{}", shipped_definitions());
        }
        if line["wait"] == true {
            let mut outcomes = Vec::new();
            for receipt in receipts.drain(..) {
                outcomes.push(receipt.await.map_or_else(|error| json!(error.0), |()| Value::Null));
            }
            println!("{}", Value::Array(outcomes));
        }
    }
}
