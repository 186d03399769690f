//! How long it takes to read a measure and to print a point: `cargo run --release -p gnudi-api --example parse_speed`.
//!
//! Each line is the best of several rounds over one body, on one core, out of the cache where the body fits it.

use std::{hint::black_box, time::Instant};

use gnudi_api::measures::{
    scan::{self, Scan},
    slow,
    write::{Column, Rows},
};
use gnudi_model::Timestamp;

const MEASURES: usize = 5_000;
const POINTS: usize = 43_200;
const ROUNDS: usize = 300;

fn main() {
    let bodies = [
        (
            "ISO seconds, short values",
            body(|n| format!("\"{}\"", iso(n)), |n| format!("{}.{}", n % 100, n % 10)),
        ),
        (
            "ISO microseconds and zone",
            body(|n| format!("\"{}.{:06}+00:00\"", iso(n), n), |n| format!("{}.5", n % 100)),
        ),
        ("ISO seconds, 17 digits", body(|n| format!("\"{}\"", iso(n)), |n| format!("{:?}", random(n)))),
        ("integer seconds, integers", body(|n| (1_420_113_600 + n).to_string(), |n| (n % 1000).to_string())),
        (
            "float seconds, 17 digits",
            body(|n| format!("{}.25", 1_420_113_600 + n), |n| format!("{:?}", random(n))),
        ),
    ];
    println!("reading, {MEASURES} measures a body");
    for (name, body) in &bodies {
        let mut out = Vec::new();
        let fast = best(MEASURES, || {
            out.clear();
            assert_eq!(scan::list(black_box(body), MEASURES, &mut out), Scan::Regular);
        });
        let compact: Vec<u8> = body.iter().copied().filter(|byte| *byte != b' ').collect();
        let compact = best(MEASURES, || {
            out.clear();
            assert_eq!(scan::list(black_box(&compact), MEASURES, &mut out), Scan::Regular);
        });
        let slow = best(MEASURES, || {
            out.clear();
            slow::list(black_box(body), Timestamp(0), MEASURES, &mut out).expect("the body is right");
        });
        let bytes = body.len() as f64 / MEASURES as f64;
        println!(
            "  {name:28} {fast:6.1} ns/measure ({:.2} GB/s)   without spaces {compact:6.1} ns   slow parser {slow:6.1} ns",
            bytes / fast
        );
    }
    println!("printing, {POINTS} points an answer");
    for (name, value) in [
        ("short values", (|n| f64::from(n as u32 % 1000) / 10.0) as fn(usize) -> f64),
        ("whole values", |n| f64::from(n as u32 % 1000)),
        ("17 digits", random),
    ] {
        let column = Column {
            granularity: "60.0".to_owned(),
            timestamps: (0..POINTS).map(|n| Timestamp::from_secs(1_420_113_600 + 60 * n as i64)).collect(),
            values: (0..POINTS).map(value).collect(),
        };
        let mut bytes = 0;
        let took = best_of((0..ROUNDS).map(|_| {
            let rows = Rows::new(vec![black_box(column.clone())]);
            let start = Instant::now();
            bytes = rows.map(|piece| piece.len()).sum::<usize>();
            start.elapsed().as_nanos() as f64 / POINTS as f64
        }));
        println!("  {name:28} {took:6.1} ns/point ({:.2} GB/s)", bytes as f64 / POINTS as f64 / took);
    }
}

/// Nanoseconds per item, the best of the rounds.
fn best(items: usize, mut round: impl FnMut()) -> f64 {
    best_of((0..ROUNDS).map(|_| {
        let start = Instant::now();
        round();
        start.elapsed().as_nanos() as f64 / items as f64
    }))
}

fn best_of(times: impl Iterator<Item = f64>) -> f64 {
    times.fold(f64::INFINITY, f64::min)
}

fn body(timestamp: impl Fn(usize) -> String, value: impl Fn(usize) -> String) -> Vec<u8> {
    let measures: Vec<String> = (0..MEASURES)
        .map(|n| format!("{{\"timestamp\": {}, \"value\": {}}}", timestamp(n), value(n)))
        .collect();
    format!("[{}]", measures.join(", ")).into_bytes()
}

fn iso(n: usize) -> String {
    Timestamp::from_secs(1_420_113_600 + n as i64).to_iso()[..19].to_owned()
}

/// Doubles between 0 and 1 that take all their digits.
fn random(n: usize) -> f64 {
    let mixed = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}
