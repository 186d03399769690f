//! Reads a run from its first entry to its last, and notes damage around the entries.

use super::{Run, cursor::Cursor};
use crate::aggregates::{
    key::Key,
    table::{
        Found, Rebuild,
        entry::{Header, Kind},
        layout::{FOOTER_BYTES, Footer},
    },
};

/// Bytes between two entries that may have held entries.
#[derive(Clone, Debug)]
pub struct Gap {
    pub start: u64,
    pub end: u64,
    /// The entries around it, in the run's order.
    pub after: Option<Key>,
    pub before: Option<Key>,
}

/// An entry with a validated value.
pub struct ReadEntry {
    pub key: Key,
    pub offset: u64,
    pub found: Found,
    /// Whether the value was already marked as lost.
    pub was_known: bool,
}

/// Reads the entries of a run.
pub struct Reading<'a> {
    pub run: &'a Run,
    cursor: Cursor<'a>,
    notes: Notes,
}

/// Collected while reading.
#[derive(Default)]
struct Notes {
    found: Rebuild,
    last: Option<Key>,
    gaps: Vec<Gap>,
    page: usize,
    marks: u64,
    is_index_wrong: bool,
}

impl<'a> Reading<'a> {
    pub fn new(run: &'a Run) -> Self {
        let table = &run.table;
        Self { run, cursor: Cursor::new(&table.site, table.index.entries_end), notes: Notes::default() }
    }

    pub fn next(&mut self) -> Option<ReadEntry> {
        while let Some(entry) = self.cursor.next() {
            let header = &entry.header;
            if self.notes.take(self.run, entry.offset, header) {
                return Some(ReadEntry {
                    key: header.key,
                    offset: entry.offset,
                    was_known: header.kind == Kind::Damaged,
                    found: self.run.table.open(&entry),
                });
            }
        }
        self.notes.finish(self.run);
        None
    }

    /// The gaps found since the last call.
    pub fn take_gaps(&mut self) -> Vec<Gap> {
        std::mem::take(&mut self.notes.gaps)
    }

    /// After the last entry: whether index or filter contradict the entries.
    pub fn is_index_wrong(&self) -> bool {
        self.notes.is_index_wrong
    }
}

impl Notes {
    /// False for an entry that is out of order.
    fn take(&mut self, run: &Run, offset: u64, header: &Header) -> bool {
        if self.last.is_some_and(|last| last >= header.key) {
            return false;
        }
        let is_behind_gap = offset > self.found.end();
        if is_behind_gap {
            let gap =
                Gap { start: self.found.end(), end: offset, after: self.last, before: Some(header.key) };
            self.gaps.push(gap);
        }
        self.is_index_wrong |= !run.may_contain(header.key.metric());
        while let Some((key, at)) = run.table.index.pages.get(self.page).filter(|(_, at)| *at <= offset) {
            // The page may have begun with a lost entry.
            self.is_index_wrong |= *at < offset && !is_behind_gap;
            self.is_index_wrong |= *at == offset && *key != header.key && *key != Key::SMALLEST;
            self.page += 1;
        }
        self.marks += u64::from(header.key.is_mark());
        self.last = Some(header.key);
        self.found.add(offset, header);
        true
    }

    fn finish(&mut self, run: &Run) {
        if self.is_complete(run) {
            let all = self.page == run.table.index.pages.len() && self.marks == run.table.index.marks;
            self.is_index_wrong |= !all && !run.table.has_gaps();
        } else {
            self.gaps.push(Gap {
                start: self.found.end(),
                end: run.bytes.max(self.found.end()),
                after: self.last,
                before: None,
            });
        }
    }

    /// Whether the last entry found is the last one written, according to the footer or the index behind it.
    fn is_complete(&self, run: &Run) -> bool {
        let mut footer = [0; FOOTER_BYTES];
        let footer_at = run.bytes.saturating_sub(FOOTER_BYTES as u64);
        let read = run.table.site.read_exact(&mut footer, footer_at);
        if let Some(footer) = read.ok().and_then(|()| Footer::parse(&footer, run.bytes)) {
            return footer.entries_end == self.found.end();
        }
        run.table.site.begins_index(&self.found)
    }
}
