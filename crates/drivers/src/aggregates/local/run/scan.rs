//! Scans of a run. Scans in ascending order read each page once.

use std::ops::{ControlFlow, Range};

use super::{PAGE_BYTES, Run, STRETCH_BYTES, Seen, order::Place};
use crate::aggregates::{
    StoreError,
    entry::{Piece, walk},
    holes::Before,
    key::Key,
};

/// Scans one run, and keeps the pages that it has read last.
pub struct Scanner<'a> {
    run: &'a Run,
    pages: Range<usize>,
    /// The offset of the pages in the file.
    start: u64,
    bytes: Vec<u8>,
    /// The place and the offset in `bytes` of the last entry up to the start of the last scan.
    passed: Option<(Place, usize)>,
}

/// An item of a scan.
pub enum Met<'a> {
    Entry(Seen<'a>),
    Gap(Gap),
}

/// A place where entries were lost.
pub struct Gap {
    pub before: Before,
    /// The first key behind the gap, or an upper bound of the lost keys.
    pub behind: Option<Key>,
    pub place: String,
}

impl<'a> Scanner<'a> {
    pub fn new(run: &'a Run) -> Self {
        Self { run, pages: 0..0, start: 0, bytes: Vec::new(), passed: None }
    }

    /// The scanned run.
    pub fn run(&self) -> &'a Run {
        self.run
    }

    /// Passes entries from `low` on, values unopened, and gaps to `visit`, in order, until it breaks or the
    /// run ends.
    pub fn scan(
        &mut self,
        low: &Key,
        visit: &mut dyn FnMut(Met<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let run = self.run;
        let low_place = run.order.place(low);
        let mut page = run.page_of(low).unwrap_or(0);
        let mut before = run.index.get(page).map_or(Before::Nothing, |(first, _)| Before::Lost(*first));
        let mut stretch_bytes = PAGE_BYTES as u64;
        while page < run.index.len() {
            let from = self.load(page, low_place, stretch_bytes)?;
            let (start, bytes, next_page) = (self.start + from as u64, &self.bytes[from..], self.pages.end);
            let mut pieces = walk(bytes).peekable();
            while let Some(piece) = pieces.next() {
                let met = match piece {
                    Piece::Entry(at, header) => {
                        before = Before::Whole(header.key);
                        let place = run.order.place(&header.key);
                        if place <= low_place {
                            self.passed = Some((place, from + at));
                        }
                        if place < low_place {
                            continue;
                        }
                        Met::Entry(Seen { run, start, bytes, at, header })
                    }
                    Piece::Gap(from, to) => {
                        run.report_gap(start + from as u64, &bytes[from..to]);
                        let behind = match pieces.peek() {
                            Some(Piece::Entry(_, header)) => Some(header.key),
                            _ => run.index.get(next_page).map(|(first, _)| *first),
                        };
                        Met::Gap(Gap { before, behind, place: run.place(start + from as u64) })
                    }
                };
                if visit(met).is_break() {
                    return Ok(());
                }
            }
            page = next_page;
            // Most scans end soon; long ones double the read size.
            stretch_bytes = (stretch_bytes * 2).min(STRETCH_BYTES);
        }
        if run.is_cut {
            let _ = visit(Met::Gap(Gap { before, behind: None, place: run.place(run.entries_end) }));
        }
        Ok(())
    }

    /// Makes `bytes` contain `page`; returns the offset in it from which to look for `low`.
    fn load(&mut self, page: usize, low: Place, stretch_bytes: u64) -> Result<usize, StoreError> {
        if self.pages.contains(&page) {
            let begin = (self.run.index[page].1 - self.start) as usize;
            // Gaps before that entry do not concern later ones.
            let passed = self.passed.filter(|(place, _)| *place <= low);
            return Ok(passed.map_or(begin, |(_, at)| at.max(begin)));
        }
        let last = self.run.pages_within(page, stretch_bytes);
        (self.pages, self.passed) = (0..0, None);
        self.start = self.run.read_pages_into(page, last, &mut self.bytes)?;
        self.pages = page..last + 1;
        Ok(0)
    }
}
