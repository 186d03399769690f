//! Remote read: decodes the request and encodes both kinds of responses.
//!
//! `request` decodes the request. `samples` encodes a response with plain samples, `chunks` a stream of compressed
//! chunks (`xor`). Selecting the series and limiting their samples is left to the caller.

mod chunks;
mod request;
mod samples;
mod xor;

pub use chunks::{CHUNKS_CONTENT_TYPE, write_frame};
pub use request::{LabelMatcher, Query, ReadRequest, ReadRequestError, ResponseKind, read};
pub use samples::{SAMPLES_CONTENT_ENCODING, SAMPLES_CONTENT_TYPE, encode_samples, put_result};

use gnudi_promql::Labels;

use crate::protobuf::{put_bytes, put_message};

/// Appends the labels of a series, sorted by name, each as a field of this number.
fn put_labels(field: u64, labels: &Labels, out: &mut Vec<u8>) {
    for (name, value) in labels.iter() {
        put_message(field, out, |out| {
            put_bytes(1, name.as_bytes(), out);
            put_bytes(2, value.as_bytes(), out);
        });
    }
}
