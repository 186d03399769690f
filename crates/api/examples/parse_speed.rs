//! Benchmark of parsing measures and printing points:
//! `cargo run --release -p gnudi-api --example parse_speed`.
//!
//! Each line is the best of several rounds, on one core. Each round has a different body, since CPUs learn
//! the branches of a repeated one; together the bodies exceed the caches.

use std::{hint::black_box, sync::Arc, time::Instant};

use gnudi_api::measures::{
    ReadBy, named, read_batch,
    scan::{self, Scan},
    slow,
    write::{Column, Rows},
};
use gnudi_engine::Resample;
use gnudi_model::{Timespan, Timestamp};

const MEASURES: usize = 5_000;
const METRICS: usize = 2_000;
const POINTS: usize = 43_200;
const ROUNDS: usize = 100;

type Text = fn(usize) -> String;
type Number = fn(usize) -> f64;

const READ: [(&str, Text, Text); 6] = [
    ("ISO seconds, two decimals", iso, |n| format!("{:.2}", 100.0 * random(n))),
    (
        "ISO milliseconds, two decimals",
        |n| format!("{}.{:03}\"", iso(n).trim_end_matches('"'), n % 1000),
        |n| format!("{:.2}", 100.0 * random(n)),
    ),
    (
        "ISO microseconds, zone",
        |n| format!("{}.{:06}+00:00\"", iso(n).trim_end_matches('"'), n % 1_000_000),
        |n| format!("{:.1}", 100.0 * random(n)),
    ),
    ("ISO seconds, any length", iso, |n| {
        format!("{:.*}", (n * 7) % 4, random(n) * 10_f64.powi((5.0 * random(n + 7)) as i32))
    }),
    ("ISO seconds, 16 to 17 digits", iso, |n| format!("{:?}", random(n))),
    ("integer seconds, integers", |n| (START + n).to_string(), |n| format!("{:.0}", 10_000.0 * random(n))),
];

const PRINTED: [(&str, Number); 4] = [
    ("two decimals", |n| (10_000.0 * random(n)).round() / 100.0),
    ("whole values", |n| (10_000.0 * random(n)).round()),
    ("any length", |n| {
        let power = 10_f64.powi(((n * 7) % 4) as i32);
        (10_000.0 * random(n)).round() / power
    }),
    ("16 to 17 digits", random),
];

/// 2015-01-01T12:00:00Z.
const START: usize = 1_420_113_600;

fn main() {
    println!("reading, {MEASURES} measures a body");
    for (name, timestamp, value) in READ {
        let bodies: Vec<Vec<u8>> =
            (0..ROUNDS).map(|round| body(round * MEASURES, timestamp, value)).collect();
        let mut out = Vec::with_capacity(MEASURES);
        let fast = best(&bodies, MEASURES, |body| {
            out.clear();
            assert_eq!(scan::list(black_box(body), MEASURES, &mut out), Scan::Regular);
        });
        let slow = best(&bodies[..10], MEASURES, |body| {
            out.clear();
            slow::list(black_box(body), Timestamp(0), MEASURES, &mut out).expect("the body is right");
        });
        let bytes = bodies[0].len() as f64 / MEASURES as f64;
        println!("  {name:32} {fast:6.1} ns/measure ({:.2} GB/s)   slow parser {slow:6.1} ns", bytes / fast);
    }
    println!("reading batches, {METRICS} metrics a body, 10 of each resource");
    for (name, measures) in [("one measure each", 1), ("five measures each", 5)] {
        let list = |round: usize, metric: usize| list((round * METRICS + metric) * measures, measures);
        let by_id = |round: usize| object((0..METRICS).map(|n| (id(n).to_string(), list(round, n))));
        let by_name = |round: usize| {
            let metrics = |resource: usize| {
                object((0..10).map(|n| (format!("disk.device.{n}.bytes"), list(round, resource * 10 + n))))
            };
            object((0..METRICS / 10).map(|n| (id(n).to_string(), metrics(n))))
        };
        let bodies: Vec<String> = (0..ROUNDS).map(by_id).collect();
        let (mut parts, mut out) = (Vec::new(), Vec::new());
        let of_ids = best(&bodies, METRICS, |body| {
            let body = black_box(body.as_bytes());
            read_batch(body, || Timestamp(0), usize::MAX, &mut parts, &mut out).expect("the body is right");
        });
        let bodies: Vec<String> = (0..ROUNDS).map(by_name).collect();
        let of_names = best(&bodies, METRICS, |body| {
            let body = black_box(body.as_bytes());
            let read = named::read(body, "admin", || Timestamp(0), usize::MAX, &mut out);
            assert_eq!(black_box(read.expect("the body is right")).1, ReadBy::Scanner);
        });
        println!("  {name:32} {of_ids:6.1} ns/metric by id   {of_names:6.1} ns/metric by resource and name");
    }
    println!("printing, {POINTS} points an answer");
    for (name, value) in PRINTED {
        let column = |round: usize| {
            let times = (0..POINTS).map(|n| Timestamp::from_secs((START + 60 * n) as i64));
            let values = (0..POINTS).map(|n| value(round * POINTS + n)).collect();
            Column::new(Resample::Span(Timespan::from_secs(60)), Arc::new(times.collect()), values)
        };
        let columns: Vec<Column> = (0..ROUNDS / 5).map(column).collect();
        let mut bytes = 0;
        let took = best(&columns, POINTS, |column| {
            bytes = Rows::new(vec![black_box(column.clone())]).map(|piece| piece.len()).sum::<usize>();
        });
        println!("  {name:32} {took:6.1} ns/point ({:.2} GB/s)", bytes as f64 / POINTS as f64 / took);
    }
}

/// Nanoseconds per item in the best round; each round has its own input.
fn best<T>(inputs: &[T], items: usize, mut round: impl FnMut(&T)) -> f64 {
    let time = |input| {
        let start = Instant::now();
        round(input);
        start.elapsed().as_nanos() as f64 / items as f64
    };
    inputs.iter().map(time).fold(f64::INFINITY, f64::min)
}

fn id(n: usize) -> uuid::Uuid {
    uuid::Uuid::from_u128((n as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

fn list(first: usize, measures: usize) -> String {
    let measure = |n| format!("{{\"timestamp\": {}, \"value\": {:.2}}}", iso(n), 100.0 * random(n));
    format!("[{}]", (first..first + measures).map(measure).collect::<Vec<_>>().join(", "))
}

fn object(entries: impl Iterator<Item = (String, String)>) -> String {
    let entries: Vec<String> = entries.map(|(key, value)| format!("\"{key}\": {value}")).collect();
    format!("{{{}}}", entries.join(", "))
}

fn body(first: usize, timestamp: Text, value: Text) -> Vec<u8> {
    let measures: Vec<String> = (first..first + MEASURES)
        .map(|n| format!("{{\"timestamp\": {}, \"value\": {}}}", timestamp(n), value(n)))
        .collect();
    format!("[{}]", measures.join(", ")).into_bytes()
}

fn iso(n: usize) -> String {
    format!("\"{}\"", &Timestamp::from_secs((START + n) as i64).to_iso()[..19])
}

/// Doubles between 0 and 1 with a maximum of digits.
fn random(n: usize) -> f64 {
    let mixed = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}
