//! Builds a table: sorted entries, then index, filter and footer.

use super::{
    HEAD_PAGE_BYTES, PAGE_BYTES,
    entry::{self, Kind},
    filter::{self, Filter},
    index::Index,
    layout::{self, Footer, INDEX_ENTRY_BYTES},
};
use crate::aggregates::key::Key;

/// Encodes entries to a buffer, which the caller may take away at any time.
pub struct Builder {
    /// What was not taken yet.
    pub buffer: Vec<u8>,
    taken: u64,
    page_start: u64,
    pages: Vec<(Key, u64)>,
    hashes: Vec<u64>,
    marks: u64,
    last: Option<Key>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            buffer: layout::header(),
            taken: 0,
            page_start: 0,
            pages: Vec::new(),
            hashes: Vec::new(),
            marks: 0,
            last: None,
        }
    }
}

impl Builder {
    /// Adds an entry; entries must come in order.
    pub fn push(&mut self, key: Key, kind: Kind, value: &[u8]) {
        assert!(self.last.is_none_or(|last| last < key), "entries come in order");
        let at = self.length();
        let page_bytes = if key.is_head() { HEAD_PAGE_BYTES } else { PAGE_BYTES };
        if self.pages.is_empty() || at - self.page_start >= page_bytes as u64 {
            self.pages.push((key, at));
            self.page_start = at;
        }
        if self.last.is_none_or(|last| last.metric() != key.metric()) {
            self.hashes.push(filter::hash(key.metric()));
        }
        self.last = Some(key);
        self.marks += u64::from(key.is_mark());
        entry::put(&mut self.buffer, &key, kind, value);
    }

    /// Of the entries so far, in bytes.
    pub fn length(&self) -> u64 {
        self.taken + self.buffer.len() as u64
    }

    /// The first and the last key; `None` if there are no entries.
    pub fn bounds(&self) -> Option<(Key, Key)> {
        Some((self.pages.first()?.0, self.last?))
    }

    /// Empties the buffer, whose contents were written.
    pub fn taken(&mut self) {
        self.taken += self.buffer.len() as u64;
        self.buffer.clear();
    }

    /// Adds index, filter and footer to the buffer. No more entries may follow.
    pub fn finish(&mut self) -> Index {
        let entries_end = self.length();
        let mut index = Vec::with_capacity(self.pages.len() * INDEX_ENTRY_BYTES);
        for (key, at) in &self.pages {
            index.extend_from_slice(key.bytes());
            index.extend_from_slice(&at.to_le_bytes());
        }
        let filter = Filter::new(&self.hashes);
        let footer = Footer {
            entries_end,
            index_bytes: index.len() as u64,
            filter_bytes: filter.bytes().len() as u64,
            index_checksum: crc_fast::crc32_iscsi(&index),
            filter_checksum: crc_fast::crc32_iscsi(filter.bytes()),
            marks: self.marks,
        };
        self.buffer.extend_from_slice(&index);
        self.buffer.extend_from_slice(filter.bytes());
        self.buffer.extend_from_slice(&footer.bytes());
        let mut pages = std::mem::take(&mut self.pages);
        pages.shrink_to_fit();
        Index { pages, entries_end, marks: self.marks, filter, has_gaps: false, is_cut: false }
    }
}
