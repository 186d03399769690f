//! Segments: immutable objects with the entries of one write or merge.
//!
//! ```text
//! heads   entries of heads and deletion marks, see `entry`, in the order of their keys
//! blocks  entries of blocks, likewise
//! index   for every entry, in the same order: key 40 bytes | offset u32 | value's length u32 | kind u32
//! ```
//!
//! Heads are adjacent, so that one range request reads those of a whole pass. The manifest records where each
//! part ends, and the index's checksum. A damaged index is rebuilt from the entries, which have checksums of
//! their own.

use std::{collections::BTreeMap, ops::Range};

use bytes::Bytes;
use gnudi_model::MetricId;

use super::manifest::SegmentEntry;
use crate::{
    aggregates::{
        BlockRange,
        entry::{self, Header, Kind, Piece},
        key::{KEY_BYTES, Key},
    },
    segments::frame::u32_at,
};

pub const ROW_BYTES: usize = KEY_BYTES + 12;

/// The contents of a segment.
pub type Entries = BTreeMap<Key, (Kind, Bytes)>;

/// An entry's size in a segment, index included.
pub fn stored_bytes(value: usize) -> usize {
    entry::HEADER_BYTES + value + ROW_BYTES
}

/// Encodes a segment; also returns its entry for the manifest. `entries` must not be empty.
pub fn encode(name: String, entries: &Entries) -> (SegmentEntry, Bytes) {
    let (mut bytes, mut index) = (Vec::new(), Vec::with_capacity(entries.len() * ROW_BYTES));
    let mut put = |wanted: &dyn Fn(&Key) -> bool| {
        for (key, (kind, value)) in entries.iter().filter(|(key, _)| wanted(key)) {
            index.extend_from_slice(key.bytes());
            for number in [bytes.len() as u32, value.len() as u32, u32::from(kind.code())] {
                index.extend_from_slice(&number.to_le_bytes());
            }
            entry::put(&mut bytes, key, *kind, value);
        }
        (bytes.len() as u32, (index.len() / ROW_BYTES) as u32)
    };
    let (heads_end, head_rows) = put(&|key| key.as_block().is_none());
    let (index_start, _) = put(&|key| key.as_block().is_some());
    let index_checksum = crc_fast::crc32_iscsi(&index);
    bytes.extend_from_slice(&index);
    let (first, _) = entries.first_key_value().expect("a segment has entries");
    let (last, _) = entries.last_key_value().expect("a segment has entries");
    let part = SegmentEntry {
        name,
        bytes: bytes.len() as u64,
        heads_end,
        index_start,
        head_rows,
        index_checksum,
        first: first.metric(),
        last: last.metric(),
    };
    (part, bytes.into())
}

/// An entry's row in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub key: Key,
    pub offset: u32,
    /// Of the value, in bytes.
    pub length: u32,
    pub kind: Kind,
}

impl Row {
    /// Where the entry ends, without padding.
    pub fn end(&self) -> u32 {
        self.offset + entry::HEADER_BYTES as u32 + self.length
    }

    /// The value, from bytes that begin with the entry; `None` if they are damaged.
    pub fn open(&self, bytes: &Bytes) -> Option<Bytes> {
        let header = Header::parse(bytes)?;
        let end = entry::HEADER_BYTES + self.length as usize;
        let value = bytes.get(entry::HEADER_BYTES..end)?;
        let right = header.key == self.key && header.kind == self.kind && header.fits(value);
        right.then(|| bytes.slice(entry::HEADER_BYTES..end))
    }
}

/// A segment's index.
#[derive(Debug)]
pub struct Index {
    rows: Bytes,
    head_rows: usize,
    /// Key ranges (exclusive) whose heads may be lost: their entries are damaged.
    unknown_heads: Vec<(Key, Key)>,
    /// The same for blocks.
    unknown_blocks: Vec<(Key, Key)>,
}

impl Index {
    /// `None` if the bytes are damaged.
    pub fn parse(part: &SegmentEntry, rows: Bytes) -> Option<Self> {
        let right =
            crc_fast::crc32_iscsi(&rows) == part.index_checksum && rows.len().is_multiple_of(ROW_BYTES);
        right.then(|| Self {
            rows,
            head_rows: part.head_rows as usize,
            unknown_heads: Vec::new(),
            unknown_blocks: Vec::new(),
        })
    }

    /// Rebuilds a damaged index from the segment's entries.
    pub fn rebuild(part: &SegmentEntry, segment: &[u8]) -> Self {
        let mut rows = Vec::new();
        let heads = 0..part.heads_end as usize;
        let unknown_heads = put_rows(&mut rows, segment, heads, part.last);
        let head_rows = rows.len() / ROW_BYTES;
        let blocks = part.heads_end as usize..part.index_start as usize;
        let unknown_blocks = put_rows(&mut rows, segment, blocks, part.last);
        Self { rows: rows.into(), head_rows, unknown_heads, unknown_blocks }
    }

    /// Of a lost segment: all its contents are unknown.
    pub fn gone(part: &SegmentEntry) -> Self {
        Self::rebuild(part, &[])
    }

    /// Whether no entry is lost.
    pub fn is_whole(&self) -> bool {
        self.unknown_heads.is_empty() && self.unknown_blocks.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.rows.len()
    }

    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row> {
        (0..self.rows.len() / ROW_BYTES).map(|at| self.row(at))
    }

    /// Whether a lost entry may be the metric's head or deletion.
    pub fn may_have_had(&self, metric: MetricId) -> bool {
        let keys = [Key::deletion(metric), Key::head(metric)];
        self.unknown_heads.iter().any(|(low, high)| keys.iter().any(|key| low < key && key < high))
    }

    /// The neighbours of lost entries that may be blocks of the range.
    pub fn missing_blocks(&self, range: &BlockRange) -> impl Iterator<Item = (Key, Key)> {
        let (first, last) = Key::bounds(range);
        self.unknown_blocks.iter().copied().filter(move |(low, high)| *low < last && *high > first)
    }

    pub fn find(&self, key: &Key) -> Option<Row> {
        let at = self.lower_bound(key);
        (at < self.end_of(key)).then(|| self.row(at)).filter(|row| row.key == *key)
    }

    /// The rows of blocks that may lie in the range, in order.
    pub fn blocks(&self, range: &BlockRange) -> impl Iterator<Item = Row> {
        let (low, high) = Key::bounds(range);
        let to = range.to;
        (self.lower_bound(&low)..self.rows.len() / ROW_BYTES).map(|at| self.row(at)).take_while(move |row| {
            row.key <= high && row.key.as_block().is_some_and(|block| block.first <= to)
        })
    }

    /// The rows of heads, then those of blocks, with keys from `low` to `high`.
    pub fn between(&self, low: Key, high: Key) -> impl Iterator<Item = Row> {
        let rows = self.rows.len() / ROW_BYTES;
        let bounds = |from: usize, to: usize| {
            let start = self.partition(from, to, |row| row.key < low);
            start..self.partition(start, to, |row| row.key <= high)
        };
        bounds(0, self.head_rows).chain(bounds(self.head_rows, rows)).map(|at| self.row(at))
    }

    /// The first row whose key is not smaller, among the heads or among the blocks, depending on the key.
    fn lower_bound(&self, key: &Key) -> usize {
        let (low, high) = match key.as_block() {
            None => (0, self.head_rows),
            Some(_) => (self.head_rows, self.rows.len() / ROW_BYTES),
        };
        self.partition(low, high, |row| row.key < *key)
    }

    /// The first of the rows `low..high` that `is_before` rejects.
    fn partition(&self, mut low: usize, mut high: usize, is_before: impl Fn(&Row) -> bool) -> usize {
        while low < high {
            let middle = low.midpoint(high);
            if is_before(&self.row(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn end_of(&self, key: &Key) -> usize {
        if key.as_block().is_none() { self.head_rows } else { self.rows.len() / ROW_BYTES }
    }

    fn row(&self, at: usize) -> Row {
        let bytes = &self.rows[at * ROW_BYTES..][..ROW_BYTES];
        Row {
            key: Key::from_bytes(bytes[..KEY_BYTES].try_into().expect("forty bytes")),
            offset: u32_at(bytes, KEY_BYTES),
            length: u32_at(bytes, KEY_BYTES + 4),
            // Rows are validated as a whole, or made from headers: there is no other kind.
            kind: Kind::of_code(u32_at(bytes, KEY_BYTES + 8) as u16).unwrap_or(Kind::Damaged),
        }
    }
}

/// Adds the rows of the entries in a part of a segment; returns the neighbours of lost entries.
fn put_rows(rows: &mut Vec<u8>, segment: &[u8], part: Range<usize>, last: MetricId) -> Vec<(Key, Key)> {
    let bytes = segment.get(part.start..segment.len().min(part.end)).unwrap_or_default();
    let mut missing = Vec::new();
    let mut before = Key::SMALLEST;
    let mut gap = false;
    for piece in entry::walk(bytes) {
        match piece {
            Piece::Entry(offset, header) => {
                if std::mem::take(&mut gap) {
                    missing.push((before, header.key));
                }
                before = header.key;
                put_row(rows, part.start + offset, &header);
            }
            Piece::Gap(..) => gap = true,
        }
    }
    if gap || bytes.len() < part.len() {
        missing.push((before, Key::last_of(last)));
    }
    missing
}

fn put_row(rows: &mut Vec<u8>, offset: usize, header: &Header) {
    rows.extend_from_slice(header.key.bytes());
    for number in [offset as u32, header.length, u32::from(header.kind.code())] {
        rows.extend_from_slice(&number.to_le_bytes());
    }
}
