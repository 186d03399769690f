//! The layout: names of keys, and the bytes of values.
//!
//! ```text
//! {prefix:in}:r          the cluster's id, the number of groups, how many sacks there are, the log's `identity`
//! {prefix:in:G}:m        what is known of the sacks of group G, which lie on one node: `count` (appends by another are
//!                        refused), `last` (position), `total` (waiting), and for each sack
//!                        nCOUNT:SACK  position of the newest entry, sums up to it (entries, measures, bytes)
//!                        aCOUNT:SACK  position that is acknowledged, sums up to it
//! {prefix:in:G}:z        the sacks by the position of their newest entry
//! {prefix:in:G}:s:COUNT:SACK   the entries: a stream, whose ids are positions
//! {prefix:in:G}:damaged  copies of entries that could not be read
//! ```
//!
//! An entry's payload is a CRC32C, little-endian, and a sack's part of a batch as in the local log. Numbers
//! in values are big-endian doubles, which hold every integer up to 2^53: microseconds until the year 2255.

use std::num::NonZeroU16;

use bytes::Bytes;
use gnudi_model::{Sack, SackCount, SackId};

use crate::{
    clients::redis::Tag,
    incoming::{Batch, Entry, Position, Record, log::entries},
};

/// The layout that this program reads and writes.
pub(super) const FORMAT: u32 = 1;

/// Groups of a new store: one on a single server, so that batches are appended atomically.
pub(super) const GROUPS_OF_ONE_SERVER: u16 = 1;
pub(super) const GROUPS_OF_A_CLUSTER: u16 = 16;

pub(crate) fn root_tag(prefix: &str) -> Tag {
    Tag::new(&format!("{prefix}:in"))
}

pub(crate) fn group_tags(prefix: &str, groups: u16) -> Vec<Tag> {
    (0..groups).map(|group| Tag::new(&format!("{prefix}:in:{group}"))).collect()
}

/// A sack's name within its group.
pub(crate) fn member(sack: Sack) -> String {
    format!("{}:{}", sack.count.get(), sack.id.0)
}

/// The key of a sack's entries.
pub(crate) fn stream(tag: &Tag, sack: Sack) -> Vec<u8> {
    tag.key(format!(":s:{}", member(sack)))
}

pub(crate) fn parse_member(text: &str) -> Option<Sack> {
    let (count, id) = text.split_once(':')?;
    let count = SackCount(count.parse().ok()?);
    let id = SackId(id.parse().ok().filter(|id| *id < count.get())?);
    Some(Sack { count, id })
}

/// A group that was never opened has 0, which counts as 1.
pub(crate) fn parse_count(text: &str) -> Option<SackCount> {
    let count: u16 = text.parse().ok()?;
    Some(SackCount(NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN)))
}

/// The first number of a packed value.
pub(crate) fn first_number(bytes: &[u8]) -> Option<u64> {
    number_at(bytes, 0)
}

pub(crate) fn number_at(bytes: &[u8], index: usize) -> Option<u64> {
    let bytes = bytes.get(8 * index..8 * index + 8)?;
    Some(f64::from_be_bytes(bytes.try_into().ok()?).max(0.0) as u64)
}

/// The payload of entries, each with its batch.
pub(crate) fn payload<'a>(entries: impl Iterator<Item = (&'a Entry, &'a Batch)>) -> Vec<u8> {
    let mut out = vec![0; 4];
    for (entry, batch) in entries {
        entries::put_entry(&mut out, entry, &batch.bytes);
    }
    let checksum = crc_fast::crc32_iscsi(&out[4..]);
    out[..4].copy_from_slice(&checksum.to_le_bytes());
    out
}

/// Adds a payload's records; `None` if it is damaged.
pub(crate) fn records(payload: &Bytes, position: Position, out: &mut Vec<Record>) -> Option<()> {
    let checksum = payload.first_chunk::<4>()?;
    let body = payload.slice(4..);
    if crc_fast::crc32_iscsi(&body) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let before = out.len();
    let decoded = entries::decode(&body, position, out);
    if decoded.is_none() {
        out.truncate(before);
    }
    decoded
}

#[cfg(test)]
mod tests {
    use gnudi_model::MetricId;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    proptest! {
        #[test]
        fn payloads_read_back_and_damage_is_found(
            entries in prop::collection::vec((any::<u128>(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..50)), 1..10),
            damaged: prop::sample::Index,
        ) {
            let mut batch = Batch::default();
            for (id, measures, points) in &entries {
                batch.push(MetricId(Uuid::from_u128(*id)), *measures, |out| out.extend_from_slice(points));
            }
            let written = payload(batch.entries.iter().map(|entry| (entry, &batch)));
            let mut read = Vec::new();
            records(&Bytes::copy_from_slice(&written), Position(7), &mut read).unwrap();
            prop_assert_eq!(read.len(), entries.len());
            for (record, (id, measures, points)) in read.iter().zip(&entries) {
                prop_assert_eq!((record.metric.0.as_u128(), record.measures), (*id, *measures));
                prop_assert_eq!(&record.points[..], &points[..]);
            }
            let mut other = written;
            let at = damaged.index(other.len());
            other[at] ^= 1;
            prop_assert_eq!(records(&Bytes::from(other), Position(7), &mut read), None);
            prop_assert_eq!(read.len(), entries.len());
        }
    }

    #[test]
    fn members_are_sacks() {
        let sack = parse_member("128:127").unwrap();
        assert_eq!(member(sack), "128:127");
        for wrong in ["128:128", "0:0", "128", "a:1", "128:1:2", ""] {
            assert_eq!(parse_member(wrong), None, "{wrong}");
        }
    }
}
