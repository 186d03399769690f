//! An entry of a table: one value and its key.
//!
//! ```text
//! 0 magic u16 | 2 kind u16 | 4 value's length u32 | 8 key 40 bytes | 48 CRC32C of the value u32
//! 52 CRC32C of bytes 0..52 u32 | 56 value, zeros up to a multiple of 8
//! ```
//!
//! Header and value have a checksum each: the key of a damaged value is known, and behind a damaged header
//! the next entry is found by searching for a valid header.

use crate::{
    aggregates::key::{KEY_BYTES, Key},
    segments::frame::{ALIGNMENT, u32_at},
};

pub const HEADER_BYTES: usize = 56;

const MAGIC: u16 = u16::from_le_bytes(*b"gE");

/// The type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Value,
    /// Deleted: hides entries of older runs.
    Tombstone,
    /// The value was found damaged when it was copied. An older run's value must not replace it.
    Damaged,
}

impl Kind {
    pub fn code(self) -> u16 {
        match self {
            Kind::Value => 1,
            Kind::Tombstone => 2,
            Kind::Damaged => 3,
        }
    }

    pub fn of_code(code: u16) -> Option<Self> {
        [Kind::Value, Kind::Tombstone, Kind::Damaged].into_iter().find(|kind| kind.code() == code)
    }
}

/// A valid entry header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    pub key: Key,
    /// Of the value, in bytes.
    pub length: u32,
    value_checksum: u32,
}

impl Header {
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        if bytes[..2] != MAGIC.to_le_bytes() || u32_at(bytes, 52) != crc_fast::crc32_iscsi(&bytes[..52]) {
            return None;
        }
        let key = bytes[8..8 + KEY_BYTES].try_into().expect("forty bytes");
        Some(Self {
            kind: Kind::of_code(u16::from_le_bytes([bytes[2], bytes[3]]))?,
            key: Key::from_bytes(key),
            length: u32_at(bytes, 4),
            value_checksum: u32_at(bytes, 48),
        })
    }

    /// Of the whole entry, padding included.
    pub fn entry_bytes(&self) -> usize {
        entry_bytes(self.length as usize)
    }

    pub fn fits(&self, value: &[u8]) -> bool {
        value.len() == self.length as usize && crc_fast::crc32_iscsi(value) == self.value_checksum
    }
}

/// Of an entry with a value of this length, padding included.
pub fn entry_bytes(length: usize) -> usize {
    HEADER_BYTES + length.next_multiple_of(ALIGNMENT)
}

/// Appends an entry.
pub fn put(out: &mut Vec<u8>, key: &Key, kind: Kind, value: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out.extend_from_slice(&kind.code().to_le_bytes());
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(key.bytes());
    out.extend_from_slice(&crc_fast::crc32_iscsi(value).to_le_bytes());
    let checksum = crc_fast::crc32_iscsi(&out[start..]);
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
}

/// A part of a stretch of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// An entry: where it starts, and its header.
    Entry(usize, Header),
    /// Bytes `start..end` without a valid entry.
    Gap(usize, usize),
}

/// Iterates over the entries in `bytes`, which start with one; skips gaps to the next valid header.
pub fn walk(bytes: &[u8]) -> impl Iterator<Item = Piece> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= bytes.len() {
            return None;
        }
        let start = at;
        if let Some(header) = whole(bytes, start) {
            at += header.entry_bytes();
            return Some(Piece::Entry(start, header));
        }
        while at < bytes.len() && whole(bytes, at).is_none() {
            at += ALIGNMENT;
        }
        at = at.min(bytes.len());
        Some(Piece::Gap(start, at))
    })
}

/// The header of an entry that ends within `bytes`.
fn whole(bytes: &[u8], at: usize) -> Option<Header> {
    let rest = &bytes[at..];
    Header::parse(rest).filter(|header| header.entry_bytes() <= rest.len())
}

/// Sets the checksums of an entry that begins here; returns its length. `None` if there is no room for one.
#[cfg(any(test, fuzzing))]
pub fn set_checksums(bytes: &mut [u8]) -> Option<usize> {
    let length = u32_at(bytes.first_chunk::<HEADER_BYTES>()?, 4) as usize;
    if bytes[..2] != MAGIC.to_le_bytes() || bytes.len() - HEADER_BYTES < length {
        return None;
    }
    let checksum = crc_fast::crc32_iscsi(&bytes[HEADER_BYTES..][..length]);
    bytes[48..52].copy_from_slice(&checksum.to_le_bytes());
    let checksum = crc_fast::crc32_iscsi(&bytes[..52]);
    bytes[52..56].copy_from_slice(&checksum.to_le_bytes());
    Some(entry_bytes(length)).filter(|length| *length <= bytes.len())
}

#[cfg(test)]
mod tests {
    use gnudi_model::MetricId;
    use uuid::Uuid;

    use super::*;

    fn key(id: u128) -> Key {
        Key::head(MetricId(Uuid::from_u128(id)))
    }

    fn three() -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, &key(1), Kind::Value, b"one");
        put(&mut bytes, &key(2), Kind::Tombstone, b"");
        put(&mut bytes, &key(3), Kind::Value, &[3; 100]);
        bytes
    }

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let entry = |piece| match piece {
            Piece::Entry(_, header) => Some(header.key),
            Piece::Gap(..) => None,
        };
        walk(bytes).filter_map(entry).collect()
    }

    #[test]
    fn entries_read_back() {
        let bytes = three();
        let pieces: Vec<Piece> = walk(&bytes).collect();
        assert_eq!(pieces.len(), 3);
        let Piece::Entry(start, header) = pieces[2] else { panic!("{pieces:?}") };
        assert_eq!((header.kind, header.key, header.length), (Kind::Value, key(3), 100));
        assert!(header.fits(&bytes[start + HEADER_BYTES..start + HEADER_BYTES + 100]));
        assert!(!header.fits(&[4; 100]));
        assert!(matches!(pieces[1], Piece::Entry(64, Header { kind: Kind::Tombstone, .. })));
    }

    #[test]
    fn every_flipped_bit_hurts_one_entry_at_most() {
        let bytes = three();
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let found = keys(&bytes);
            let in_header = (0..56).contains(&(bit / 8)) || (64..176).contains(&(bit / 8));
            assert_eq!(found.len(), if in_header { 2 } else { 3 }, "bit {bit}");
        }
    }
}
