//! arrow-ipc reads the written tables back.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, RecordBatch, StringArray, TimestampNanosecondArray,
    cast::AsArray, types::Int32Type,
};
use arrow_ipc::reader::StreamReader;
use gnudi_arrow::{
    Compression,
    write::{Cells, Long, SeriesSet, Table, TooWide, Wide},
};
use gnudi_model::Timestamp;
use proptest::prelude::*;

const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

/// A series: key, granularity, times and values.
type SeriesPoints = (Option<String>, Option<f64>, Vec<(i64, f64)>);

fn set(series: &[SeriesPoints]) -> SeriesSet {
    let mut set = SeriesSet::new(["key".to_owned()]);
    for (key, granularity, points) in series {
        let times = points.iter().map(|(time, _)| Timestamp(*time)).collect();
        set.push(
            &[key.as_deref()],
            *granularity,
            Arc::new(times),
            points.iter().map(|point| point.1).collect(),
        );
    }
    set
}

fn read(pieces: impl Iterator<Item = bytes::Bytes>) -> Vec<RecordBatch> {
    let stream: Vec<u8> = pieces.flat_map(|piece| piece.to_vec()).collect();
    StreamReader::try_new(&stream[..], None).unwrap().map(Result::unwrap).collect()
}

fn times(array: &ArrayRef) -> Vec<i64> {
    assert!(array.data_type().to_string().contains("UTC"));
    array.as_any().downcast_ref::<TimestampNanosecondArray>().unwrap().values().to_vec()
}

fn numbers(array: &ArrayRef) -> Vec<Option<f64>> {
    array.as_any().downcast_ref::<Float64Array>().unwrap().iter().collect()
}

/// Adds a granularity column of nulls to a batch without one.
fn with_granularity(batch: &RecordBatch) -> RecordBatch {
    assert!(batch.column_by_name("granularity").is_none());
    let nulls: ArrayRef = Arc::new(Float64Array::new_null(batch.num_rows()));
    let names = batch.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    let columns =
        names.into_iter().zip(batch.columns().iter().cloned()).chain([("granularity".to_owned(), nulls)]);
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

/// The rows of a long table.
fn rows(batches: &[RecordBatch]) -> Vec<(Option<String>, Option<u64>, i64, u64)> {
    let mut rows = Vec::new();
    for batch in batches {
        let keys: &DictionaryArray<Int32Type> = batch.column_by_name("key").unwrap().as_dictionary();
        let keys = keys.downcast_dict::<StringArray>().unwrap();
        let granularities = numbers(batch.column_by_name("granularity").unwrap());
        let values = numbers(batch.column_by_name("value").unwrap());
        for (index, time) in times(batch.column_by_name("timestamp").unwrap()).into_iter().enumerate() {
            let key = keys.into_iter().nth(index).unwrap().map(str::to_owned);
            rows.push((key, granularities[index].map(f64::to_bits), time, values[index].unwrap().to_bits()));
        }
    }
    rows
}

fn series() -> impl Strategy<Value = Vec<SeriesPoints>> {
    let points = prop::collection::btree_map(0..50_i64, any::<f64>(), 0..20);
    let key = prop::option::of(prop::sample::select(vec!["a".to_owned(), "b".to_owned(), "é/c".to_owned()]));
    let granularity = prop::option::of(prop::sample::select(vec![60.0, 3600.0]));
    let one = (key, granularity, points.prop_map(|points| points.into_iter().collect()));
    prop::collection::vec(one, 0..8)
}

proptest! {
    #[test]
    fn long_tables_have_every_point(series in series(), compression in prop::sample::select(COMPRESSIONS.to_vec())) {
        let expected: Vec<_> = series
            .iter()
            .flat_map(|(key, granularity, points)| {
                points.iter().map(|(time, value)| (key.clone(), granularity.map(f64::to_bits), *time, value.to_bits()))
            })
            .collect();
        prop_assert_eq!(rows(&read(Long::new(set(&series), compression))), expected.clone());
        let mut without = set(&series);
        without.omit_granularity();
        let batches: Vec<RecordBatch> = read(Long::new(without, compression)).iter().map(with_granularity).collect();
        let expected: Vec<_> = expected.into_iter().map(|(key, _, time, value)| (key, None, time, value)).collect();
        prop_assert_eq!(rows(&batches), expected);
    }

    #[test]
    fn wide_tables_have_every_point_in_its_place(series in series(), compression in prop::sample::select(COMPRESSIONS.to_vec())) {
        let batches = read(Wide::new(set(&series), compression).unwrap());
        let mut expected = Vec::new();
        let mut known = std::collections::BTreeSet::new();
        for (key, granularity, points) in &series {
            let (key, granularity) = (key.clone().unwrap_or_default(), granularity.map(f64::to_bits));
            let points: Vec<(i64, u64)> = points.iter().map(|(time, value)| (*time, value.to_bits())).collect();
            // The same series again adds nothing; another one of the same key does.
            if known.insert((key.clone(), granularity, points.clone())) {
                expected.extend(points.into_iter().map(|(time, value)| (key.clone(), granularity, time, value)));
            }
        }
        expected.sort_unstable();
        let mut found = Vec::new();
        for batch in &batches {
            let granularities = numbers(batch.column(1));
            for (field, column) in batch.schema().fields().iter().zip(batch.columns()).skip(2) {
                for (row, value) in numbers(column).into_iter().enumerate() {
                    let time = times(batch.column(0))[row];
                    if let Some(value) = value {
                        let granularity = granularities[row].map(f64::to_bits);
                        found.push((field.name().clone(), granularity, time, value.to_bits()));
                    }
                }
            }
        }
        found.sort_unstable();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn two_series_of_one_key_have_rows_of_their_own_in_a_wide_table() {
    let one = |key: &str, points: &[(i64, f64)]| (Some(key.to_owned()), Some(60.0), points.to_vec());
    let series = [
        one("a", &[(1, 1.0), (2, 2.0)]),
        one("b", &[(2, 3.0)]),
        one("a", &[(2, 4.0)]),
        // Named twice.
        one("b", &[(2, 3.0)]),
    ];
    let batches = read(Wide::new(set(&series), Compression::None).unwrap());
    let columns = |batch: &RecordBatch| {
        let [a, b] = [2, 3].map(|column| numbers(batch.column(column)));
        (times(batch.column(0)), a, b)
    };
    let columns: Vec<_> = batches.iter().map(columns).collect();
    let first = (vec![1, 2], vec![Some(1.0), Some(2.0)], vec![None, Some(3.0)]);
    assert_eq!(columns, [first, (vec![2], vec![Some(4.0)], vec![None])]);
}

#[test]
fn long_series_are_cut_and_short_ones_gathered() {
    let points = |count: i64| (0..count).map(|time| (time, time as f64)).collect::<Vec<_>>();
    let one = |key: &str, count| (Some(key.to_owned()), Some(60.0), points(count));
    let mut series = vec![one("long", 150_000)];
    series.extend((0..100).map(|_| one("short", 100)));
    for compression in COMPRESSIONS {
        let batches = read(Long::new(set(&series), compression));
        let counts: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(counts, [65_536, 65_536, 18_928, 10_000], "{compression:?}");
        let values: Vec<f64> = batches
            .iter()
            .flat_map(|batch| numbers(batch.column_by_name("value").unwrap()))
            .flatten()
            .collect();
        assert!(values[..150_000].iter().enumerate().all(|(row, value)| *value == row as f64));
        assert_eq!(values[150_000..150_100], points(100).iter().map(|point| point.1).collect::<Vec<_>>());
    }
    let packed: usize = Long::new(set(&series), Compression::Zstd).map(|piece| piece.len()).sum();
    assert!(packed < 160_000 * 16, "{packed}");
}

#[test]
fn what_is_too_wide_is_refused() {
    let series: Vec<SeriesPoints> = (0..10_001).map(|key| (Some(key.to_string()), None, vec![])).collect();
    assert_eq!(Wide::new(set(&series), Compression::None).unwrap_err(), TooWide::Columns);
    let series: Vec<SeriesPoints> =
        (0..9_000).map(|key| (Some(key.to_string()), None, vec![(key, 0.0)])).collect();
    assert_eq!(Wide::new(set(&series), Compression::None).unwrap_err(), TooWide::Cells);
}

#[test]
fn lists_have_columns_of_every_kind() {
    for compression in COMPRESSIONS {
        let mut table = Table::default();
        table.column("text", Cells::Texts(vec![Some("a".to_owned()), None]));
        table.column("time", Cells::Times(vec![None, Some(Timestamp(5))]));
        table.column("number", Cells::Numbers(vec![Some(-0.0), None]));
        table.column("flag", Cells::Flags(vec![Some(true), None]));
        table.column("map", Cells::Maps(vec![vec![("k".to_owned(), "v".to_owned())], vec![]]));
        let batches = read([bytes::Bytes::from(table.into_stream(compression))].into_iter());
        assert_eq!((batches.len(), batches[0].num_rows(), batches[0].num_columns()), (1, 2, 5));
        assert_eq!(batches[0].column(4).as_map().value(0).len(), 1);
        assert!(batches[0].columns()[..4].iter().all(|column| column.null_count() == 1));
    }
    let mut empty = Table::default();
    empty.column("text", Cells::Texts(vec![]));
    assert!(read([bytes::Bytes::from(empty.into_stream(Compression::None))].into_iter()).is_empty());
}
