//! The cost of encoding, decoding and folding, and the sizes of heads and blocks.
//!
//! ```text
//! cargo run --release -p gnudi-series --example speed
//! ```

use std::{hint::black_box, time::Instant};

use gnudi_model::{AggregationMethod, ArchivePolicy, Measure, Timespan, Timestamp};
use gnudi_series::{
    block,
    head::{Head, Layout, SealedBlock},
    points, raw,
    read::{ReadRange, assemble},
};

const START_SECONDS: i64 = 1_700_006_400;

/// `count` points, `step_ms` apart.
fn series(count: usize, step_ms: i64, value: impl Fn(usize) -> f64) -> Vec<Measure> {
    (0..count)
        .map(|index| Measure {
            timestamp: Timestamp(START_SECONDS * 1_000_000_000 + index as i64 * step_ms * 1_000_000),
            value: value(index),
        })
        .collect()
}

fn noisy(index: usize) -> f64 {
    50.0 + 30.0 * (index as f64 * 0.7).sin()
}

fn whole(index: usize) -> f64 {
    (index * 7919 % 1000) as f64
}

/// The best of several rounds, in nanoseconds for each of `items`.
fn best_ns(items: usize, mut round: impl FnMut()) -> f64 {
    let one = |_| {
        let start = Instant::now();
        round();
        start.elapsed().as_nanos() as f64 / items as f64
    };
    (0..15).map(one).fold(f64::INFINITY, f64::min)
}

fn codec(name: &str, request: &[Measure]) {
    let rounds = 1 + 200_000 / request.len();
    let (mut bytes, mut back) = (Vec::new(), Vec::new());
    let encode = best_ns(rounds * request.len(), || {
        for _ in 0..rounds {
            bytes.clear();
            points::encode(black_box(request), &mut bytes);
        }
    });
    let decode = best_ns(rounds * request.len(), || {
        for _ in 0..rounds {
            back.clear();
            points::decode(black_box(&bytes), &mut back).expect("encoded");
        }
    });
    let size = bytes.len() as f64 / request.len() as f64;
    println!("points {name:32} encode {encode:6.2} ns  decode {decode:6.2} ns  {size:6.2} bytes a point");
}

/// Folds `requests` into a new head; returns the sealed blocks.
fn fold_all(
    layout: &Layout,
    requests: &[Vec<Measure>],
    scratch: &mut Vec<Measure>,
) -> (Head, Vec<SealedBlock>) {
    let (mut head, mut sealed) = (Head::new(), Vec::new());
    for (index, request) in requests.iter().enumerate() {
        scratch.clear();
        scratch.extend_from_slice(request);
        head.fold(layout, index as u64 + 1, scratch);
        sealed.append(&mut head.take_sealed());
    }
    (head, sealed)
}

fn fold(policy: &ArchivePolicy, step_ms: i64, batch: usize, value: impl Fn(usize) -> f64) {
    let layout = Layout::of(policy);
    let all = series(60_000, step_ms, value);
    let requests: Vec<Vec<Measure>> = all.chunks(batch).map(<[Measure]>::to_vec).collect();
    let mut scratch = Vec::new();
    let ns = best_ns(all.len(), || {
        black_box(fold_all(&layout, &requests, &mut scratch));
    });
    let (head, mut sealed) = fold_all(&layout, &requests, &mut scratch);
    sealed.retain(|block| block.granularity != raw::GRANULARITY);
    let head_bytes = head.encoded().len();
    let rows: usize = sealed.iter().map(|block| block::extent(&block.bytes).expect("sealed").rows).sum();
    let size: usize = sealed.iter().map(|block| block.bytes.len()).sum();
    println!(
        "fold   {:8} {:7.1} s apart, {batch:5} a request {ns:7.2} ns a point  head {:6} bytes  {:4} blocks, {:6} rows, {:5.1} bytes a row",
        policy.name,
        step_ms as f64 / 1e3,
        head_bytes,
        sealed.len(),
        rows,
        size as f64 / rows.max(1) as f64,
    );
}

/// The cost of a pass with `batch` points of a metric: decode the head, fold, encode.
fn pass(policy: &ArchivePolicy, held: usize, batch: usize) {
    let layout = Layout::of(policy);
    let all = series(held + batch, 60_000, noisy);
    let (head, _) = fold_all(&layout, &[all[..held].to_vec()], &mut Vec::new());
    let stored = head.encoded();
    let (mut out, mut scratch) = (Vec::new(), Vec::new());
    let rounds = 2_000;
    let ns = best_ns(rounds, || {
        for _ in 0..rounds {
            let mut head = Head::decode(black_box(&stored)).expect("encoded");
            scratch.clear();
            scratch.extend_from_slice(&all[held..]);
            head.fold(&layout, 2, &mut scratch);
            black_box(head.take_sealed());
            out.clear();
            head.encode(&mut out);
        }
    });
    println!(
        "pass   {:8} head of {held:4} points, {batch:3} new {ns:8.0} ns  head {:6} bytes",
        policy.name,
        stored.len()
    );
}

/// The average size that a pass reads and writes, if each has one point; and the size sealed for that.
fn carried(policy: &ArchivePolicy, step_ms: i64) {
    let layout = Layout::of(policy);
    let (mut head, mut sizes, mut blocks, mut sealed) = (Head::new(), 0, 0, 0);
    let points = series(20_000, step_ms, noisy);
    for (index, point) in points.iter().enumerate() {
        head.fold(&layout, index as u64 + 1, &mut vec![*point]);
        for block in head.take_sealed() {
            blocks += 1;
            sealed += block.bytes.len();
        }
        sizes += head.encoded().len();
    }
    let days = points.len() as f64 * step_ms as f64 / 86_400_000.0;
    println!(
        "carry  {:8} {:7.1} s apart  head {:6} bytes on average, {:6.1} blocks of {:5} bytes a day",
        policy.name,
        step_ms as f64 / 1e3,
        sizes / points.len(),
        f64::from(blocks) / days,
        sealed / blocks as usize,
    );
}

fn read(policy: &ArchivePolicy, granularity: i64, method: &str, count: usize) {
    let mut policy = policy.clone();
    policy.definition.iter_mut().for_each(|item| item.timespan = None);
    let layout = Layout::of(&policy);
    let requests: Vec<Vec<Measure>> =
        series(count, granularity * 1000, noisy).chunks(60).map(<[_]>::to_vec).collect();
    let (head, sealed) = fold_all(&layout, &requests, &mut Vec::new());
    let method: AggregationMethod = method.parse().expect("a method");
    let aggregation = policy.aggregation(method, Timespan::from_secs(granularity)).expect("kept");
    let blocks: Vec<_> = sealed
        .iter()
        .filter(|block| block.granularity == aggregation.granularity)
        .map(|block| (block.first, block.last, block.bytes.as_slice()))
        .collect();
    let mut rows = 0;
    let ns = best_ns(count, || {
        let series =
            assemble(&blocks, Some(&head), &layout, aggregation, ReadRange::default()).expect("sealed");
        rows = series.timestamps.len();
    });
    println!(
        "read   {:8} {method:8} {rows:6} points of {:4} blocks {ns:7.2} ns a point",
        policy.name,
        blocks.len()
    );
}

/// The points of one block.
fn raw_block(name: &str, points: &[Measure]) {
    let (mut bytes, mut times, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let encode = best_ns(points.len(), || {
        bytes.clear();
        raw::encode(black_box(points), &mut bytes);
    });
    let decode = best_ns(points.len(), || {
        times.clear();
        values.clear();
        raw::decode(black_box(&bytes), &mut times, &mut values).expect("encoded");
    });
    let size = bytes.len() as f64 / points.len() as f64;
    println!("raw block, {name}: {size:.2} bytes, encode {encode:.1} ns, decode {decode:.1} ns a point");
}

fn main() {
    let policies = ArchivePolicy::defaults(&ArchivePolicy::default_methods());
    let [_, low, medium, high, raw] = &policies[..] else { unreachable!("five policies") };
    // For a profiler: one benchmark only.
    match std::env::args().nth(1).as_deref() {
        Some("fold") => return (0..20).for_each(|_| fold(medium, 60_000, 60, noisy)),
        Some("pass") => return (0..30).for_each(|_| pass(medium, 30, 1)),
        Some("read") => return (0..200).for_each(|_| read(low, 300, "mean", 43_200)),
        _ => {}
    }
    codec("1, regular, noisy", &series(1, 10_000, noisy));
    codec("60, regular, noisy", &series(60, 10_000, noisy));
    codec("5000, regular, noisy", &series(5000, 1000, noisy));
    codec("5000, regular, whole", &series(5000, 1000, whole));
    codec("5000, regular, constant", &series(5000, 1000, |_| 0.1));
    let mut jitter = series(5000, 1000, noisy);
    for (index, point) in jitter.iter_mut().enumerate() {
        point.timestamp.0 += (index * 7919 % 1000) as i64 * 1000;
    }
    codec("5000, jitter of 1 ms, noisy", &jitter);
    for policy in [low, medium, high, raw] {
        fold(policy, 1_000, 5_000, noisy);
        fold(policy, 1_000, 60, noisy);
        fold(policy, 60_000, 60, noisy);
        fold(policy, 60_000, 60, whole);
        fold(policy, 60_000, 1, noisy);
    }
    let mut rates = medium.clone();
    "rates".clone_into(&mut rates.name);
    rates.aggregation_methods.insert("rate:mean".parse().expect("a method"));
    fold(&rates, 1_000, 60, noisy);
    fold(&rates, 60_000, 1, noisy);
    let mut sorted = medium.clone();
    "95pct".clone_into(&mut sorted.name);
    sorted.aggregation_methods.insert("95pct".parse().expect("a method"));
    fold(&sorted, 1_000, 60, noisy);
    for (held, batch) in [(1, 1), (30, 1), (60, 1), (60, 60), (90, 1)] {
        pass(medium, held, batch);
    }
    pass(low, 60, 1);
    pass(high, 60, 1);
    for (held, batch) in [(1, 1), (30, 1), (60, 1), (60, 60), (90, 1)] {
        pass(raw, held, batch);
    }
    raw_block("regular, two digits", &series(1024, 15_000, |index| whole(index) / 100.0));
    raw_block("regular, noisy", &series(1024, 15_000, noisy));
    raw_block("regular, a counter", &series(1024, 15_000, |index| index as f64 * 1500.0 + whole(index)));
    for (policy, step_ms) in
        [(low, 10_000), (low, 60_000), (low, 300_000), (medium, 10_000), (medium, 60_000), (high, 1_000)]
    {
        carried(policy, step_ms);
    }
    read(high, 1, "mean", 43_200);
    read(low, 300, "mean", 43_200);
    read(low, 300, "count", 43_200);
    read(low, 300, "std", 43_200);
}
