//! Scans of a run. Scans in ascending order read each page once.

use std::ops::ControlFlow;

use super::{Run, STRETCH_BYTES};
use crate::aggregates::{
    StoreError,
    key::Key,
    table::{Met, PAGE_BYTES, Pages, Scan},
};

/// Scans one run, and keeps the pages that it has read last.
pub struct Scanner<'a> {
    run: &'a Run,
    pages: Option<Pages>,
    /// The last entry up to the start of the last scan, and its offset in the file.
    passed: Option<(Key, u64)>,
}

impl<'a> Scanner<'a> {
    pub fn new(run: &'a Run) -> Self {
        Self { run, pages: None, passed: None }
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
        let table = &self.run.table;
        let (mut scan, mut page) = Scan::new(&table.index, *low);
        let mut stretch_bytes = PAGE_BYTES as u64;
        while page < table.index.pages.len() {
            let from = self.load(page, low, stretch_bytes)?;
            let pages = self.pages.as_ref().expect("just loaded");
            page = pages.last + 1;
            let visited = scan.visit(table, pages, from, visit);
            self.passed = scan.passed().or(self.passed);
            if visited.is_break() {
                return Ok(());
            }
            // Most scans end soon; long ones double the read size.
            stretch_bytes = (stretch_bytes * 2).min(STRETCH_BYTES);
        }
        scan.end(table, visit);
        Ok(())
    }

    /// Makes `pages` contain `page`; returns the offset in them from which to look for `low`.
    fn load(&mut self, page: usize, low: &Key, stretch_bytes: u64) -> Result<usize, StoreError> {
        let index = &self.run.table.index;
        if let Some(pages) = self.pages.as_ref().filter(|pages| (pages.first..=pages.last).contains(&page)) {
            let begin = index.page_start(page);
            // Gaps before that entry do not concern later ones.
            let passed = self.passed.filter(|(key, _)| key <= low);
            let from = passed.map_or(begin, |(_, at)| at.max(begin));
            return Ok((from - pages.start) as usize);
        }
        (self.pages, self.passed) = (None, None);
        let last = index.pages_within(page, stretch_bytes);
        self.pages = Some(self.run.read_pages(page, last)?);
        Ok(0)
    }
}
