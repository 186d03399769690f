//! The size of a raw point in bytes, for any data: lines of a series' name, a time in nanoseconds and a
//! value, in order.
//!
//! ```text
//! cargo run --release -p gnudi-series --example raw_size < points.csv
//! ```

use std::{
    collections::BTreeMap,
    io::{self, BufRead as _},
};

use gnudi_model::{Measure, Timestamp};
use gnudi_series::raw;

fn main() {
    let mut series: BTreeMap<String, Vec<Measure>> = BTreeMap::new();
    for line in io::stdin().lock().lines() {
        let line = line.expect("lines of text");
        let mut fields = line.rsplitn(3, ',');
        let mut field = || fields.next().expect("name,time,value");
        let (value, time, name) = (field(), field(), field());
        let timestamp = Timestamp(time.parse().expect("a time in nanoseconds"));
        let value = value.parse().expect("a value");
        series.entry(name.to_owned()).or_default().push(Measure { timestamp, value });
    }
    let mut sizes: Vec<(f64, String)> =
        series.into_iter().map(|(name, points)| (size(&points), name)).collect();
    sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mean = sizes.iter().map(|(size, _)| size).sum::<f64>() / sizes.len() as f64;
    for (size, name) in &sizes {
        println!("{size:6.2}  {name}");
    }
    println!("{} series: median {:.2} bytes a point, mean {mean:.2}", sizes.len(), sizes[sizes.len() / 2].0);
}

/// Bytes for each point, in blocks that are full except the last.
fn size(points: &[Measure]) -> f64 {
    let mut bytes = Vec::new();
    for block in points.chunks(raw::BLOCK_POINTS) {
        raw::encode(block, &mut bytes);
    }
    bytes.len() as f64 / points.len() as f64
}
