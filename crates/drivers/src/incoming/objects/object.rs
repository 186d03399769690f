//! The bytes of an object of the log, and of the small objects beside it.
//!
//! An object of the log is a sequence of frames (`segments::frame`). The first is its head: its writer and
//! kind. Each other one is a batch, with an item per sack, as in the local log. A frame's location is the
//! [`Position`] of its records: the object's number in the high 48 bits, the frame's index in the low 16; so
//! misplaced bytes are no valid frames. A frame's field for unsynced bytes holds the sack count by which its
//! writer grouped it, 0 in the head.
//!
//! ```text
//! head        tag kind | writer 16 bytes | sequence u64 | count of sacks u16 | format version u16, there in all versions
//! small one   a frame at place 1 with one item: tag kind | format version u16 | what it holds
//! ```

use std::{num::NonZeroU16, ops::Range};

use bytes::Bytes;
use gnudi_model::{SackCount, SackId};
use uuid::Uuid;

use crate::{
    incoming::{IncomingError, Position, Result, log::entries::untag},
    segments::{
        Frame, Location,
        frame::{ALIGNMENT, FRAME_HEADER_BYTES, FrameHeader, ITEM_HEADER_BYTES, items, u64_at},
    },
};

pub const FORMAT_VERSION: u16 = 1;
/// Most frames of one object, without the head.
pub const BATCHES_MAX: usize = u16::MAX as usize;
/// Size of the head.
pub const HEAD_BYTES: usize = FRAME_HEADER_BYTES + (ITEM_HEADER_BYTES + 28).next_multiple_of(ALIGNMENT);

const INDEX_BITS: u32 = 16;

pub fn position(number: u64, index: u16) -> Position {
    Position(number << INDEX_BITS | u64::from(index))
}

/// The last possible position in an object; 0 for number 0.
pub fn last_position(number: u64) -> Position {
    if number == 0 { Position(0) } else { position(number, u16::MAX) }
}

/// The number of the object that contains a position.
pub fn number_of(position: Position) -> u64 {
    position.0 >> INDEX_BITS
}

/// The kind of an object of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogObjectKind {
    /// Measures of one or more requests.
    Measures,
    /// For all later objects the sack count is doubled; has the old count.
    Split(SackCount),
    /// The sacks of half this count are empty.
    Settle(SackCount),
    /// Replaces a lost object, so that nothing else can take its number.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub writer: Uuid,
    /// Numbers the writer's objects; retries of one object keep its sequence.
    pub sequence: u64,
    pub kind: LogObjectKind,
}

/// A batch to be written: its frame, and the sack count by which it is grouped.
pub struct Grouped {
    pub count: SackCount,
    pub frame: Frame,
}

/// Encodes the object with this number.
pub fn encode<'a>(number: u64, head: &Head, batches: impl Iterator<Item = &'a mut Grouped>) -> Bytes {
    let (kind, count) = match head.kind {
        LogObjectKind::Measures => (0, 0),
        LogObjectKind::Split(count) => (1, count.get()),
        LogObjectKind::Settle(count) => (2, count.get()),
        LogObjectKind::Lost => (3, 0),
    };
    let mut frame = Frame::with_capacity(HEAD_BYTES);
    frame.push(kind, |out| {
        out.extend_from_slice(head.writer.as_bytes());
        out.extend_from_slice(&head.sequence.to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    });
    frame.stamp(Location::unpack(position(number, 0).0), 0);
    let mut bytes = frame.bytes().to_vec();
    for (index, batch) in batches.enumerate() {
        assert!(index < BATCHES_MAX, "more batches than an object can number");
        let at = Location::unpack(position(number, index as u16 + 1).0);
        batch.frame.stamp(at, u32::from(batch.count.get()));
        bytes.extend_from_slice(batch.frame.bytes());
    }
    bytes.into()
}

/// A sack's part of a batch in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectExtent {
    pub position: Position,
    /// The count by which the writer grouped; `None` if the frame's header is damaged.
    pub count: Option<SackCount>,
    pub sack: SackId,
    pub measures: u32,
    /// From the object's start to the payload, in bytes.
    pub offset: u32,
    pub length: u32,
}

impl ObjectExtent {
    pub fn payload(&self, object: &Bytes) -> Bytes {
        object.slice(self.offset as usize..(self.offset + self.length) as usize)
    }
}

/// A decoded object, as far as it is valid.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// `None` if it is damaged, or of a newer format.
    pub head: Option<Head>,
    /// The format version, if only newer programs know it: nothing else of the object is read then.
    pub newer: Option<u16>,
    pub parts: Vec<ObjectExtent>,
    /// Byte ranges that are damaged.
    pub damaged: Vec<Range<usize>>,
}

impl Object {
    pub fn parse(number: u64, bytes: &[u8]) -> Self {
        let mut object = Object::default();
        let (mut offset, mut index) = (0, 0);
        while offset < bytes.len() {
            let at = Location::unpack(position(number, index).0);
            let header = FrameHeader::parse(&bytes[offset..], at);
            let header = header.filter(|header| offset + header.length <= bytes.len());
            let end = header.map_or_else(
                || next_frame(number, bytes, offset + ALIGNMENT),
                |header| offset + header.length,
            );
            object.take_frame(&bytes[offset..end], offset, position(number, index), header.as_ref());
            if object.newer.is_some() {
                return object;
            }
            let following = bytes.get(end..).and_then(|rest| index_of_frame(number, rest));
            (offset, index) = (end, following.unwrap_or(index.saturating_add(1)));
        }
        if object.head.is_none() && object.damaged.is_empty() {
            object.damaged.push(0..bytes.len());
        }
        object
    }

    /// Decodes the head only.
    pub fn parse_head(number: u64, bytes: &[u8]) -> Option<Head> {
        let length = FrameHeader::parse(bytes, Location::unpack(position(number, 0).0))?.length;
        Object::parse(number, bytes.get(..length)?).head
    }

    fn take_frame(&mut self, frame: &[u8], start: usize, position: Position, header: Option<&FrameHeader>) {
        let items = items(frame);
        if header.is_none_or(|header| !header.matches(&items)) {
            self.damaged.push(start..start + frame.len());
        }
        for item in items.iter().filter(|item| item.valid) {
            let payload = item.offset as usize + ITEM_HEADER_BYTES;
            let payload = payload..payload + item.length as usize;
            if position.0 as u16 == 0 {
                let head = &frame[payload];
                // Without a valid header it is not certain that these bytes are a head.
                self.newer = newer_version(head).filter(|_| header.is_some());
                self.head = parse_head(item.tag, head);
                continue;
            }
            let (sack, measures) = untag(item.tag);
            let count = header.and_then(|header| NonZeroU16::new(header.unsynced as u16)).map(SackCount);
            let (offset, length) = ((start + payload.start) as u32, item.length);
            self.parts.push(ObjectExtent { position, count, sack, measures, offset, length });
        }
    }
}

/// The offset of this object's next frame at or after `from`; the end if there is none.
fn next_frame(number: u64, bytes: &[u8], from: usize) -> usize {
    let aligned = (from..bytes.len()).step_by(ALIGNMENT);
    aligned.into_iter().find(|at| index_of_frame(number, &bytes[*at..]).is_some()).unwrap_or(bytes.len())
}

/// The index of the frame at the start of `bytes`.
fn index_of_frame(number: u64, bytes: &[u8]) -> Option<u16> {
    let place = Position(u64_at(bytes.get(..FRAME_HEADER_BYTES)?, 8));
    FrameHeader::parse(bytes, Location::unpack(place.0))?;
    (number_of(place) == number).then_some(place.0 as u16)
}

/// The format version in a head, if only newer programs know it.
fn newer_version(payload: &[u8]) -> Option<u16> {
    let version = payload.get(26..28)?;
    let version = u16::from_le_bytes([version[0], version[1]]);
    (version > FORMAT_VERSION).then_some(version)
}

fn parse_head(kind: u64, payload: &[u8]) -> Option<Head> {
    if newer_version(payload).is_some() {
        return None;
    }
    let payload: &[u8; 28] = payload.try_into().ok()?;
    let short = |at: usize| u16::from_le_bytes([payload[at], payload[at + 1]]);
    let count = NonZeroU16::new(short(24)).map(SackCount);
    let kind = match (kind, count) {
        (0, _) => LogObjectKind::Measures,
        (1, Some(count)) => LogObjectKind::Split(count),
        (2, Some(count)) => LogObjectKind::Settle(count),
        (3, _) => LogObjectKind::Lost,
        _ => return None,
    };
    let writer = Uuid::from_slice(&payload[..16]).expect("sixteen bytes");
    Some(Head { writer, sequence: u64_at(payload, 16), kind })
}

/// Encodes a small object with a checksum; `kind` distinguishes them.
pub fn seal(kind: u64, payload: &[u8]) -> Bytes {
    seal_as(FORMAT_VERSION, kind, payload)
}

/// Of a format version.
pub fn seal_as(version: u16, kind: u64, payload: &[u8]) -> Bytes {
    let mut frame = Frame::with_capacity(ITEM_HEADER_BYTES + payload.len() + 8);
    frame.push(kind, |out| {
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(payload);
    });
    frame.stamp(Location::unpack(1), 0);
    Bytes::copy_from_slice(frame.bytes())
}

/// Refuses an object with a format version that only newer programs know: its contents may mean anything.
pub fn check_version(name: &str, version: u16) -> Result<()> {
    if version > FORMAT_VERSION {
        let reason = format!("{name} was written by a newer program (format {version})");
        return Err(IncomingError::Io(reason));
    }
    Ok(())
}

/// The inverse of [`seal`]: format version and contents; `None` if damaged.
pub fn unseal(kind: u64, bytes: &[u8]) -> Option<(u16, &[u8])> {
    let header = FrameHeader::parse(bytes, Location::unpack(1))?;
    let frame = bytes.get(..header.length)?;
    let items = items(frame);
    let [item] = items.as_slice() else { return None };
    if !header.matches(&items) || item.tag != kind {
        return None;
    }
    let (version, payload) = item.payload(frame).split_first_chunk::<2>()?;
    Some((u16::from_le_bytes(*version), payload))
}

#[cfg(test)]
mod tests {
    use gnudi_model::MetricId;
    use proptest::prelude::*;

    use super::*;
    use crate::incoming::{
        Batch,
        log::entries::{decode, encode as encode_batch},
    };

    fn object(number: u64, batches: &[Vec<(u8, Vec<u8>)>], count: SackCount) -> (Head, Bytes) {
        let head = Head { writer: Uuid::from_u128(7), sequence: 3, kind: LogObjectKind::Measures };
        let mut grouped: Vec<Grouped> = batches
            .iter()
            .map(|entries| {
                let mut batch = Batch::default();
                for (metric, points) in entries {
                    let metric = MetricId(Uuid::from_u128((*metric).into()));
                    batch.push(metric, points.len() as u32, |out| out.extend_from_slice(points));
                }
                Grouped { count, frame: encode_batch(&batch, count).0 }
            })
            .collect();
        (head, encode(number, &head, grouped.iter_mut()))
    }

    fn entries() -> impl Strategy<Value = Vec<Vec<(u8, Vec<u8>)>>> {
        let entry = (0_u8..20, prop::collection::vec(any::<u8>(), 0..50));
        prop::collection::vec(prop::collection::vec(entry, 1..6), 1..5)
    }

    fn shown(object: &Object, bytes: &Bytes) -> Vec<(Position, u128, Bytes)> {
        let mut records = Vec::new();
        for part in &object.parts {
            decode(&part.payload(bytes), part.position, &mut records).unwrap();
        }
        records
            .into_iter()
            .map(|record| (record.position, record.metric.0.as_u128(), record.points))
            .collect()
    }

    proptest! {
        #[test]
        fn an_object_reads_back(batches in entries(), number in 1_u64..1 << 40, sacks in 1_u16..9) {
            let count = SackCount(NonZeroU16::new(sacks).unwrap());
            let (head, bytes) = object(number, &batches, count);
            let parsed = Object::parse(number, &bytes);
            prop_assert_eq!(parsed.head, Some(head));
            prop_assert!(parsed.damaged.is_empty());
            prop_assert!(parsed.parts.iter().all(|part| part.count == Some(count)));
            let mut wanted: Vec<_> = batches.iter().enumerate().flat_map(|(index, entries)| {
                entries.iter().map(move |(metric, points)| {
                    (position(number, index as u16 + 1), u128::from(*metric), Bytes::copy_from_slice(points))
                })
            }).collect();
            wanted.sort_by_key(|(position, metric, _)| (*position, *metric % u128::from(sacks)));
            prop_assert_eq!(shown(&parsed, &bytes), wanted);
            let other = Object::parse(number + 1, &bytes);
            prop_assert_eq!(other.head.is_some(), false, "an object in another's place");
            prop_assert!(!other.damaged.is_empty());
        }

        /// One wrong byte is noticed, and costs at most one item of one batch.
        #[test]
        fn damage_stays_where_it_is(batches in entries(), at: prop::sample::Index, flip in 1_u8..) {
            let count = SackCount(NonZeroU16::new(3).unwrap());
            let (_, bytes) = object(9, &batches, count);
            let whole = shown(&Object::parse(9, &bytes), &bytes);
            let mut wrong = bytes.to_vec();
            let at = at.index(wrong.len());
            wrong[at] ^= flip;
            let wrong = Bytes::from(wrong);
            let parsed = Object::parse(9, &wrong);
            let left = shown(&parsed, &wrong);
            if parsed.damaged.is_empty() {
                // Padding between items has no checksum.
                prop_assert_eq!(&left, &whole);
            }
            let mut rest = left.iter().peekable();
            let lost: Vec<_> = whole.iter().filter(|record| rest.next_if_eq(record).is_none()).collect();
            prop_assert_eq!(rest.next(), None, "something that was never written, or out of order");
            prop_assert!(lost.windows(2).all(|pair| {
                pair[0].0 == pair[1].0 && pair[0].1 % 3 == pair[1].1 % 3
            }), "more than one item is lost");
        }

        #[test]
        fn rubbish_is_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Object::parse(1, &bytes).parts.is_empty());
            prop_assert_eq!(unseal(1, &bytes), None);
        }
    }

    #[test]
    fn small_objects_are_sealed() {
        let sealed = seal(5, b"what it holds");
        assert_eq!(unseal(5, &sealed), Some((FORMAT_VERSION, &b"what it holds"[..])));
        assert_eq!(unseal(6, &sealed), None);
        let newer = seal_as(FORMAT_VERSION + 1, 5, b"another form");
        assert_eq!(unseal(5, &newer), Some((FORMAT_VERSION + 1, &b"another form"[..])));
        // No damage looks like a newer version.
        for at in 0..sealed.len() - 1 {
            let mut wrong = sealed.to_vec();
            wrong[at] ^= 1;
            let known = (FORMAT_VERSION, &b"what it holds"[..]);
            assert!(unseal(5, &wrong).is_none_or(|found| found == known), "at {at}");
        }
    }
}
