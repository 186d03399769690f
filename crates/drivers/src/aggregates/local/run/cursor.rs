//! Reads a run sequentially, for merges and for rebuilding its index.

use std::io;

use super::{Run, STRETCH_BYTES, Seen, layout::HEADER_BYTES};
use crate::{
    aggregates::entry::{self, Header},
    disk::read_exact_at,
    segments::frame::ALIGNMENT,
};

/// A position in a run, with a buffer.
pub struct Cursor<'a> {
    run: &'a Run,
    /// The buffered bytes, their offset, and the cursor's position in them.
    bytes: Vec<u8>,
    start: u64,
    at: usize,
    /// Whether index and filter may follow the last entry.
    open_end: bool,
}

impl<'a> Cursor<'a> {
    pub fn new(run: &'a Run) -> Self {
        Self { run, bytes: Vec::new(), start: HEADER_BYTES as u64, at: 0, open_end: false }
    }

    /// For a run whose end of entries is unknown.
    pub fn with_open_end(run: &'a Run) -> Self {
        Self { open_end: true, ..Self::new(run) }
    }

    /// The next entry, its value unopened.
    pub fn next(&mut self) -> io::Result<Option<Seen<'_>>> {
        let Some((at, header)) = self.next_header()? else { return Ok(None) };
        let at = (at - self.start) as usize;
        Ok(Some(Seen { run: self.run, start: self.start, bytes: &self.bytes, at, header }))
    }

    /// The next entry's offset and header.
    pub fn next_header(&mut self) -> io::Result<Option<(u64, Header)>> {
        let mut gap_start = None;
        loop {
            let offset = self.start + self.at as u64;
            if offset >= self.run.entries_end {
                self.end_gap(gap_start, offset);
                return Ok(None);
            }
            if let Some(header) = self.header_here()? {
                self.end_gap(gap_start, offset);
                self.at += header.entry_bytes();
                return Ok(Some((offset, header)));
            }
            gap_start.get_or_insert(offset);
            self.at += ALIGNMENT;
        }
    }

    /// The header at the cursor, with the whole entry in the buffer.
    fn header_here(&mut self) -> io::Result<Option<Header>> {
        self.hold(entry::HEADER_BYTES)?;
        let Some(header) = self.bytes.get(self.at..).and_then(Header::parse) else { return Ok(None) };
        self.hold(header.entry_bytes())?;
        Ok((self.at + header.entry_bytes() <= self.bytes.len()).then_some(header))
    }

    /// Buffers `length` bytes from the cursor on, as far as the run has them.
    fn hold(&mut self, length: usize) -> io::Result<()> {
        let offset = self.start + self.at as u64;
        let left = self.run.entries_end.saturating_sub(offset);
        if self.at + length.min(left as usize) > self.bytes.len() {
            let wanted = left.min((length as u64).max(STRETCH_BYTES)) as usize;
            (self.start, self.at) = (offset, 0);
            self.bytes.resize(wanted, 0);
            match read_exact_at(&*self.run.file, &mut self.bytes, offset) {
                // Rebuild as much of the index as possible: one bad place must not prevent opening.
                Err(_) if self.open_end => self.run.read_leaving_out(offset, &mut self.bytes),
                read => read?,
            }
        }
        Ok(())
    }

    /// Reports the skipped bytes.
    fn end_gap(&self, start: Option<u64>, end: u64) {
        let Some(start) = start else { return };
        if end < self.run.entries_end || !self.open_end {
            let mut bytes = vec![0; (end - start).min(STRETCH_BYTES) as usize];
            read_exact_at(&*self.run.file, &mut bytes, start).ok();
            self.run.report_gap(start, &bytes);
        }
    }
}
