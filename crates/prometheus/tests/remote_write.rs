//! Remote write: both versions decode what was encoded and ignore unknown fields; limits are enforced; invalid bytes do
//! not panic.

mod support;

use gnudi_prometheus::{
    Malformed,
    metadata::{Metadata, MetricKind},
    remote_write::{
        InvalidLabels, Limits, ReadError, Sample, WriteRequest, inflate, inflated_bytes,
        names::{Labels, place},
        v1, v2,
    },
};
use proptest::{collection, prelude::*};
use support::{LIMITS, field, number, varint};

/// Appends unknown fields of every wire type.
fn unknown(out: &mut Vec<u8>) {
    field(100, b"later", out);
    varint(101 << 3, out);
    varint(u64::MAX, out);
    varint(102 << 3 | 1, out);
    out.extend_from_slice(&[1; 8]);
    varint(103 << 3 | 5, out);
    out.extend_from_slice(&[1; 4]);
}

#[derive(Clone, Debug, Default)]
struct Series {
    labels: Vec<(String, String)>,
    /// The bits of the value, and the time.
    samples: Vec<(u64, i64)>,
    histograms: usize,
    /// The bits of the value, and the time. Each exemplar has the first label of its series, if there is one.
    exemplars: Vec<(u64, i64)>,
    help: String,
}

impl Series {
    fn exemplar_label(&self) -> Option<&(String, String)> {
        self.labels.first()
    }
}

fn sample((bits, time): (u64, i64), with_unknown: bool) -> Vec<u8> {
    let mut bytes = vec![1 << 3 | 1];
    bytes.extend_from_slice(&bits.to_le_bytes());
    number(2, time as u64, &mut bytes);
    if with_unknown {
        unknown(&mut bytes);
    }
    bytes
}

/// Appends the value and the time of an exemplar to its labels.
fn exemplar((bits, time): (u64, i64), mut labels: Vec<u8>) -> Vec<u8> {
    labels.push(2 << 3 | 1);
    labels.extend_from_slice(&bits.to_le_bytes());
    number(3, time as u64, &mut labels);
    labels
}

/// A label of version 1.
fn label((name, value): &(String, String)) -> Vec<u8> {
    let mut label = Vec::new();
    field(1, name.as_bytes(), &mut label);
    field(2, value.as_bytes(), &mut label);
    label
}

fn write_v1(all: &[Series], with_unknown: bool) -> Vec<u8> {
    let mut message = Vec::new();
    for one in all {
        let mut series = Vec::new();
        for (index, pair) in one.labels.iter().enumerate() {
            let mut label = label(pair);
            if with_unknown {
                unknown(&mut label);
                // Labels need not be adjacent.
                if index == 1 {
                    unknown(&mut series);
                }
            }
            field(1, &label, &mut series);
        }
        for one in &one.samples {
            field(2, &sample(*one, with_unknown), &mut series);
        }
        for exemplar_of in &one.exemplars {
            let mut labels = Vec::new();
            if let Some(pair) = one.exemplar_label() {
                field(1, &label(pair), &mut labels);
            }
            field(3, &exemplar(*exemplar_of, labels), &mut series);
        }
        for _ in 0..one.histograms {
            field(4, b"", &mut series);
        }
        if with_unknown {
            unknown(&mut series);
        }
        field(1, &series, &mut message);
        let mut metadata = Vec::new();
        number(1, 2, &mut metadata);
        field(2, b"name", &mut metadata);
        field(4, one.help.as_bytes(), &mut metadata);
        field(3, &metadata, &mut message);
    }
    if with_unknown {
        unknown(&mut message);
    }
    message
}

/// `is_unusual`: the references are not packed, the symbol table comes last, and there are unknown fields.
fn write_v2(all: &[Series], is_unusual: bool) -> Vec<u8> {
    let mut symbols = vec![String::new()];
    let mut symbol = |text: &str| {
        symbols.iter().position(|known| known == text).unwrap_or_else(|| {
            symbols.push(text.to_owned());
            symbols.len() - 1
        }) as u64
    };
    let mut bodies = Vec::new();
    for one in all {
        let (mut series, mut packed) = (Vec::new(), Vec::new());
        for text in one.labels.iter().flat_map(|(name, value)| [name, value]) {
            let reference = symbol(text);
            if is_unusual {
                number(1, reference, &mut series);
                unknown(&mut series);
            } else {
                varint(reference, &mut packed);
            }
        }
        if !packed.is_empty() {
            field(1, &packed, &mut series);
        }
        for one in &one.samples {
            field(2, &sample(*one, is_unusual), &mut series);
        }
        for _ in 0..one.histograms {
            field(3, b"", &mut series);
        }
        for exemplar_of in &one.exemplars {
            let mut labels = Vec::new();
            if let Some((name, value)) = one.exemplar_label() {
                number(1, symbol(name), &mut labels);
                number(1, symbol(value), &mut labels);
            }
            field(4, &exemplar(*exemplar_of, labels), &mut series);
        }
        let mut metadata = Vec::new();
        number(1, 2, &mut metadata);
        number(3, symbol(&one.help), &mut metadata);
        field(5, &metadata, &mut series);
        field(5, &series, &mut bodies);
    }
    let mut table = Vec::new();
    for text in &symbols {
        field(4, text.as_bytes(), &mut table);
    }
    if is_unusual {
        unknown(&mut bodies);
        bodies.extend(table);
        bodies
    } else {
        table.extend(bodies);
        table
    }
}

fn all_series() -> impl Strategy<Value = Vec<Series>> {
    let labels = collection::vec((".{0,6}", ".{0,6}"), 0..4);
    let samples = collection::vec((any::<u64>(), any::<i64>()), 0..4);
    let exemplars = collection::vec((any::<u64>(), any::<i64>()), 0..3);
    let one = (labels, samples, 0_usize..3, exemplars, ".{0,9}").prop_map(
        |(labels, samples, histograms, exemplars, help)| Series {
            labels,
            samples,
            histograms,
            exemplars,
            help,
        },
    );
    collection::vec(one, 0..4)
}

fn read_back(request: &WriteRequest<'_>) -> Vec<Series> {
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let bits = |sample: &Sample| (sample.value.to_bits(), sample.timestamp_ms);
    request
        .series
        .iter()
        .map(|series| Series {
            labels: request.labels(series, 100).unwrap().into_iter().map(owned).collect(),
            samples: request.samples(series).iter().map(bits).collect(),
            histograms: series.histograms,
            exemplars: request
                .exemplars(series, 100)
                .map(|exemplar| {
                    let exemplar = exemplar.unwrap();
                    let labels = request.labels(series, 100).unwrap();
                    assert_eq!(exemplar.labels, labels[..labels.len().min(1)]);
                    (exemplar.value.to_bits(), exemplar.timestamp_ms)
                })
                .collect(),
            help: request.metadata(series).unwrap().map_or(String::new(), |metadata| {
                assert_eq!(metadata.kind, MetricKind::Gauge);
                metadata.help.into_owned()
            }),
        })
        .collect()
}

fn same(one: &[Series], other: &[Series], with_help: bool) -> bool {
    let parts = |series: &Series| {
        let help = if with_help { series.help.clone() } else { String::new() };
        (series.labels.clone(), series.samples.clone(), series.histograms, series.exemplars.clone(), help)
    };
    one.iter().map(parts).eq(other.iter().map(parts))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn encoded_requests_are_decoded(all in all_series(), is_unusual: bool) {
        let message = write_v1(&all, is_unusual);
        let read = v1::read(&message, LIMITS).unwrap();
        prop_assert!(same(&read_back(&read), &all, false));
        let metadata: Vec<_> = all
            .iter()
            .map(|one| ("name", Metadata { kind: MetricKind::Gauge, help: one.help.as_str().into(), unit: "".into() }))
            .collect();
        prop_assert_eq!(&read.metadata, &metadata);
        let message_2 = write_v2(&all, is_unusual);
        let read = v2::read(&message_2, LIMITS).unwrap();
        prop_assert!(same(&read_back(&read), &all, true));
        // The limit is inclusive: the exact size is accepted.
        let body = snap::raw::Encoder::new().compress_vec(&message).unwrap();
        prop_assert_eq!(inflated_bytes(&body, message.len()).and_then(|_| inflate(&body)).ok(), Some(message));
    }

    /// Keys differ exactly if labels differ, independently of the samples.
    #[test]
    fn keys_differ_exactly_if_labels_differ(
        a in collection::vec(("[ab]{0,2}", "[ab]{0,2}"), 0..4),
        b in collection::vec(("[ab]{0,2}", "[ab]{0,2}"), 0..4),
        samples in collection::vec((any::<u64>(), any::<i64>()), 0..3),
    ) {
        let all = [Series { labels: a.clone(), samples, ..Series::default() }, Series { labels: b.clone(), ..Series::default() }];
        for (message, version) in [(write_v1(&all, false), 1), (write_v2(&all, false), 2)] {
            let request = if version == 1 { v1::read(&message, LIMITS) } else { v2::read(&message, LIMITS) }.unwrap();
            let mut buffer = Vec::new();
            let keys: Vec<Vec<u8>> =
                request.series.iter().map(|series| request.key(series, &mut buffer).to_vec()).collect();
            prop_assert_eq!(keys[0] == keys[1], a == b, "version {}", version);
        }
    }

    #[test]
    fn truncated_and_changed_messages_do_not_panic(all in all_series(), at: prop::sample::Index, byte: u8) {
        for mut message in [write_v1(&all, true), write_v2(&all, true), write_v2(&all, false)] {
            let at = at.index(message.len());
            message[at] = byte;
            access_everything(&message);
            access_everything(&message[..at]);
        }
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in collection::vec(any::<u8>(), 0..60)) {
        access_everything(&bytes);
        let _ = inflated_bytes(&bytes, 1000).and_then(|_| inflate(&bytes));
    }

    /// Two series have the same metric name exactly if their labels are equal.
    #[test]
    fn metric_names_differ_exactly_if_labels_differ(
        a in collection::btree_map("[ab=\"\\\\,{}/]{1,3}", "[ab=\"\\\\,{}/\n]{1,4}", 0..3),
        b in collection::btree_map("[ab=\"\\\\,{}/]{1,3}", "[ab=\"\\\\,{}/\n]{1,4}", 0..3),
        names in ("[a{}\"=/\\\\]{1,4}", "[a{}\"=/\\\\]{1,4}"),
    ) {
        let labels = |labels: &std::collections::BTreeMap<String, String>, name: &str| {
            let mut all: Vec<(String, String)> = labels.clone().into_iter().collect();
            all.push(("__name__".to_owned(), name.to_owned()));
            all
        };
        let (a, b) = (labels(&a, &names.0), labels(&b, &names.1));
        let of = |labels: &[(String, String)]| {
            let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            place(&labels, Labels::All).expect("it has a name").metric_name
        };
        prop_assert_eq!(of(&a) == of(&b), a == b);
    }
}

fn access_everything(message: &[u8]) {
    for request in [v1::read(message, LIMITS), v2::read(message, LIMITS)].into_iter().flatten() {
        for series in &request.series {
            let _ = (request.labels(series, 100), request.metadata(series), request.samples(series));
            request.key(series, &mut Vec::new());
        }
    }
}

/// As generated decoders do: only unknown fields may have any type.
#[test]
fn fields_of_another_wire_type_are_refused() {
    // The fields that lead to a message, and the message's own.
    let messages: [(&[u64], &[u64]); 4] =
        [(&[], &[1, 3]), (&[1], &[1, 2, 3, 4]), (&[1, 2], &[1, 2]), (&[3], &[1, 2, 4, 5])];
    for (path, fields) in messages {
        for number in fields {
            let mut message = Vec::new();
            varint(number << 3 | 5, &mut message);
            message.extend_from_slice(&[0; 4]);
            for outer in path.iter().rev() {
                let inner = std::mem::take(&mut message);
                field(*outer, &inner, &mut message);
            }
            let read = v1::read(&message, LIMITS);
            assert!(matches!(read, Err(ReadError::Malformed(_))), "{path:?} {number}: {read:?}");
        }
    }
}

#[test]
fn version_1_has_limits() {
    let labels = vec![("a".to_owned(), "b".to_owned()); 10];
    let all = [Series { labels, samples: vec![(0, 1); 10], ..Series::default() }];
    let message = write_v1(&all, false);
    let limits = |samples_max| Limits { samples_max, ..LIMITS };
    let request = v1::read(&message, limits(10)).unwrap();
    assert_eq!(request.samples(&request.series[0]).len(), 10);
    assert_eq!(request.labels(&request.series[0], 9), Err(InvalidLabels::TooMany(9)));
    assert_eq!(v1::read(&message, limits(9)), Err(ReadError::TooManySamples(9)));
    let labels = vec![(String::new(), String::new()); 65];
    let message = write_v1(&[Series { labels, ..Series::default() }], false);
    assert_eq!(v1::read(&message, limits(1)), Err(ReadError::TooManyLabels(64)));
    assert_eq!(v1::read(&[10, 0].repeat(3), limits(2)), Err(ReadError::TooManySeries(2)));
}

#[test]
fn version_2_has_limits() {
    let limits = |samples_max, labels_bytes_max| Limits { samples_max, labels_bytes_max };
    assert_eq!(v2::read(&[34, 0].repeat(9), limits(2, 0)), Err(ReadError::TooManySymbols(8)));
    assert_eq!(v2::read(&[42, 0].repeat(3), limits(2, 0)), Err(ReadError::TooManySeries(2)));
    // A symbol of 1,000 bytes with a hundred references.
    let mut message = Vec::new();
    field(4, &[b'x'; 1000], &mut message);
    let mut series = Vec::new();
    field(1, &[0; 100], &mut series);
    field(5, &series, &mut message);
    assert!(v2::read(&message, limits(10, 100_000)).is_ok());
    assert_eq!(v2::read(&message, limits(10, 99_999)), Err(ReadError::LabelsTooLarge(99_999)));
}

#[test]
fn what_a_series_says_of_its_metric_is_limited_and_part_of_its_key() {
    let with_help = |help: &str| Series { help: help.to_owned(), ..Series::default() };
    let message = write_v2(&[with_help("a"), with_help("b"), with_help("a")], false);
    let request = v2::read(&message, LIMITS).unwrap();
    let keys: Vec<Vec<u8>> =
        request.series.iter().map(|series| request.key(series, &mut Vec::new()).to_vec()).collect();
    assert!(keys[0] != keys[1] && keys[0] == keys[2]);
    let message = write_v2(&[with_help(&"a".repeat(100)), with_help(&"a".repeat(100))], false);
    let limits = |labels_bytes_max| Limits { labels_bytes_max, ..LIMITS };
    assert!(v2::read(&message, limits(200)).is_ok());
    assert_eq!(v2::read(&message, limits(199)), Err(ReadError::LabelsTooLarge(199)));
}

#[test]
fn invalid_references_affect_one_series_only() {
    let mut message = Vec::new();
    field(4, b"", &mut message);
    for references in [&[0, 0][..], &[0, 1], &[0], &[0x80]] {
        let mut series = Vec::new();
        field(1, references, &mut series);
        field(5, &series, &mut message);
    }
    let request = v2::read(&message, LIMITS);
    // A truncated varint makes the whole message invalid.
    assert!(matches!(request, Err(ReadError::Malformed(_))));
    let request = v2::read(&message[..message.len() - 5], LIMITS).unwrap();
    let labels: Vec<_> = request.series.iter().map(|series| request.labels(series, 9)).collect();
    assert_eq!(labels[0], Ok(vec![("", "")]));
    assert_eq!(labels[1], Err(InvalidLabels::NoSuchSymbol { reference: 1, symbols: 1 }));
    assert_eq!(labels[2], Err(InvalidLabels::OddReferences));
}

#[test]
fn texts_that_are_not_utf_8_affect_one_series_only() {
    let mut message = Vec::new();
    for text in [&b""[..], b"__name__", b"\xff", b"up"] {
        field(4, text, &mut message);
    }
    for (references, help) in [([1, 2], 0), ([1, 3], 0), ([1, 3], 2)] {
        let (mut series, mut metadata) = (Vec::new(), Vec::new());
        field(1, &references, &mut series);
        number(3, help, &mut metadata);
        field(5, &metadata, &mut series);
        field(5, &series, &mut message);
    }
    let request = v2::read(&message, LIMITS).unwrap();
    let labels: Vec<_> = request.series.iter().map(|series| request.labels(series, 9)).collect();
    let not_utf_8 = InvalidLabels::Malformed(Malformed::Utf8);
    assert_eq!(labels[0], Err(not_utf_8.clone()));
    assert_eq!(labels[1], Ok(vec![("__name__", "up")]));
    assert_eq!(request.metadata(&request.series[2]), Err(not_utf_8));
    // Version 1 has metadata apart from series.
    let (mut metadata, mut message) = (Vec::new(), Vec::new());
    field(2, b"up", &mut metadata);
    field(4, b"a\xff", &mut metadata);
    field(3, &metadata, &mut message);
    assert_eq!(v1::read(&message, LIMITS).unwrap().metadata[0].1.help, "a\u{fffd}");
}
