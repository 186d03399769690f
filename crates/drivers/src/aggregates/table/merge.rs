//! Merges tables, so that reads touch few, and superseded values are dropped.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use gnudi_model::MetricId;

use super::{
    Entry, Found, Pages, Site, Table,
    entry::{Header, Kind, Piece, walk},
};
use crate::aggregates::key::Key;

/// A run joins a merge if it is at most this many times as large as all newer runs in it together.
const SIZE_RATIO: u64 = 2;

/// How many of the newest runs to merge, given their sizes, oldest first; 0 for none. `merged_min` of similar size are
/// merged; with `runs_max` runs the newest are merged, whatever their sizes.
pub fn choose(sizes: &[u64], merged_min: usize, runs_max: usize) -> usize {
    let mut newest_first = sizes.iter().rev();
    let Some(mut sum) = newest_first.next().copied() else { return 0 };
    let mut count = 1;
    for size in newest_first {
        if *size > sum * SIZE_RATIO {
            break;
        }
        sum += size;
        count += 1;
    }
    if count >= merged_min {
        return count;
    }
    if sizes.len() >= runs_max { merged_min } else { 0 }
}

/// Goes through the newest entry of each key, in order. A deletion voids a metric's entries of older runs.
///
/// Reads nothing itself: [`Merge::step`] asks for pages, which the caller gives with [`Merge::feed`].
pub struct Merge<S> {
    /// Oldest first.
    runs: Vec<Run<S>>,
    /// How much to read of a table at once, in bytes.
    stretch_bytes: u64,
    /// The metric of the last deletion, and the age of its run.
    deleted: Option<(MetricId, usize)>,
}

/// Tables with disjoint keys, in order.
struct Run<S> {
    /// The first one is being read.
    tables: VecDeque<Arc<Table<S>>>,
    /// The next page to read.
    page: usize,
    pages: Option<Pages>,
    /// Where the next entry is in `pages`.
    at: usize,
    next: Option<Header>,
}

pub enum Step<S> {
    /// These pages of the table are wanted next; with [`Merge::feed`] of this run.
    Read {
        run: usize,
        table: Arc<Table<S>>,
        first: usize,
        last: usize,
    },
    /// For [`Kind::Value`] with the value.
    Entry(Key, Kind, Bytes),
    Done,
}

/// Entries with unknown keys are lost: the merge is impossible. Already reported.
#[derive(Debug)]
pub struct Lost;

impl<S: Site> Merge<S> {
    /// `runs`: oldest first, each with its tables in order.
    pub fn new(runs: Vec<Vec<Arc<Table<S>>>>, stretch_bytes: u64) -> Self {
        let run = |tables: Vec<_>| Run { tables: tables.into(), page: 0, pages: None, at: 0, next: None };
        Self { runs: runs.into_iter().map(run).collect(), stretch_bytes, deleted: None }
    }

    pub fn feed(&mut self, run: usize, pages: Pages) {
        let run = &mut self.runs[run];
        (run.page, run.at) = (pages.last + 1, 0);
        run.pages = Some(pages);
    }

    pub fn step(&mut self) -> Result<Step<S>, Lost> {
        loop {
            for (number, run) in self.runs.iter_mut().enumerate() {
                if let Some((table, first)) = run.advance()? {
                    let last = table.index.pages_within(first, self.stretch_bytes);
                    return Ok(Step::Read { run: number, table, first, last });
                }
            }
            let Some(key) = self.runs.iter().filter_map(Run::next_key).min() else { return Ok(Step::Done) };
            let mut newest = None;
            for (age, run) in self.runs.iter_mut().enumerate().rev() {
                if run.next_key() == Some(key) {
                    newest = newest.or_else(|| Some((age, run.open())));
                    run.pass();
                }
            }
            let (age, found) = newest.expect("some run has the smallest key");
            if key.is_deletion() {
                self.deleted = Some((key.metric(), age));
            }
            if self.deleted.is_some_and(|(metric, by)| metric == key.metric() && age < by) {
                continue;
            }
            return Ok(match found {
                Found::Value(value) => Step::Entry(key, Kind::Value, value),
                Found::Tombstone => Step::Entry(key, Kind::Tombstone, Bytes::new()),
                Found::Damaged(_) => Step::Entry(key, Kind::Damaged, Bytes::new()),
            });
        }
    }
}

impl<S: Site> Run<S> {
    fn next_key(&self) -> Option<Key> {
        self.next.map(|header| header.key)
    }

    /// Finds the next entry, if it isn't known. Returns the table and the page to read first, if one must be read.
    fn advance(&mut self) -> Result<Option<(Arc<Table<S>>, usize)>, Lost> {
        while self.next.is_none() {
            let Some(table) = self.tables.front() else { return Ok(None) };
            let rest = self.pages.as_ref().map_or(&[][..], |pages| &pages.bytes[self.at..]);
            if !rest.is_empty() {
                match walk(rest).next() {
                    Some(Piece::Entry(_, header)) => self.next = Some(header),
                    Some(Piece::Gap(_, end)) => {
                        let start = self.pages.as_ref().map_or(0, |pages| pages.start);
                        table.report_gap(start + self.at as u64, &rest[..end]);
                        return Err(Lost);
                    }
                    None => unreachable!("there are bytes"),
                }
            } else if self.page < table.index.pages.len() {
                return Ok(Some((Arc::clone(table), self.page)));
            } else if table.has_gaps() {
                return Err(Lost);
            } else {
                self.tables.pop_front();
                (self.page, self.pages, self.at) = (0, None, 0);
            }
        }
        Ok(None)
    }

    /// Validates the next entry's value.
    fn open(&self) -> Found {
        let (Some(table), Some(pages), Some(header)) = (self.tables.front(), &self.pages, self.next) else {
            unreachable!("there is a next entry");
        };
        table.open(&Entry::new(pages.start, &pages.bytes, self.at, header))
    }

    fn pass(&mut self) {
        let header = self.next.take().expect("there is a next entry");
        self.at += header.entry_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_similar_size_are_merged() {
        let choose = |sizes: &[u64]| choose(sizes, 4, 12);
        assert_eq!(choose(&[]), 0);
        assert_eq!(choose(&[5, 5, 5]), 0);
        assert_eq!(choose(&[5, 5, 5, 5]), 4);
        assert_eq!(choose(&[100, 5, 5, 5]), 0, "the large one stays out of it");
        assert_eq!(choose(&[100, 5, 5, 5, 5]), 4);
        assert_eq!(choose(&[20, 20, 20, 5, 5, 5, 5]), 7, "one merge instead of two");
        assert_eq!(choose(&[1 << 40, 1 << 36, 1 << 30, 1 << 20, 1]), 0);
        let falling: Vec<u64> = (0..12).rev().map(|exponent| 4u64.pow(exponent)).collect();
        assert_eq!(choose(&falling), 4, "there are never more than so many");
    }
}
