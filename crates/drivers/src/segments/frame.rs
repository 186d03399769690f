//! The bytes of a frame: the unit that is written, recovered or lost as a whole.
//!
//! A frame is a header and items. Each item has its own checksum, so it can be read alone, and damage to one
//! leaves the others readable. The header's checksum covers the items' checksums, and the header holds the
//! frame's own location, so that remains of an earlier use of a recycled file never pass as frames. Numbers
//! are little-endian.
//!
//! ```text
//! header  0 magic u32 | 4 body length u32 | 8 position u64 | 16 bytes since the last sync u32 | 20 item count u32
//!         24 CRC32C of the items' checksums u32 | 28 CRC32C of bytes 0..28 u32
//! item    0 CRC32C of bytes 4.. u32 | 4 payload length u32 | 8 tag u64 | 16 payload, zeros up to a multiple of 8
//! ```

use bytes::Bytes;

use super::{Location, checksums::Checksums};

pub const FRAME_HEADER_BYTES: usize = 32;
pub const ITEM_HEADER_BYTES: usize = 16;
/// Frames start at multiples of this: the search for the next frame behind damage is eight times cheaper.
pub const ALIGNMENT: usize = 8;
/// The longest frame. Callers have lower limits of their own.
pub const FRAME_BYTES_MAX: usize = 1 << 30;

const MAGIC: u32 = u32::from_le_bytes(*b"gnuF");

/// A frame being built or waiting to be written: header space, then items.
#[derive(Debug)]
pub struct Frame {
    bytes: Vec<u8>,
    items: u32,
    checksums: Vec<u8>,
}

impl Frame {
    /// An empty frame with room for `body_bytes` of items.
    pub fn with_capacity(body_bytes: usize) -> Self {
        let mut bytes = Vec::with_capacity(FRAME_HEADER_BYTES + body_bytes);
        bytes.resize(FRAME_HEADER_BYTES, 0);
        Self { bytes, items: 0, checksums: Vec::new() }
    }

    /// Adds an item, whose bytes `payload` appends. Returns its offset in the frame and its payload's length.
    pub fn push(&mut self, tag: u64, payload: impl FnOnce(&mut Vec<u8>)) -> (u32, u32) {
        let start = self.bytes.len();
        self.bytes.resize(start + ITEM_HEADER_BYTES, 0);
        payload(&mut self.bytes);
        let length = (self.bytes.len() - start - ITEM_HEADER_BYTES) as u32;
        self.bytes[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
        self.bytes[start + 8..start + 16].copy_from_slice(&tag.to_le_bytes());
        let checksum = crc_fast::crc32_iscsi(&self.bytes[start + 4..]).to_le_bytes();
        self.bytes[start..start + 4].copy_from_slice(&checksum);
        self.checksums.extend_from_slice(&checksum);
        self.items += 1;
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        (start as u32, length)
    }

    /// In bytes, header included.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn into_bytes(self) -> Bytes {
        self.bytes.into()
    }

    /// Fills in the header, to be written at `at`, with `unsynced` bytes before it not known to be durable.
    pub fn stamp(&mut self, at: Location, unsynced: u32) {
        assert!(self.bytes.len() <= FRAME_BYTES_MAX, "a frame of {} bytes", self.bytes.len());
        let body = (self.bytes.len() - FRAME_HEADER_BYTES) as u32;
        let header = &mut self.bytes[..FRAME_HEADER_BYTES];
        header[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        header[4..8].copy_from_slice(&body.to_le_bytes());
        header[8..16].copy_from_slice(&at.pack().to_le_bytes());
        header[16..20].copy_from_slice(&unsynced.to_le_bytes());
        header[20..24].copy_from_slice(&self.items.to_le_bytes());
        header[24..28].copy_from_slice(&crc_fast::crc32_iscsi(&self.checksums).to_le_bytes());
        let checksum = crc_fast::crc32_iscsi(&header[..28]).to_le_bytes();
        header[28..32].copy_from_slice(&checksum);
    }
}

/// A frame without items that covers `length` bytes: only its header means anything.
pub fn filler(length: usize) -> Frame {
    let mut frame = Frame::with_capacity(length);
    frame.bytes.resize(length.max(FRAME_HEADER_BYTES), 0);
    frame
}

/// A frame's header, read back and validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of the whole frame, header included.
    pub length: usize,
    /// How many bytes before the frame were not known to be durable when it was written.
    pub unsynced: u32,
    pub items: u32,
    items_checksum: u32,
}

impl FrameHeader {
    /// `None` if the bytes are no valid header of a frame at `at`.
    pub fn parse(bytes: &[u8], at: Location) -> Option<Self> {
        Self::parse_anywhere(bytes).filter(|(found, _)| *found == at).map(|(_, header)| header)
    }

    /// A valid header, and the place that it was written for.
    fn parse_anywhere(bytes: &[u8]) -> Option<(Location, Self)> {
        let bytes: &[u8; FRAME_HEADER_BYTES] = bytes.first_chunk()?;
        let right = u32_at(bytes, 0) == MAGIC && u32_at(bytes, 28) == crc_fast::crc32_iscsi(&bytes[..28]);
        let length = FRAME_HEADER_BYTES + u32_at(bytes, 4) as usize;
        let header = || Self {
            length,
            unsynced: u32_at(bytes, 16),
            items: u32_at(bytes, 20),
            items_checksum: u32_at(bytes, 24),
        };
        (right && length <= FRAME_BYTES_MAX).then(|| (Location::unpack(u64_at(bytes, 8)), header()))
    }

    /// Whether all items are whole and are those that the header was written with.
    pub fn matches(&self, items: &[ItemView]) -> bool {
        let checksums: Vec<u8> =
            items.iter().filter(|item| item.valid).flat_map(|item| item.checksum.to_le_bytes()).collect();
        checksums.len() == 4 * self.items as usize
            && items.len() == self.items as usize
            && crc_fast::crc32_iscsi(&checksums) == self.items_checksum
    }

    /// Those of the `items` found in the damaged `frame` at `at` that are whole. Pages that the disk did not write have whole
    /// items of an earlier use of the file: where the frame shows that, items behind the first damage are left out.
    pub fn own_items(&self, frame: &[u8], at: Location, items: Vec<ItemView>) -> Vec<ItemView> {
        let first_damaged = items.iter().position(|item| !item.valid);
        let is_cut = frame.len() < self.length;
        let has_others = items.len() > self.items as usize
            || first_damaged.is_none() && !is_cut
            || has_foreign_header(frame, at);
        let certain = if has_others { first_damaged.unwrap_or(0) } else { items.len() };
        items.into_iter().take(certain).filter(|item| item.valid).collect()
    }
}

/// Whether the bytes at `at` have a valid header of a frame of another place: what an earlier use of the file left there.
pub fn has_foreign_header(bytes: &[u8], at: Location) -> bool {
    let is_foreign = |offset: usize| {
        let here = Location { offset: at.offset + offset as u32, ..at };
        FrameHeader::parse_anywhere(&bytes[offset..]).is_some_and(|(found, _)| found != here)
    };
    (0..bytes.len()).step_by(ALIGNMENT).any(is_foreign)
}

/// An item in a frame's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemView {
    pub tag: u64,
    /// From the frame's start to the item's, in bytes.
    pub offset: u32,
    /// Of the payload, in bytes.
    pub length: u32,
    /// Whether its checksum matches.
    pub valid: bool,
    checksum: u32,
}

/// The items of `frame` (header included). Behind a damaged one it searches for the next valid one, in time in
/// proportion to the frame, whatever lengths the damaged bytes claim.
pub fn items(frame: &[u8]) -> Vec<ItemView> {
    let mut checksums = Checksums::new(frame);
    let (mut items, mut offset) = (Vec::new(), FRAME_HEADER_BYTES);
    while offset < frame.len() {
        let item = item_at(frame, offset, &checksums);
        let item =
            item.unwrap_or(ItemView { tag: 0, offset: offset as u32, length: 0, valid: false, checksum: 0 });
        items.push(item);
        offset = if item.valid {
            item.end()
        } else {
            // Its length field may be what is damaged.
            checksums.record();
            let is_valid = |at: &usize| item_at(frame, *at, &checksums).is_some_and(|item| item.valid);
            (offset + ALIGNMENT..frame.len()).step_by(ALIGNMENT).find(is_valid).unwrap_or(frame.len())
        };
    }
    items
}

/// The item at an offset, valid or not; `None` if it would end beyond the frame.
fn item_at(frame: &[u8], offset: usize, checksums: &Checksums<'_>) -> Option<ItemView> {
    let header = frame.get(offset..offset + ITEM_HEADER_BYTES)?;
    let length = u32_at(header, 4);
    let end = offset + ITEM_HEADER_BYTES + length as usize;
    if end > frame.len() {
        return None;
    }
    let checksum = u32_at(header, 0);
    let valid = checksum == checksums.of(offset + 4..end);
    Some(ItemView { tag: u64_at(header, 8), offset: offset as u32, length, valid, checksum })
}

impl ItemView {
    /// The payload in the bytes of the item's frame (header included).
    pub fn payload<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let start = self.offset as usize + ITEM_HEADER_BYTES;
        &frame[start..start + self.length as usize]
    }

    /// Where the next item starts.
    pub fn end(&self) -> usize {
        self.offset as usize + (ITEM_HEADER_BYTES + self.length as usize).next_multiple_of(ALIGNMENT)
    }
}

/// Payload and tag of an item read alone (header included in `item`); `None` if it is damaged.
pub fn open_item(item: &[u8]) -> Option<(u64, &[u8])> {
    let (header, payload) = item.split_at_checked(ITEM_HEADER_BYTES)?;
    let right =
        u32_at(header, 4) as usize == payload.len() && u32_at(header, 0) == crc_fast::crc32_iscsi(&item[4..]);
    right.then(|| (u64_at(header, 8), payload))
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Whether bytes could start a frame: checks the magic number only.
pub(super) fn may_start(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::segments::checksums::tests::READ_BYTES;

    fn frame(payloads: &[&[u8]]) -> Frame {
        let mut frame = Frame::with_capacity(64);
        for (tag, payload) in payloads.iter().enumerate() {
            frame.push(tag as u64, |out| out.extend_from_slice(payload));
        }
        frame
    }

    const AT: Location = Location { segment: 7, offset: 4096 };

    #[test]
    fn a_frame_reads_back_item_by_item() {
        let payloads: [&[u8]; 3] = [b"one", b"", b"a longer payload"];
        let mut frame = frame(&payloads);
        frame.stamp(AT, 24);
        let header = FrameHeader::parse(frame.bytes(), AT).unwrap();
        assert_eq!((header.length, header.unsynced, header.items), (frame.len(), 24, 3));
        let items = items(frame.bytes());
        assert!(header.matches(&items));
        for (item, payload) in items.iter().zip(payloads) {
            let start = item.offset as usize;
            let bytes = &frame.bytes()[start..start + ITEM_HEADER_BYTES + item.length as usize];
            assert_eq!(open_item(bytes), Some((item.tag, payload)));
        }
    }

    #[test]
    fn a_frame_is_only_right_in_its_place() {
        let mut frame = frame(&[b"x"]);
        frame.stamp(AT, 0);
        assert_eq!(FrameHeader::parse(frame.bytes(), Location { segment: 8, ..AT }), None);
        assert_eq!(FrameHeader::parse(frame.bytes(), Location { offset: 4104, ..AT }), None);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let mut frame = frame(&[b"one", b"the second item"]);
        frame.stamp(AT, 0);
        for bit in 0..frame.len() * 8 {
            let mut bytes = frame.bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let whole = FrameHeader::parse(&bytes, AT).is_some_and(|header| header.matches(&items(&bytes)));
            let padding = bit / 8 >= 32 + 16 + 3 && bit / 8 < 32 + 24 || bit / 8 >= frame.len() - 1;
            assert_eq!(whole, padding, "bit {bit}");
        }
    }

    #[test]
    fn damage_to_one_item_leaves_the_others() {
        let payloads: [&[u8]; 4] = [b"one", b"", b"the third item is longer", b"four"];
        let mut frame = frame(&payloads);
        frame.stamp(AT, 0);
        let whole = items(frame.bytes());
        for bit in FRAME_HEADER_BYTES * 8..frame.len() * 8 {
            let mut bytes = frame.bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let found = items(&bytes);
            let left = whole.iter().filter(|item| found.contains(item)).count();
            let valid = found.iter().filter(|item| item.valid).count();
            assert!(left == valid && valid >= 3, "bit {bit}: {found:?}");
        }
    }

    /// Offset and validity of each item, by the search that is slow and obvious.
    fn slow_items(frame: &[u8]) -> Vec<(u32, bool)> {
        let valid_end = |at: usize| {
            let length = u32_at(frame.get(at..at + ITEM_HEADER_BYTES)?, 4) as usize;
            open_item(frame.get(at..at + ITEM_HEADER_BYTES + length)?)?;
            Some(at + (ITEM_HEADER_BYTES + length).next_multiple_of(ALIGNMENT))
        };
        let (mut found, mut offset) = (Vec::new(), FRAME_HEADER_BYTES);
        while offset < frame.len() {
            let end = valid_end(offset);
            found.push((offset as u32, end.is_some()));
            let mut behind = (offset + ALIGNMENT..frame.len()).step_by(ALIGNMENT);
            let next = || behind.find(|at| valid_end(*at).is_some()).unwrap_or(frame.len());
            offset = end.unwrap_or_else(next);
        }
        found
    }

    proptest! {
        #[test]
        fn the_search_finds_what_the_slow_one_finds(
            lengths in prop::collection::vec(prop_oneof![0..50_usize, 0..3_000_usize], 1..12),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            // Payloads whose words are lengths that may fit.
            word in 0..4_000_u32,
        ) {
            let mut frame = Frame::with_capacity(0);
            for (tag, length) in lengths.into_iter().enumerate() {
                frame.push(tag as u64, |out| out.extend(word.to_le_bytes().into_iter().cycle().take(length)));
            }
            let mut bytes = frame.bytes().to_vec();
            for (at, change) in damage {
                let at = at.index(bytes.len());
                bytes[at] ^= change;
            }
            let found: Vec<(u32, bool)> =
                items(&bytes).iter().map(|item| (item.offset, item.valid)).collect();
            prop_assert_eq!(found, slow_items(&bytes));
        }
    }

    /// Each word of the damaged item claims an item of nearly half of the frame.
    #[test]
    fn the_search_reads_no_more_than_in_proportion_to_the_frame() {
        let claims = 100_000_u32.to_le_bytes().repeat(50_000);
        let mut frame = frame(&[&claims, b"found"]);
        frame.bytes[FRAME_HEADER_BYTES] ^= 1;
        let before = READ_BYTES.get();
        let found = items(frame.bytes());
        assert_eq!(found.iter().map(|item| item.valid).collect::<Vec<_>>(), [false, true]);
        let read = READ_BYTES.get() - before;
        assert!(read < 70 * frame.len(), "{read} bytes for a frame of {}", frame.len());
    }

    #[test]
    fn items_of_an_earlier_use_of_the_file_do_not_fit_a_new_header() {
        let (mut old, mut new) = (frame(&[b"old"]), frame(&[b"new"]));
        old.stamp(AT, 0);
        new.stamp(AT, 0);
        let torn = [&new.bytes()[..FRAME_HEADER_BYTES], &old.bytes()[FRAME_HEADER_BYTES..]].concat();
        let header = FrameHeader::parse(&torn, AT).unwrap();
        assert!(!header.matches(&items(&torn)));
        assert_eq!(header.own_items(&torn, AT, items(&torn)), []);
    }
}
