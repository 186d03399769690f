//! Keys and checksummed values for the compared stores.

use bytes::Bytes;
use gnudi_drivers::aggregates::{BlockKey, StoreError};
use gnudi_model::{MetricId, Timespan, Timestamp};

/// Sorts bytewise by metric, granularity, last and first bucket: the numbers are big-endian, with the sign bit flipped.
pub fn encode(key: &BlockKey) -> [u8; 40] {
    let mut out = [0; 40];
    out[..16].copy_from_slice(key.metric.0.as_bytes());
    for (at, number) in [key.granularity.0, key.last.0, key.first.0].into_iter().enumerate() {
        out[16 + at * 8..24 + at * 8].copy_from_slice(&(number as u64 ^ 1 << 63).to_be_bytes());
    }
    out
}

/// The inverse of [`encode`].
pub fn decode(bytes: &[u8]) -> BlockKey {
    let number = |at: usize| {
        let bytes: [u8; 8] = bytes[16 + at * 8..24 + at * 8].try_into().unwrap();
        (u64::from_be_bytes(bytes) ^ 1 << 63) as i64
    };
    BlockKey {
        metric: MetricId(uuid::Uuid::from_bytes(bytes[..16].try_into().unwrap())),
        granularity: Timespan(number(0)),
        last: Timestamp(number(1)),
        first: Timestamp(number(2)),
    }
}

/// Prepends a checksum to a value.
pub fn seal(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + bytes.len());
    out.extend_from_slice(&crc_fast::crc32_iscsi(bytes).to_le_bytes());
    out.extend_from_slice(bytes);
    out
}

/// Verifies and removes the checksum.
pub fn open(sealed: &[u8]) -> Result<Bytes, StoreError> {
    match sealed.split_first_chunk::<4>() {
        Some((crc, bytes)) if crc_fast::crc32_iscsi(bytes).to_le_bytes() == *crc => {
            Ok(Bytes::copy_from_slice(bytes))
        }
        _ => Err(StoreError::Damaged("checksum".into())),
    }
}
