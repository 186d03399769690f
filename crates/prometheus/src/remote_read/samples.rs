//! Encodes the response as one message with all samples (`prometheus.ReadResponse`).

use gnudi_promql::Series;

use super::put_labels;
use crate::protobuf::{put_double, put_message, put_signed};

pub const SAMPLES_CONTENT_TYPE: &str = "application/x-protobuf";
pub const SAMPLES_CONTENT_ENCODING: &str = "snappy";

/// Encodes the series of each query, in the order of the queries, and compresses them with Snappy.
pub fn encode_samples(results: &[Vec<Series>]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(&message(results)).expect("an answer has less than four gigabytes")
}

fn message(results: &[Vec<Series>]) -> Vec<u8> {
    let mut out = Vec::new();
    for result in results {
        put_message(1, &mut out, |out| put_result(result, out));
    }
    out
}

/// Appends series as a query's result, which is also a message of remote write 1.0 (`prometheus.WriteRequest`).
pub fn put_result(result: &[Series], out: &mut Vec<u8>) {
    for series in result {
        put_message(1, out, |out| put_series(series, out));
    }
}

fn put_series(series: &Series, out: &mut Vec<u8>) {
    put_labels(1, &series.labels, out);
    for (time, value) in series.times_ms.iter().zip(&series.values) {
        put_message(2, out, |out| {
            put_double(1, *value, out);
            put_signed(2, *time, out);
        });
    }
}

#[cfg(test)]
mod tests {
    use gnudi_promql::Labels;
    use proptest::{collection, prelude::*};

    use super::*;
    use crate::remote_write::{Limits, v1};

    fn series() -> impl Strategy<Value = Series> {
        let labels = collection::btree_map("[a-z]{1,4}", ".{1,5}", 0..4);
        let samples = collection::btree_map(any::<i64>(), any::<u64>(), 0..9);
        (labels, samples).prop_map(|(labels, samples)| {
            let times_ms = samples.keys().copied().collect();
            Series::new(Labels::new(labels), times_ms, samples.into_values().map(f64::from_bits).collect())
        })
    }

    proptest! {
        /// A query's result is encoded like a message of remote write 1.0, so its decoder is used.
        #[test]
        fn encoded_series_are_decoded(results in collection::vec(collection::vec(series(), 0..4), 0..3)) {
            let body = snap::raw::Decoder::new().decompress_vec(&encode_samples(&results)).unwrap();
            let limits = Limits { samples_max: 1000, labels_bytes_max: 1000 };
            let read: Vec<&[u8]> = crate::protobuf::Fields(&body).map(|field| field.unwrap().1.bytes(1).unwrap()).collect();
            prop_assert_eq!(read.len(), results.len());
            for (message, result) in read.into_iter().zip(&results) {
                let read = v1::read(message, limits).unwrap();
                prop_assert_eq!(read.series.len(), result.len());
                for (one, series) in read.series.iter().zip(result) {
                    prop_assert_eq!(read.labels(one, 10).unwrap(), series.labels.iter().collect::<Vec<_>>());
                    let samples: Vec<(i64, u64)> =
                        read.samples(one).iter().map(|sample| (sample.timestamp_ms, sample.value.to_bits())).collect();
                    let bits = series.values.iter().map(|value| value.to_bits());
                    prop_assert_eq!(samples, series.times_ms.iter().copied().zip(bits).collect::<Vec<_>>());
                }
            }
        }
    }
}
