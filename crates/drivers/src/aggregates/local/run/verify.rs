//! Reads a run from its first entry to its last, and notes damage around the entries.

use std::io;

use super::{
    Found, Run,
    cursor::Cursor,
    layout::{FOOTER_BYTES, Footer, HEADER_BYTES, INDEX_ENTRY_BYTES},
    order::{Order, Place},
};
use crate::{
    aggregates::{
        entry::Header,
        key::{KEY_BYTES, Key},
    },
    disk::read_exact_at,
    segments::frame::u64_at,
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

/// Reads the entries of a run in [`Order::NEW`].
pub struct Reading<'a> {
    pub run: &'a Run,
    entries: Entries<'a>,
    notes: Notes,
}

enum Entries<'a> {
    InOrder(Cursor<'a>),
    /// For a run in an older order: all headers with their file offsets, sorted.
    Sorted(std::vec::IntoIter<(u64, Header)>),
}

/// Collected while reading.
#[derive(Default)]
struct Notes {
    end: u64,
    last: Option<Key>,
    first: Option<(Key, u64)>,
    gaps: Vec<Gap>,
    page: usize,
    marks: u64,
    is_index_wrong: bool,
}

impl<'a> Reading<'a> {
    pub fn new(run: &'a Run) -> io::Result<Self> {
        let mut notes = Notes { end: HEADER_BYTES as u64, ..Notes::default() };
        let mut cursor = Cursor::with_open_end(run);
        let entries = if run.order == Order::NEW {
            Entries::InOrder(cursor)
        } else {
            let mut headers = Vec::new();
            while let Some((offset, header)) = cursor.next_header()? {
                if notes.take(run, offset, &header) {
                    headers.push((offset, header));
                }
            }
            notes.finish(run);
            headers.sort_unstable_by_key(|(_, header)| Order::NEW.place(&header.key));
            Entries::Sorted(headers.into_iter())
        };
        Ok(Self { run, entries, notes })
    }

    pub fn next(&mut self) -> io::Result<Option<ReadEntry>> {
        let entry = |offset, header: &Header, found| ReadEntry {
            key: header.key,
            offset,
            was_known: header.kind == super::Kind::Damaged,
            found,
        };
        match &mut self.entries {
            Entries::InOrder(cursor) => {
                while let Some(seen) = cursor.next()? {
                    let offset = seen.start + seen.at as u64;
                    if self.notes.take(self.run, offset, &seen.header) {
                        return Ok(Some(entry(offset, &seen.header, seen.open())));
                    }
                }
                self.notes.finish(self.run);
                Ok(None)
            }
            Entries::Sorted(headers) => {
                let Some((offset, header)) = headers.next() else { return Ok(None) };
                Ok(Some(entry(offset, &header, self.run.read_entry(offset, &header)?)))
            }
        }
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
        let place = |key: &Key| -> Place { run.order.place(key) };
        if self.last.is_some_and(|last| place(&last) >= place(&header.key)) {
            return false;
        }
        let is_behind_gap = offset > self.end;
        if is_behind_gap {
            let gap = Gap { start: self.end, end: offset, after: self.last, before: Some(header.key) };
            self.gaps.push(gap);
        }
        self.first.get_or_insert((header.key, offset));
        self.is_index_wrong |= !run.may_contain(header.key.metric());
        while let Some((key, at)) = run.index.get(self.page).filter(|(_, at)| *at <= offset) {
            // The page may have begun with a lost entry.
            self.is_index_wrong |= *at < offset && !is_behind_gap;
            self.is_index_wrong |= *at == offset && *key != header.key && *key != Key::SMALLEST;
            self.page += 1;
        }
        self.marks += u64::from(header.key.is_mark());
        self.last = Some(header.key);
        self.end = offset + header.entry_bytes() as u64;
        true
    }

    fn finish(&mut self, run: &Run) {
        if self.is_complete(run) {
            let all = self.page == run.index.len() && self.marks == run.marks;
            self.is_index_wrong |= !all && !run.has_gaps.load(std::sync::atomic::Ordering::Relaxed);
        } else {
            self.gaps.push(Gap {
                start: self.end,
                end: run.bytes.max(self.end),
                after: self.last,
                before: None,
            });
        }
    }

    /// Whether the last entry found is the last one written, according to the footer or the index behind it.
    fn is_complete(&self, run: &Run) -> bool {
        let mut footer = [0; FOOTER_BYTES];
        let footer_at = run.bytes.saturating_sub(FOOTER_BYTES as u64);
        let read = read_exact_at(&*run.file, &mut footer, footer_at);
        if let Some(footer) = read.ok().and_then(|()| Footer::parse(&footer, run.bytes)) {
            return footer.entries_end == self.end;
        }
        let mut entry = [0; INDEX_ENTRY_BYTES];
        let Some((key, at)) = self.first else { return false };
        read_exact_at(&*run.file, &mut entry, self.end).is_ok()
            && u64_at(&entry, KEY_BYTES) == HEADER_BYTES as u64
            && (at > HEADER_BYTES as u64 || entry[..KEY_BYTES] == key.bytes()[..])
    }
}
