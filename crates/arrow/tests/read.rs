//! Reads streams written by arrow-ipc, and refuses invalid ones.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, DictionaryArray, FixedSizeBinaryArray, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, StringViewArray, TimestampMillisecondArray, TimestampNanosecondArray, types::Int32Type,
};
use arrow_ipc::{
    CompressionType, MetadataVersion,
    writer::{IpcWriteOptions, StreamWriter},
};
use gnudi_arrow::read::{ReadError, ReadLimits, metric_measures, named_measures, work_bytes};
use gnudi_model::Measure;
use proptest::prelude::*;
use uuid::Uuid;

const LIMITS: ReadLimits = ReadLimits { measures_max: 10_000, metrics_max: 100, inflated_bytes_max: 1 << 20 };

fn stream(columns: &[(&str, ArrayRef)], batches: usize, compression: Option<CompressionType>) -> Vec<u8> {
    let batch =
        RecordBatch::try_from_iter(columns.iter().map(|(name, array)| (*name, array.clone()))).unwrap();
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5).unwrap();
    let options = options.try_with_compression(compression).unwrap();
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
    for _ in 0..batches {
        writer.write(&batch).unwrap();
    }
    writer.into_inner().unwrap()
}

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn ids(numbers: &[u128]) -> Vec<String> {
    numbers.iter().map(|number| id(*number).to_string()).collect()
}

fn times(count: usize) -> ArrayRef {
    Arc::new(TimestampNanosecondArray::from_iter_values(0..count as i64))
}

fn values(count: usize) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values((0..count).map(|row| row as f64 / 3.0)))
}

/// The parsed points by metric: times and the bits of values.
type MetricPoints = Vec<(u128, Vec<(i64, u64)>)>;

fn read(stream: &[u8]) -> Result<MetricPoints, ReadError> {
    let mut out = vec![];
    let parts = metric_measures(stream, &LIMITS, &mut out)?;
    let points = |measures: &[Measure]| {
        measures.iter().map(|measure| (measure.timestamp.0, measure.value.to_bits())).collect()
    };
    Ok(parts.iter().map(|part| (part.metric.0.as_u128(), points(&out[part.range.clone()]))).collect())
}

#[test]
fn every_form_of_ids_means_the_same() {
    let numbers = [7, 7, 9, 7, 8];
    let texts = ids(&numbers);
    let binary =
        FixedSizeBinaryArray::try_from_iter(numbers.iter().map(|number| *id(*number).as_bytes())).unwrap();
    let forms: [ArrayRef; 4] = [
        Arc::new(StringArray::from(texts.clone())),
        Arc::new(StringViewArray::from_iter_values(&texts)),
        Arc::new(texts.iter().map(String::as_str).collect::<DictionaryArray<Int32Type>>()),
        Arc::new(binary),
    ];
    let bits = |row: i64| (row, (row as f64 / 3.0).to_bits());
    let expected: MetricPoints =
        vec![(7, vec![bits(0), bits(1), bits(3)]), (9, vec![bits(2)]), (8, vec![bits(4)])];
    for form in forms {
        for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
            let columns = [("value", values(5)), ("metric_id", form.clone()), ("timestamp", times(5))];
            assert_eq!(
                read(&stream(&columns, 1, compression)),
                Ok(expected.clone()),
                "{form:?} {compression:?}"
            );
        }
    }
}

#[test]
fn what_is_no_measure_is_refused_by_name() {
    let some: ArrayRef = Arc::new(StringArray::from(ids(&[1, 2])));
    let case = |columns: &[(&str, ArrayRef)]| read(&stream(columns, 1, None)).unwrap_err().to_string();
    let ints = |ints: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(ints)) };
    let all = || vec![("metric_id", some.clone()), ("timestamp", times(2)), ("value", values(2))];
    let with = |name: &str, array: ArrayRef| {
        let mut columns = all();
        columns.iter_mut().filter(|column| column.0 == name).for_each(|column| column.1 = array.clone());
        columns
    };
    for (columns, expected) in [
        (all()[..2].to_vec(), "no column 'value'"),
        (with("timestamp", ints(vec![1, 2])), "cast it to a timestamp"),
        (with("value", some.clone()), "'value' is Utf8"),
        (vec![("metric_id", some.clone()), ("x", times(2)), ("value", values(2))], "column 'x'"),
        (with("metric_id", values(2)), "'metric_id' is FloatingPoint"),
        (with("value", ints(vec![1, (1 << 53) + 1])), "beyond 2^53 in row 1"),
        (with("timestamp", Arc::new(TimestampNanosecondArray::from(vec![0, -1]))), "before 1970 in row 1"),
        (
            with("timestamp", Arc::new(TimestampMillisecondArray::from(vec![i64::MAX / 999_999, 0]))),
            "after 2262 in row 0",
        ),
        (with("value", Arc::new(Float64Array::from(vec![Some(1.0), None]))), "'value' is null in row 1"),
        (
            with("metric_id", Arc::new(StringArray::from(vec![None::<&str>, None]))),
            "'metric_id' is null in row 0",
        ),
        (
            with("metric_id", Arc::new(StringArray::from(vec!["x", "y"]))),
            "'metric_id' has 'x': it is no UUID",
        ),
    ] {
        let found = case(&columns);
        assert!(found.contains(expected), "{found}");
    }
    assert!(read(b"").unwrap_err().to_string().contains("does not begin with a schema"));
    assert!(read(b"ARROW1\0\0").unwrap_err().to_string().contains("not a stream"));
    assert!(read(b"{\"a\": 1}").unwrap_err().to_string().contains("No message begins at byte 0"));
}

#[test]
fn limits_hold() {
    let ids: ArrayRef = Arc::new(StringArray::from(ids(&(0..101).collect::<Vec<u128>>())));
    let columns = [("metric_id", ids), ("timestamp", times(101)), ("value", values(101))];
    let refused = |stream: &[u8]| match read(stream).unwrap_err() {
        ReadError::TooLarge(text) => text,
        other @ ReadError::Malformed(_) => panic!("{other}"),
    };
    assert_eq!(refused(&stream(&columns, 1, None)), "There are more than 100 metrics");
    let one: ArrayRef = Arc::new(StringArray::from(vec![id(1).to_string(); 5_000]));
    let columns = [("metric_id", one), ("timestamp", times(5_000)), ("value", values(5_000))];
    assert!(read(&stream(&columns, 2, None)).is_ok());
    assert_eq!(refused(&stream(&columns, 3, None)), "There are more than 10000 measures");
    // A text of 2 MiB that compresses to a few kilobytes.
    let bomb: ArrayRef = Arc::new(StringArray::from(vec!["0".repeat(2 << 20)]));
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let columns = [("metric_id", bomb.clone()), ("timestamp", times(1)), ("value", values(1))];
        let bytes = stream(&columns, 1, Some(codec));
        assert!(bytes.len() < 20_000 && work_bytes(&bytes) > 2 << 20);
        assert_eq!(refused(&bytes), "The buffers have more than 1048576 bytes once they are inflated");
    }
}

#[test]
fn a_text_is_no_longer_than_ids_and_names() {
    let read = |bytes: usize| {
        let text = "x".repeat(bytes);
        let dictionary: DictionaryArray<Int32Type> = [text.as_str()].into_iter().collect();
        let forms: [ArrayRef; 3] = [
            Arc::new(StringArray::from(vec![text.clone()])),
            Arc::new(StringViewArray::from_iter_values([&text])),
            Arc::new(dictionary),
        ];
        forms.map(|names| {
            let resources: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
            let columns = [
                ("resource_id", resources),
                ("metric", names),
                ("timestamp", times(1)),
                ("value", values(1)),
            ];
            let id_of = |_: &str| Ok(id(1));
            named_measures(&stream(&columns, 1, None), &LIMITS, id_of, &mut vec![])
        })
    };
    for named in read(1_156) {
        assert_eq!(named.unwrap().metrics[0].name.len(), 1_156);
    }
    for named in read(1_157) {
        let error = named.unwrap_err();
        assert_eq!(error.to_string(), "A text of column 'metric' has more than 1156 bytes (row 0)");
    }
}

#[test]
fn resources_are_those_that_their_texts_mean() {
    let resources: ArrayRef = Arc::new(StringArray::from(vec!["b", "a", "B", "a", "a"]));
    let names: ArrayRef = Arc::new(StringArray::from(vec!["x", "x", "x", "y", "x"]));
    let policies: ArrayRef = Arc::new(StringArray::from(vec![None, None, Some("p"), Some("q"), Some("r")]));
    let columns = [
        ("resource_id", resources),
        ("metric", names),
        ("archive_policy_name", policies),
        ("timestamp", times(5)),
        ("value", values(5)),
    ];
    let mut out = vec![];
    let id_of = |text: &str| Ok(Uuid::from_u128(text.to_lowercase().bytes().map(u128::from).sum()));
    let named = named_measures(&stream(&columns, 2, None), &LIMITS, id_of, &mut out).unwrap();
    let originals: Vec<&str> = named.resources.iter().map(|resource| resource.original_id.as_str()).collect();
    assert_eq!(originals, ["b", "a"]);
    let told: Vec<(usize, &str, Option<&str>, Vec<i64>)> = named
        .metrics
        .iter()
        .map(|metric| {
            let times = out[metric.range.clone()].iter().map(|measure| measure.timestamp.0).collect();
            (metric.resource, &*metric.name, metric.archive_policy_name.as_deref(), times)
        })
        .collect();
    assert_eq!(
        told,
        [
            (0, "x", Some("p"), vec![0, 2, 0, 2]),
            (1, "x", Some("r"), vec![1, 4, 1, 4]),
            (1, "y", Some("q"), vec![3, 3]),
        ]
    );
    assert!(Arc::ptr_eq(&named.metrics[0].name, &named.metrics[1].name));
}

/// A valid stream of each layout, to be damaged.
fn samples() -> Vec<Vec<u8>> {
    let texts = ids(&[1, 2, 1, 3]);
    let dictionary = texts.iter().map(String::as_str).collect::<DictionaryArray<Int32Type>>();
    let forms: [ArrayRef; 3] = [
        Arc::new(StringArray::from(texts.clone())),
        Arc::new(StringViewArray::from_iter_values(&texts)),
        Arc::new(dictionary),
    ];
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4]));
    let mut samples = Vec::new();
    for form in forms {
        for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
            let columns = [("metric_id", form.clone()), ("timestamp", times(4)), ("value", values(4))];
            samples.push(stream(&columns, 2, compression));
        }
        samples.push(stream(
            &[("metric_id", form), ("timestamp", times(4)), ("value", ints.clone())],
            1,
            None,
        ));
    }
    samples
}

/// Only the end-of-stream marker may be missing: the end of the body is as good.
#[test]
fn what_is_cut_short_is_refused() {
    for sample in samples() {
        let whole = read(&sample).unwrap();
        for end in 0..sample.len() {
            match read(&sample[..end]) {
                Ok(told) => {
                    let rows =
                        |told: &MetricPoints| told.iter().map(|(_, points)| points.len()).sum::<usize>();
                    assert!(rows(&told) <= rows(&whole) && rows(&told) % 4 == 0, "{end} of {}", sample.len());
                }
                Err(ReadError::Malformed(text)) => assert!(!text.is_empty()),
                Err(other @ ReadError::TooLarge(_)) => panic!("{other}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    /// Damaged input never causes a panic or exceeds the limits.
    #[test]
    fn what_is_damaged_is_read_or_refused(
        sample in 0..12_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u8>(), Just(0), Just(0xff), Just(0x7f)]), 1..6),
    ) {
        let mut bytes = samples().swap_remove(sample);
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        prop_assert!(work_bytes(&bytes) >= bytes.len());
        if let Ok(told) = read(&bytes) {
            prop_assert!(told.iter().map(|(_, points)| points.len()).sum::<usize>() <= LIMITS.measures_max);
        }
    }

    #[test]
    fn anything_else_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(read(&bytes).is_err());
    }

    /// Rows in any order and batches give the same result as a list per metric.
    #[test]
    fn rows_are_sorted_by_metric(rows in prop::collection::vec((0..5_u128, 0..1_000_i64, any::<f64>()), 1..60)) {
        let texts = rows.iter().map(|(metric, ..)| id(*metric).to_string());
        let columns: [(&str, ArrayRef); 3] = [
            ("metric_id", Arc::new(StringArray::from_iter_values(texts))),
            ("timestamp", Arc::new(TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.1)))),
            ("value", Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.2)))),
        ];
        let mut expected: MetricPoints = Vec::new();
        for (metric, time, value) in &rows {
            let point = (*time, value.to_bits());
            match expected.iter_mut().find(|(known, _)| known == metric) {
                Some((_, points)) => points.push(point),
                None => expected.push((*metric, vec![point])),
            }
        }
        prop_assert_eq!(read(&stream(&columns, 1, None)).unwrap(), expected);
    }
}
