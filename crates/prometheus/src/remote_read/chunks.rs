//! Encodes the response as a stream of frames with compressed chunks (`prometheus.ChunkedReadResponse`).
//!
//! A frame is the length of its message (varint), the message's CRC-32C (big-endian), and the message, which has chunks
//! of one series. A series with many samples has several consecutive frames. There is no end marker: the stream ends
//! with the body.

use gnudi_promql::{Labels, Series};

use super::{put_labels, xor};
use crate::protobuf::{put_bytes, put_message, put_signed, put_varint};

pub const CHUNKS_CONTENT_TYPE: &str = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse";

/// The maximum number of samples of a chunk, as in Prometheus.
const CHUNK_SAMPLES: usize = 120;

/// A frame ends when its chunks have reached this size, which is Prometheus' default.
const FRAME_BYTES: usize = 1 << 20;

/// `prometheus.Chunk.Encoding.XOR`.
const XOR: i64 = 1;

/// Appends the next frame of a series. `written` is the number of its samples in earlier frames, and grows by those of
/// this one. Appends nothing after the last sample. The series of a query must be written sorted by labels.
pub fn write_frame(query_index: usize, series: &Series, written: &mut usize, out: &mut Vec<u8>) {
    let times = series.times_ms[*written..].chunks(CHUNK_SAMPLES);
    let mut chunks = Vec::new();
    for (times, values) in times.zip(series.values[*written..].chunks(CHUNK_SAMPLES)) {
        put_message(2, &mut chunks, |out| {
            put_signed(1, times[0], out);
            put_signed(2, times[times.len() - 1], out);
            put_signed(3, XOR, out);
            put_bytes(4, &xor::encode(times, values), out);
        });
        *written += times.len();
        if chunks.len() >= FRAME_BYTES {
            break;
        }
    }
    if !chunks.is_empty() {
        put_frame(query_index, &series.labels, &chunks, out);
    }
}

fn put_frame(query_index: usize, labels: &Labels, chunks: &[u8], out: &mut Vec<u8>) {
    let mut message = Vec::with_capacity(chunks.len() + 256);
    put_message(1, &mut message, |out| {
        put_labels(1, labels, out);
        out.extend_from_slice(chunks);
    });
    put_signed(2, query_index as i64, &mut message);
    put_varint(message.len() as u64, out);
    out.extend_from_slice(&crc_fast::crc32_iscsi(&message).to_be_bytes());
    out.extend_from_slice(&message);
}

#[cfg(test)]
mod tests {
    use proptest::{collection, prelude::*};

    use super::*;
    use crate::protobuf::{Fields, read_varint};

    type Frame = (Vec<(String, String)>, Vec<(i64, u64)>, i64);

    /// All frames of a series.
    fn frames(query_index: usize, series: &Series) -> Vec<u8> {
        let (mut stream, mut written) = (Vec::new(), 0);
        while written < series.times_ms.len() {
            write_frame(query_index, series, &mut written, &mut stream);
        }
        stream
    }

    /// The next frame of a stream, decoded step by step.
    fn frame(stream: &mut &[u8]) -> Frame {
        let length = read_varint(stream).unwrap() as usize;
        let (checksum, rest) = stream.split_at(4);
        let (message, rest) = rest.split_at(length);
        *stream = rest;
        assert_eq!(checksum, crc_fast::crc32_iscsi(message).to_be_bytes());
        let (mut frame, mut series) = ((Vec::new(), Vec::new(), 0), &b""[..]);
        for field in Fields(message) {
            match field.unwrap() {
                (1, value) => series = value.bytes(1).unwrap(),
                (2, value) => frame.2 = value.signed(2).unwrap(),
                other => panic!("{other:?}"),
            }
        }
        for field in Fields(series) {
            match field.unwrap() {
                (1, label) => {
                    let texts: Vec<String> = Fields(label.bytes(1).unwrap())
                        .map(|text| text.unwrap().1.text(1).unwrap().to_owned())
                        .collect();
                    frame.0.push((texts[0].clone(), texts[1].clone()));
                }
                (2, chunk) => {
                    let (mut bounds, mut samples) = ([0, 0], Vec::new());
                    for field in Fields(chunk.bytes(2).unwrap()) {
                        match field.unwrap() {
                            (at @ (1 | 2), value) => bounds[at as usize - 1] = value.signed(at).unwrap(),
                            (3, value) => assert_eq!(value.signed(3), Ok(XOR)),
                            (_, value) => samples = xor::tests::decode(value.bytes(4).unwrap()),
                        }
                    }
                    assert_eq!((samples[0].0, samples.last().unwrap().0), (bounds[0], bounds[1]));
                    assert!(samples.len() <= CHUNK_SAMPLES);
                    frame.1.extend(samples);
                }
                other => panic!("{other:?}"),
            }
        }
        frame
    }

    proptest! {
        #[test]
        fn encoded_frames_are_decoded(
            samples in collection::btree_map(any::<i64>(), any::<u64>(), 0..500),
            query in 0_usize..300,
            labels in collection::btree_map("[a-z]{1,4}", ".{1,5}", 0..4),
        ) {
            let times_ms = samples.keys().copied().collect();
            let values = samples.values().map(|bits| f64::from_bits(*bits)).collect();
            let series = Series::new(Labels::new(labels.clone()), times_ms, values);
            let stream = frames(query, &series);
            if samples.is_empty() {
                prop_assert!(stream.is_empty());
            } else {
                let mut rest = stream.as_slice();
                let labels: Vec<(String, String)> = labels.into_iter().collect();
                prop_assert_eq!(frame(&mut rest), (labels, samples.into_iter().collect(), query as i64));
                prop_assert!(rest.is_empty());
            }
        }
    }

    #[test]
    fn long_series_have_several_frames() {
        let times_ms: Vec<i64> = (0..300_000).map(|number| number * 15_000 + number % 7).collect();
        let values: Vec<f64> = times_ms.iter().map(|time| (*time as f64).sqrt()).collect();
        let series = Series::new(Labels::new([("__name__", "m")]), times_ms, values);
        let stream = frames(3, &series);
        let (mut rest, mut read, mut count) = (stream.as_slice(), Vec::new(), 0);
        while !rest.is_empty() {
            let before = rest.len();
            let (labels, samples, query) = frame(&mut rest);
            assert_eq!((labels.as_slice(), query), (&[("__name__".to_owned(), "m".to_owned())][..], 3));
            assert!(before - rest.len() < FRAME_BYTES + CHUNK_SAMPLES * 20);
            read.extend(samples);
            count += 1;
        }
        assert!(count > 1);
        let bits = series.values.iter().map(|value| value.to_bits());
        assert_eq!(read, series.times_ms.iter().copied().zip(bits).collect::<Vec<_>>());
    }
}
