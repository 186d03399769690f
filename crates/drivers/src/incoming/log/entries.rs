//! The bytes of a sack's part of a batch: the payload of an item of the log.
//!
//! ```text
//! entry  metric id 16 bytes | measure count varint | points' length varint | points
//! ```
//!
//! The item's tag holds the sack in its low 16 bits and the sum of the measure counts in the high 32.

use bytes::Bytes;
use gnudi_model::{MetricId, SackCount, SackId};
use uuid::Uuid;

use crate::{
    incoming::{Batch, Entry, Position, Record},
    segments::{Frame, ItemView},
};

/// An entry's overhead (id, counts, padding), for sizing buffers.
const ENTRY_OVERHEAD_BYTES: usize = 40;

/// A sack's part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SackExtent {
    pub sack: SackId,
    pub measures: u32,
    /// From the frame's start to the item's, in bytes.
    pub offset: u32,
    /// Of the item's payload, in bytes.
    pub length: u32,
}

impl SackExtent {
    /// Decodes an item's tag.
    pub fn of_item(item: &ItemView) -> Self {
        let (sack, measures) = untag(item.tag);
        Self { sack, measures, offset: item.offset, length: item.length }
    }
}

/// The item's tag for a sack's part.
pub fn tag(sack: SackId, measures: u32) -> u64 {
    u64::from(sack.0) | u64::from(measures) << 32
}

/// The inverse of [`tag`].
pub fn untag(tag: u64) -> (SackId, u32) {
    (SackId(tag as u16), (tag >> 32) as u32)
}

/// Encodes a batch as a frame with an item per sack, entries in the batch's order.
pub fn encode(batch: &Batch, sacks: SackCount) -> (Frame, Vec<SackExtent>) {
    let mut frame = Frame::with_capacity(batch.bytes.len() + batch.entries.len() * ENTRY_OVERHEAD_BYTES);
    let mut order: Vec<(SackId, &Entry)> =
        batch.entries.iter().map(|entry| (sacks.sack_of(entry.metric), entry)).collect();
    order.sort_by_key(|(sack, _)| *sack);
    let parts = order
        .chunk_by(|(left, _), (right, _)| left == right)
        .map(|chunk| {
            let sack = chunk[0].0;
            let measures = chunk.iter().map(|(_, entry)| entry.measures).sum();
            let (offset, length) = frame.push(tag(sack, measures), |out| {
                for (_, entry) in chunk {
                    put_entry(out, entry, &batch.bytes);
                }
            });
            SackExtent { sack, measures, offset, length }
        })
        .collect();
    (frame, parts)
}

/// Appends an entry whose points are in `bytes`.
pub fn put_entry(out: &mut Vec<u8>, entry: &Entry, bytes: &[u8]) {
    out.extend_from_slice(entry.metric.0.as_bytes());
    put_varint(out, entry.measures);
    put_varint(out, (entry.end - entry.start) as u32);
    out.extend_from_slice(&bytes[entry.start..entry.end]);
}

/// Decodes a payload and adds its records; `None` if it is invalid.
pub fn decode(payload: &Bytes, position: Position, records: &mut Vec<Record>) -> Option<()> {
    let mut rest = &payload[..];
    while !rest.is_empty() {
        let (id, tail) = rest.split_first_chunk::<16>()?;
        rest = tail;
        let measures = take_varint(&mut rest)?;
        let length = take_varint(&mut rest)? as usize;
        let (points, tail) = rest.split_at_checked(length)?;
        rest = tail;
        let points = payload.slice_ref(points);
        records.push(Record { position, metric: MetricId(Uuid::from_bytes(*id)), measures, points });
    }
    Some(())
}

/// A payload of this length without measures, as padding; `None` if there is none. Has one entry with the nil
/// metric, or no entry.
pub fn padding(length: usize) -> Option<Vec<u8>> {
    const VARINT_BYTES: usize = 5;
    let mut out = vec![0; length];
    if length > 0 {
        // Nil metric, no measures; the rest are its points, whose length is a padded varint.
        let points = u32::try_from(length.checked_sub(16 + 1 + VARINT_BYTES)?).ok()?;
        for (index, byte) in out[17..17 + VARINT_BYTES].iter_mut().enumerate() {
            let is_last = index + 1 == VARINT_BYTES;
            *byte = (points >> (7 * index)) as u8 & 0x7f | u8::from(!is_last) << 7;
        }
    }
    Some(out)
}

fn put_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take_varint(rest: &mut &[u8]) -> Option<u32> {
    let mut value = 0u64;
    for shift in (0..35).step_by(7) {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return u32::try_from(value).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use proptest::prelude::*;

    use super::*;
    use crate::segments::frame::{ITEM_HEADER_BYTES, open_item};

    #[test]
    fn a_part_without_measures_has_any_length() {
        for length in (0..2000).chain([100_000]) {
            let Some(bytes) = padding(length) else {
                assert!((1..22).contains(&length), "{length}");
                continue;
            };
            let mut records = Vec::new();
            decode(&bytes.into(), Position(1), &mut records).unwrap();
            assert!(records.iter().all(|record| record.measures == 0 && record.metric.0.is_nil()));
        }
    }

    proptest! {
        #[test]
        fn a_batch_reads_back_sack_by_sack(
            entries in prop::collection::vec((0u128..40, 0u32..70_000, prop::collection::vec(any::<u8>(), 0..300)), 0..40),
            sacks in 1u16..9,
        ) {
            let sacks = SackCount(NonZeroU16::new(sacks).unwrap());
            let mut batch = Batch::default();
            for (id, measures, points) in &entries {
                batch.push(MetricId(Uuid::from_u128(*id)), *measures, |out| out.extend_from_slice(points));
            }
            let (frame, parts) = encode(&batch, sacks);
            let mut sacks_seen = Vec::new();
            for part in parts {
                let start = part.offset as usize;
                let item = &frame.bytes()[start..start + ITEM_HEADER_BYTES + part.length as usize];
                let (tag, payload) = open_item(item).unwrap();
                prop_assert_eq!(untag(tag), (part.sack, part.measures));
                let mut records = Vec::new();
                decode(&Bytes::copy_from_slice(payload), Position(9), &mut records).unwrap();
                let wanted: Vec<Record> = entries
                    .iter()
                    .map(|(id, measures, points)| Record {
                        position: Position(9),
                        metric: MetricId(Uuid::from_u128(*id)),
                        measures: *measures,
                        points: Bytes::copy_from_slice(points),
                    })
                    .filter(|record| sacks.sack_of(record.metric) == part.sack)
                    .collect();
                let measures: u64 = wanted.iter().map(|record| u64::from(record.measures)).sum();
                prop_assert_eq!(u64::from(part.measures), measures);
                prop_assert_eq!(records, wanted);
                sacks_seen.push(part.sack);
            }
            sacks_seen.dedup();
            let mut sacks_wanted: Vec<SackId> =
                entries.iter().map(|(id, ..)| sacks.sack_of(MetricId(Uuid::from_u128(*id)))).collect();
            sacks_wanted.sort_unstable();
            sacks_wanted.dedup();
            prop_assert_eq!(sacks_seen, sacks_wanted);
        }

        #[test]
        fn rubbish_is_no_panic(payload in prop::collection::vec(any::<u8>(), 0..200)) {
            decode(&Bytes::from(payload), Position(1), &mut Vec::new());
        }
    }
}
