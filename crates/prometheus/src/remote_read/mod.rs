//! Remote read: the request as protobuf, and both forms of the answer.
//!
//! `request` reads, `samples` answers with samples as they are, `chunks` with a stream of compressed chunks (`xor`). What is read, and how
//! much of it, the caller decides.

mod chunks;
mod request;
mod samples;
mod xor;

pub use chunks::{CHUNKS_CONTENT_TYPE, write_frames};
pub use request::{LabelMatcher, MatcherKind, Query, ReadRequest, ReadRequestError, ResponseKind, read};
pub use samples::{SAMPLES_CONTENT_ENCODING, SAMPLES_CONTENT_TYPE, encode_samples};

use gnudi_promql::Labels;

use crate::protobuf::{put_bytes, put_message};

/// The labels of a series, sorted by name, as fields of this number.
fn put_labels(field: u64, labels: &Labels, out: &mut Vec<u8>) {
    for (name, value) in labels.iter() {
        put_message(field, out, |out| {
            put_bytes(1, name.as_bytes(), out);
            put_bytes(2, value.as_bytes(), out);
        });
    }
}
