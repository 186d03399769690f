//! Reads a run's file entry by entry, for rebuilding an index and for verification. It needs no index, and goes on
//! behind damage and unreadable places.

use bytes::Bytes;

use super::{RunFile, STRETCH_BYTES};
use crate::{
    aggregates::table::{
        Entry, Site as _,
        entry::{self, Header},
        layout::HEADER_BYTES,
    },
    segments::frame::ALIGNMENT,
};

/// A position in a file, with a buffer.
pub struct Cursor<'a> {
    file: &'a RunFile,
    /// The end of the entries, or a later place if that is unknown.
    end: u64,
    /// The buffered bytes, their offset, and the cursor's position in them.
    bytes: Bytes,
    start: u64,
    at: usize,
    /// Whether a gap between entries was found.
    pub has_gaps: bool,
}

impl<'a> Cursor<'a> {
    pub fn new(file: &'a RunFile, end: u64) -> Self {
        Self { file, end, bytes: Bytes::new(), start: HEADER_BYTES as u64, at: 0, has_gaps: false }
    }

    /// The next entry, its value unopened.
    pub fn next(&mut self) -> Option<Entry<'_>> {
        let (offset, header) = self.next_header()?;
        Some(Entry::new(self.start, &self.bytes, (offset - self.start) as usize, header))
    }

    /// The next entry's offset and header.
    pub fn next_header(&mut self) -> Option<(u64, Header)> {
        let mut gap_start = None;
        loop {
            let offset = self.start + self.at as u64;
            if offset >= self.end {
                return None;
            }
            if let Some(header) = self.header_here() {
                self.end_gap(gap_start, offset);
                self.at += header.entry_bytes();
                return Some((offset, header));
            }
            gap_start.get_or_insert(offset);
            self.at += ALIGNMENT;
        }
    }

    /// The header at the cursor, with the whole entry in the buffer.
    fn header_here(&mut self) -> Option<Header> {
        self.hold(entry::HEADER_BYTES);
        let header = self.bytes.get(self.at..).and_then(Header::parse)?;
        self.hold(header.entry_bytes());
        (self.at + header.entry_bytes() <= self.bytes.len()).then_some(header)
    }

    /// Buffers `length` bytes from the cursor on, as far as the file has them.
    fn hold(&mut self, length: usize) {
        let offset = self.start + self.at as u64;
        let left = self.end.saturating_sub(offset);
        if self.at + length.min(left as usize) > self.bytes.len() {
            (self.start, self.at) = (offset, 0);
            let mut bytes = vec![0; left.min((length as u64).max(STRETCH_BYTES)) as usize];
            self.file.read_leaving_out(offset, &mut bytes);
            self.bytes = bytes.into();
        }
    }

    /// Reports the skipped bytes.
    fn end_gap(&mut self, start: Option<u64>, end: u64) {
        let Some(start) = start else { return };
        self.has_gaps = true;
        let mut bytes = vec![0; (end - start).min(STRETCH_BYTES) as usize];
        self.file.read_leaving_out(start, &mut bytes);
        self.file.report("entry", start, &bytes);
    }
}
