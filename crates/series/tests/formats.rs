//! Blocks and heads of earlier versions decode to the same data; those of a later version give an error that
//! names the version.
//!
//! tests/formats/version-1 contains the series below encoded by version 1 of blocks: sealed blocks, a head
//! with an open block, and blocks of raw points, each after its length.

use gnudi_model::{AggregationMethod, ArchivePolicy, ArchivePolicyItem, Measure, Timespan, Timestamp};
use gnudi_series::{
    CodecError, block,
    head::{Head, Layout},
    raw,
    read::{ReadRange, assemble},
};

const METHODS: [&str; 9] = ["mean", "min", "max", "sum", "std", "count", "rate:mean", "rate:std", "95pct"];

fn value(series: usize, index: usize) -> f64 {
    let scattered = (index * 7919 % 1000) as f64;
    match series {
        0 => scattered / 100.0,
        1 => index as f64 * 1500.0 + scattered,
        2 => (index as f64).sqrt(),
        3 => f64::from(index as u32 / 100),
        _ => [-0.0, f64::INFINITY, 0.1, 1e300, -1e-310][index % 5],
    }
}

const SERIES: usize = 5;

/// A point every ten seconds, and a gap of some minutes.
fn points(series: usize) -> Vec<Measure> {
    let time = |index: usize| {
        Timestamp::from_secs(1_700_000_000 + 10 * index as i64 + if index > 500 { 400 } else { 0 })
    };
    (0..1000).map(|index| Measure { timestamp: time(index), value: value(series, index) }).collect()
}

fn methods() -> Vec<AggregationMethod> {
    METHODS.iter().map(|name| name.parse().unwrap()).collect()
}

fn policy() -> ArchivePolicy {
    let definition = vec![ArchivePolicyItem::unlimited(Timespan::from_secs(60))];
    ArchivePolicy::new("formats".to_owned(), 0, definition, methods().into_iter().collect()).unwrap()
}

/// The sealed blocks of a series, and the remaining head.
fn fold(points: &[Measure]) -> (Vec<Vec<u8>>, Head) {
    let layout = Layout::of(&policy());
    let (mut head, mut blocks) = (Head::new(), Vec::new());
    for (index, request) in points.chunks(60).enumerate() {
        head.fold(&layout, index as u64 + 1, &mut request.to_vec());
        blocks.extend(head.take_sealed().into_iter().map(|block| block.bytes));
    }
    (blocks, head)
}

/// The stored parts of a series: its blocks, its head, its raw points.
fn stored(series: usize) -> Vec<Vec<u8>> {
    let points = points(series);
    let (mut parts, head) = fold(&points);
    let mut of_points = Vec::new();
    raw::encode(&points, &mut of_points);
    parts.extend([head.encoded(), of_points]);
    parts
}

/// Splits length-prefixed parts.
fn parts(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (part, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        parts.push(part.to_vec());
        bytes = rest;
    }
    parts
}

type Columns = (Vec<Timestamp>, Vec<u64>);

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// All data of the parts of a series: each method's, and the raw points.
fn read(parts: &[Vec<u8>]) -> Vec<Columns> {
    let (points, parts) = parts.split_last().unwrap();
    let (head, blocks) = parts.split_last().unwrap();
    let head = Head::decode(head).unwrap();
    let layout = Layout::of(&policy());
    let mut columns = Vec::new();
    for method in methods() {
        let (mut times, mut values) = (Vec::new(), Vec::new());
        for bytes in blocks {
            block::decode(bytes, method, &mut times, &mut values).unwrap();
        }
        columns.push((times, bits(&values)));
        let aggregation = policy().aggregation(method, Timespan::from_secs(60)).unwrap();
        let open = assemble(&[], Some(&head), &layout, aggregation, ReadRange::default()).unwrap();
        columns.push((open.timestamps, bits(&open.values)));
    }
    let (mut times, mut values) = (Vec::new(), Vec::new());
    raw::decode(points, &mut times, &mut values).unwrap();
    columns.push((times, bits(&values)));
    columns
}

#[test]
fn version_1_is_read() {
    let old = parts(include_bytes!("formats/version-1"));
    let mut old = &old[..];
    for series in 0..SERIES {
        let new = stored(series);
        let (of_series, rest) = old.split_at(new.len());
        assert_eq!(of_series[0][0], 1, "the version");
        assert_eq!(new[0][0], 2, "the version");
        assert!(read(of_series)[0].0.len() > 60);
        assert_eq!(read(of_series), read(&new), "series {series}");
        old = rest;
    }
    assert!(old.is_empty());
}

#[test]
fn a_later_version_is_refused_by_name() {
    let mut parts = stored(0);
    for part in &mut parts {
        let body = part.len() - 4;
        part[0] = 9;
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &part[..body]) as u32;
        part[body..].copy_from_slice(&sum.to_le_bytes());
    }
    let refused = CodecError::Version(9);
    let (points, rest) = parts.split_last().unwrap();
    let (head, blocks) = rest.split_last().unwrap();
    for bytes in blocks {
        assert_eq!(block::extent(bytes), Err(refused));
        let mean = "mean".parse().unwrap();
        assert_eq!(block::decode(bytes, mean, &mut Vec::new(), &mut Vec::new()), Err(refused));
    }
    assert_eq!(Head::decode(head).err(), Some(refused));
    assert_eq!(raw::extent(points), Err(refused));
    assert_eq!(refused.to_string(), "format version 9 is not known");
}
