//! Sizes and decoding speeds of real series with this store's codecs and others.
//!
//! ```text
//! scripts/series-corpus packages /tmp/corpus
//! scripts/series-corpus host /tmp/corpus 7200
//! cargo run --release -p gnudi-series --example codecs -- values /tmp/corpus     bytes a value, beside other codecs
//! cargo run --release -p gnudi-series --example codecs -- buckets /tmp/corpus    bytes a bucket of the six default methods
//! cargo run --release -p gnudi-series --example codecs -- speed /tmp/corpus      ns a value
//! ```
//!
//! All codecs encode blocks of 1,024 values, and every byte counts: headers, widths, checksums. Gnudi's are
//! blocks of raw points with regular times. One more argument selects data sets whose name contains it.

mod alp;
mod xor;

use std::{
    collections::BTreeMap,
    fs,
    hint::black_box,
    path::Path,
    time::{Duration, Instant},
};

use gnudi_model::{AggregationMethod, ArchivePolicy, ArchivePolicyItem, Measure, Timespan, Timestamp};
use gnudi_series::{
    block,
    head::{Head, Layout, SealedBlock},
    raw,
};

const BLOCK: usize = raw::BLOCK_POINTS;

/// Points of one metric.
type Series = Vec<Measure>;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, folder, only @ ..] = &arguments[..] else { panic!("values|buckets|speed FOLDER [NAME]") };
    let mut corpus = corpus(Path::new(folder));
    corpus.retain(|name, _| only.iter().all(|part| name.contains(part.as_str())));
    match what.as_str() {
        "values" => values(&corpus),
        "buckets" => buckets(&corpus),
        "speed" => speed(&corpus),
        _ => panic!("no {what}"),
    }
}

/// The series of each data set.
fn corpus(folder: &Path) -> BTreeMap<String, Vec<Series>> {
    let mut sets: BTreeMap<String, Vec<Series>> = BTreeMap::new();
    for set in fs::read_dir(folder).expect("a folder") {
        let set = set.expect("a folder").path();
        let name = set.file_name().expect("a name").to_string_lossy().into_owned();
        let mut files: Vec<_> =
            fs::read_dir(&set).expect("a folder").map(|file| file.expect("a file").path()).collect();
        files.sort();
        let series = files.iter().map(|file| points(&fs::read_to_string(file).expect("text"))).collect();
        sets.insert(name, series);
    }
    sets
}

fn points(text: &str) -> Series {
    let point = |line: &str| {
        let (time, value) = line.split_once(',').expect("time,value");
        let timestamp = Timestamp(time.parse().expect("a time in nanoseconds"));
        Measure { timestamp, value: value.parse().expect("a value") }
    };
    text.lines().map(point).collect()
}

/// The size in bytes of a block of values.
type Codec = (&'static str, fn(&[f64]) -> usize);

const CODECS: [Codec; 8] = [
    ("gnudi", gnudi),
    ("Gorilla", |values| xor::gorilla(values).div_ceil(8)),
    ("Chimp128", |values| xor::chimp128(values).div_ceil(8)),
    ("ALP", |values| alp::bits(values).div_ceil(8)),
    ("pco", pco),
    ("zstd -3", |values| zstd(values, 3)),
    ("zstd -19", |values| zstd(values, 19)),
    ("f64", |values| 8 * values.len()),
];

/// A block of raw points.
fn encoded(points: &[Measure]) -> Vec<u8> {
    let mut bytes = Vec::new();
    raw::encode(points, &mut bytes);
    bytes
}

fn gnudi(values: &[f64]) -> usize {
    let point = |(index, &value): (usize, &f64)| Measure {
        timestamp: Timestamp::from_secs(1_700_000_000 + 60 * index as i64),
        value,
    };
    let points: Series = values.iter().enumerate().map(point).collect();
    encoded(&points).len()
}

fn pco(values: &[f64]) -> usize {
    pco::standalone::simple_compress(values, &pco::ChunkConfig::default()).expect("finite numbers").len()
}

fn zstd(values: &[f64], level: i32) -> usize {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    zstd::bulk::compress(&bytes, level).expect("room").len()
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    if figures.len() % 2 == 1 { figures[middle] } else { f64::midpoint(figures[middle - 1], figures[middle]) }
}

/// The last row of a table: the median of each column, after some empty cells.
fn print_medians(empty_cells: usize, columns: Vec<Vec<f64>>) {
    let medians: Vec<String> = columns.into_iter().map(|column| format!("{:.2}", median(column))).collect();
    println!("| median |{} {} |", " |".repeat(empty_cells), medians.join(" | "));
}

fn values(corpus: &BTreeMap<String, Vec<Series>>) {
    println!("| data set | series | values | times | {} |", CODECS.map(|codec| codec.0).join(" | "));
    println!("| --- |{}", " ---: |".repeat(3 + CODECS.len()));
    let mut columns = vec![Vec::new(); CODECS.len()];
    for (name, series) in corpus {
        let count: usize = series.iter().map(Vec::len).sum();
        print!("| {name} | {} | {count} | {:.2}", series.len(), times(series) / count as f64);
        for (column, (_, size)) in CODECS.iter().enumerate() {
            let of_series = |points: &Series| {
                let values: Vec<f64> = points.iter().map(|point| point.value).collect();
                values.chunks(BLOCK).map(size).sum::<usize>()
            };
            let bytes = series.iter().map(of_series).sum::<usize>() as f64 / count as f64;
            columns[column].push(bytes);
            print!(" | {bytes:.2}");
        }
        println!(" |");
    }
    print_medians(3, columns);
}

/// The size of the points' times beyond that of regular times.
fn times(series: &[Series]) -> f64 {
    let of_block = |points: &[Measure]| {
        let values: Vec<f64> = points.iter().map(|point| point.value).collect();
        encoded(points).len() as f64 - gnudi(&values) as f64
    };
    series.iter().flat_map(|points| points.chunks(BLOCK)).map(of_block).sum()
}

/// The sealed buckets of `factor` points of a series, and their number.
fn sealed(points: &Series, factor: i64, methods: &[AggregationMethod]) -> (Vec<SealedBlock>, usize) {
    let mut steps: Vec<i64> =
        points.windows(2).map(|pair| pair[1].timestamp.0 - pair[0].timestamp.0).collect();
    steps.sort_unstable();
    let step = steps[steps.len() / 2];
    // Jittering times still have a period.
    let step = if step > 500_000_000 { (step + 500_000_000) / 1_000_000_000 * 1_000_000_000 } else { step };
    let definition = vec![ArchivePolicyItem::unlimited(Timespan(step * factor))];
    let methods = methods.iter().copied().collect();
    let policy = ArchivePolicy::new("codecs".to_owned(), 0, definition, methods).expect("one granularity");
    let layout = Layout::of(&policy);
    let (mut head, mut blocks) = (Head::new(), Vec::new());
    for (index, request) in points.chunks(60).enumerate() {
        head.fold(&layout, index as u64 + 1, &mut request.to_vec());
        blocks.append(&mut head.take_sealed());
    }
    let rows = blocks.iter().map(|block| block::extent(&block.bytes).expect("sealed").rows).sum();
    (blocks, rows)
}

fn methods(names: &[&str]) -> Vec<AggregationMethod> {
    names.iter().map(|name| name.parse().expect("a method")).collect()
}

const DEFAULT: [&str; 6] = ["mean", "min", "max", "sum", "std", "count"];

/// Sets of methods, and the number of points in a bucket.
const BUCKETS: [(&str, &[&str], i64); 7] = [
    ("1 point", &DEFAULT, 1),
    ("5 points", &DEFAULT, 5),
    ("12 points", &DEFAULT, 12),
    ("12 points, mean", &["mean"], 12),
    ("12 points, std", &["std"], 12),
    ("12 points, 95pct", &["95pct"], 12),
    ("12 points, rate:mean", &["rate:mean"], 12),
];

fn buckets(corpus: &BTreeMap<String, Vec<Series>>) {
    println!("| data set | {} |", BUCKETS.map(|bucket| bucket.0).join(" | "));
    println!("| --- |{}", " ---: |".repeat(BUCKETS.len()));
    let mut columns = vec![Vec::new(); BUCKETS.len()];
    for (name, series) in corpus {
        print!("| {name}");
        for (column, (_, names, factor)) in BUCKETS.iter().enumerate() {
            let blocks = series.iter().map(|points| sealed(points, *factor, &methods(names)));
            let (bytes, rows) = blocks.fold((0, 0), |(bytes, rows), (blocks, more)| {
                (bytes + blocks.iter().map(|block| block.bytes.len()).sum::<usize>(), rows + more)
            });
            if rows == 0 {
                print!(" |");
                continue;
            }
            let bytes = bytes as f64 / rows as f64;
            columns[column].push(bytes);
            print!(" | {bytes:.2}");
        }
        println!(" |");
    }
    print_medians(0, columns);
}

/// The best of many rounds, in nanoseconds for each of `items`.
fn best_ns(items: usize, mut round: impl FnMut()) -> f64 {
    let (start, mut best, mut rounds) = (Instant::now(), f64::INFINITY, 0);
    while rounds < 5 || start.elapsed() < Duration::from_millis(60) {
        let start = Instant::now();
        round();
        best = best.min(start.elapsed().as_nanos() as f64 / items as f64);
        rounds += 1;
    }
    best
}

/// The time to encode and decode a value: raw points, then buckets of 12 points by method, then a pass that
/// seals them.
fn speed(corpus: &BTreeMap<String, Vec<Series>>) {
    println!("| data set | raw written | raw read | {} |", DEFAULT.join(" | "));
    println!("| --- |{}", " ---: |".repeat(2 + DEFAULT.len()));
    let mut columns = vec![Vec::new(); 2 + DEFAULT.len()];
    for (name, series) in corpus {
        let mut figures = raw_speed(series);
        let blocks: Vec<(Vec<SealedBlock>, usize)> =
            series.iter().map(|points| sealed(points, 12, &methods(&DEFAULT))).collect();
        let rows: usize = blocks.iter().map(|(_, rows)| rows).sum();
        let (mut times, mut values) = (Vec::new(), Vec::new());
        for method in methods(&DEFAULT).into_iter().filter(|_| rows > 0) {
            figures.push(best_ns(rows, || {
                times.clear();
                values.clear();
                for block in blocks.iter().flat_map(|(blocks, _)| blocks) {
                    block::decode(black_box(&block.bytes), method, &mut times, &mut values).expect("sealed");
                }
            }));
        }
        let texts: Vec<String> = figures.iter().map(|figure| format!("{figure:.2}")).collect();
        println!("| {name} | {} |", texts.join(" | "));
        for (column, figure) in columns.iter_mut().zip(figures) {
            column.push(figure);
        }
    }
    print_medians(0, columns);
}

fn raw_speed(series: &[Series]) -> Vec<f64> {
    let count: usize = series.iter().map(Vec::len).sum();
    let (mut bytes, mut times, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let written = best_ns(count, || {
        for block in series.iter().flat_map(|points| points.chunks(BLOCK)) {
            bytes.clear();
            raw::encode(black_box(block), &mut bytes);
        }
    });
    let blocks: Vec<Vec<u8>> = series.iter().flat_map(|points| points.chunks(BLOCK)).map(encoded).collect();
    let read = best_ns(count, || {
        times.clear();
        values.clear();
        for block in &blocks {
            raw::decode(black_box(block), &mut times, &mut values).expect("encoded");
        }
    });
    vec![written, read]
}
