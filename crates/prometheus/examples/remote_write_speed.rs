//! Measures the steps of a remote write request, in both versions, with one sample per series, as Prometheus sends
//! them.
//!
//!     cargo run --release -p gnudi-prometheus --example remote_write_speed

#[path = "../tests/support/mod.rs"]
mod support;

use std::{collections::HashMap, hint::black_box, time::Instant};

use gnudi_prometheus::remote_write::{
    Limits, WriteRequest, inflate,
    labels::{LABELS_MAX, check},
    names::{Labels, place},
    v1, v2,
};
use support::{field, number, varint};

const SERIES: usize = 10_000;
const ROUNDS: u32 = 50;
const LIMITS: Limits = Limits { samples_max: 500_000, labels_bytes_max: 64 << 20 };

fn main() {
    let all: Vec<Vec<(String, String)>> = (0..SERIES).map(labels).collect();
    for (version, message) in [(1, version_1(&all)), (2, version_2(&all))] {
        let body = snap::raw::Encoder::new().compress_vec(&message).expect("it is short");
        let read = |message| if version == 1 { v1::read(message, LIMITS) } else { v2::read(message, LIMITS) };
        let request = read(&message).expect("it is valid");
        println!(
            "version {version}: {} bytes a series, {} compressed",
            message.len() / SERIES,
            body.len() / SERIES
        );
        measure("inflate", || drop(black_box(inflate(&body))));
        measure("read", || drop(black_box(read(&message))));
        measure("keys of known series", || keys(&request));
        measure("labels and places of unknown series", || places(&request));
    }
}

fn measure(what: &str, mut work: impl FnMut()) {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        work();
    }
    let nanoseconds = start.elapsed().as_nanos() / u128::from(ROUNDS) / SERIES as u128;
    println!("    {what:<40}{nanoseconds:>6} ns a series");
}

fn keys(request: &WriteRequest<'_>) {
    let mut buffer = Vec::new();
    for series in &request.series {
        black_box((request.key(series, &mut buffer), request.samples(series)));
    }
}

fn places(request: &WriteRequest<'_>) {
    for series in &request.series {
        let labels = request.labels(series, LABELS_MAX).expect("they are texts");
        check(&labels).expect("they are valid");
        black_box(place(&labels, Labels::Exact));
    }
}

fn labels(number: usize) -> Vec<(String, String)> {
    let pair = |name: &str, value: String| (name.to_owned(), value);
    vec![
        pair("__name__", format!("http_request_duration_seconds_bucket_{}", number % 40)),
        pair("code", (200 + number % 7).to_string()),
        pair("handler", format!("/api/v1/things/{}", number % 90)),
        pair("instance", format!("10.0.{}.{}:9100", number / 250 % 4, number % 250)),
        pair("job", "node".to_owned()),
        pair("le", format!("{}.5", number % 12)),
        pair("method", "GET".to_owned()),
        pair("pod", format!("shop-7c9d8f6b5-{number}")),
    ]
}

fn version_1(all: &[Vec<(String, String)>]) -> Vec<u8> {
    let mut message = Vec::new();
    for labels in all {
        let mut series = Vec::new();
        for (name, value) in labels {
            let mut label = Vec::new();
            field(1, name.as_bytes(), &mut label);
            field(2, value.as_bytes(), &mut label);
            field(1, &label, &mut series);
        }
        field(2, &sample(), &mut series);
        field(1, &series, &mut message);
    }
    message
}

fn version_2(all: &[Vec<(String, String)>]) -> Vec<u8> {
    let (mut symbols, mut places) = (vec![""], HashMap::new());
    let mut series = Vec::new();
    for labels in all {
        let (mut references, mut one) = (Vec::new(), Vec::new());
        for text in labels.iter().flat_map(|(name, value)| [name, value]) {
            let place = *places.entry(text).or_insert_with(|| {
                symbols.push(text);
                symbols.len() as u64 - 1
            });
            varint(place, &mut references);
        }
        field(1, &references, &mut one);
        field(2, &sample(), &mut one);
        field(5, &one, &mut series);
    }
    let mut message = Vec::new();
    for symbol in &symbols {
        field(4, symbol.as_bytes(), &mut message);
    }
    message.extend(series);
    message
}

fn sample() -> Vec<u8> {
    let mut out = vec![1 << 3 | 1];
    out.extend_from_slice(&12.5_f64.to_le_bytes());
    number(2, 1_700_000_000_000, &mut out);
    out
}
