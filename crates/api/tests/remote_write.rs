//! Prometheus' remote writes: what is written is read, parts of later versions are passed over, and no bytes are too much.

use gnudi_api::prometheus::{
    NoWriteRequest, Sample, Series, inflate, inflated_bytes,
    names::{Labels, place},
    write_request,
};
use proptest::{collection, prelude::*};

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn field(number: u64, payload: &[u8], out: &mut Vec<u8>) {
    varint(number << 3 | 2, out);
    varint(payload.len() as u64, out);
    out.extend_from_slice(payload);
}

/// Fields that no version has yet, of every wire type.
fn unknown(out: &mut Vec<u8>) {
    field(100, b"later", out);
    varint(101 << 3, out);
    varint(u64::MAX, out);
    varint(102 << 3 | 1, out);
    out.extend_from_slice(&[1; 8]);
    varint(103 << 3 | 5, out);
    out.extend_from_slice(&[1; 4]);
}

fn write(all: &[Series<'_>], with_unknown: bool) -> Vec<u8> {
    let mut message = Vec::new();
    for one in all {
        let mut series = Vec::new();
        for (name, value) in &one.labels {
            let mut label = Vec::new();
            field(1, name.as_bytes(), &mut label);
            field(2, value.as_bytes(), &mut label);
            if with_unknown {
                unknown(&mut label);
            }
            field(1, &label, &mut series);
        }
        for sample in &one.samples {
            let mut bytes = vec![1 << 3 | 1];
            bytes.extend_from_slice(&sample.value.to_le_bytes());
            bytes.push(2 << 3);
            varint(sample.timestamp_ms as u64, &mut bytes);
            if with_unknown {
                unknown(&mut bytes);
            }
            field(2, &bytes, &mut series);
        }
        if with_unknown {
            unknown(&mut series);
        }
        field(1, &series, &mut message);
    }
    if with_unknown {
        unknown(&mut message);
    }
    message
}

type Owned = (Vec<(String, String)>, Vec<(f64, i64)>);

fn owned() -> impl Strategy<Value = Vec<Owned>> {
    let labels = collection::vec((".{0,6}", ".{0,6}"), 0..4);
    let samples = collection::vec((-1e300..1e300_f64, any::<i64>()), 0..4);
    collection::vec((labels, samples), 0..4)
}

fn borrowed(all: &[Owned]) -> Vec<Series<'_>> {
    all.iter()
        .map(|(labels, samples)| Series {
            labels: labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
            samples: samples.iter().map(|&(value, timestamp_ms)| Sample { value, timestamp_ms }).collect(),
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_written_is_read(all in owned(), with_unknown: bool) {
        let series = borrowed(&all);
        let message = write(&series, with_unknown);
        prop_assert_eq!(write_request::read(&message, 100), Ok(series));
        // Snappy's own encoder and our bound agree.
        let body = snap::raw::Encoder::new().compress_vec(&message).unwrap();
        prop_assert_eq!(inflated_bytes(&body, message.len()).and_then(|_| inflate(&body)).ok(), Some(message));
    }

    #[test]
    fn a_message_that_is_cut_or_changed_is_read_or_refused(all in owned(), at: prop::sample::Index, byte: u8) {
        let mut message = write(&borrowed(&all), true);
        let at = at.index(message.len());
        message[at] = byte;
        let _ = write_request::read(&message, 100);
        let _ = write_request::read(&message[..at], 100);
    }

    #[test]
    fn no_bytes_are_too_much(bytes in collection::vec(any::<u8>(), 0..60)) {
        let _ = (write_request::read(&bytes, 100), inflated_bytes(&bytes, 1000).and_then(|_| inflate(&bytes)));
    }

    /// Two series get the same place only where their labels are the same.
    #[test]
    fn places_are_as_different_as_labels(
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

#[test]
fn there_is_a_bound_on_samples_and_labels() {
    let series =
        Series { labels: vec![("a", "b"); 10], samples: vec![Sample { value: 1.0, timestamp_ms: 1 }; 10] };
    let message = write(&[series], false);
    assert!(write_request::read(&message, 10).is_ok());
    assert_eq!(write_request::read(&message, 9), Err(NoWriteRequest::TooManySamples(9)));
    let labels = write(&[Series { labels: vec![("", ""); 65], samples: Vec::new() }], false);
    assert_eq!(write_request::read(&labels, 1), Err(NoWriteRequest::TooManyLabels(64)));
}
