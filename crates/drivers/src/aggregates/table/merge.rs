//! Merges runs, so that reads touch few tables, and superseded values are dropped.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use gnudi_model::MetricId;

use super::{
    Entry, Found, Pages, Site, Table,
    entry::{Header, Kind, Piece, walk},
    levels::{Level, Levels, Output},
};
use crate::aggregates::key::Key;

/// Goes through the newest entry of each key, in order. A deletion voids a metric's entries of older runs: heads by a mark
/// that was found beside heads, blocks by one that was found beside blocks.
///
/// Reads nothing itself: [`Merge::step`] asks for pages, which the caller gives with [`Merge::feed`].
pub struct Merge<S> {
    /// Oldest first, as far as they have keys in common.
    runs: Vec<Run<S>>,
    /// How much to read of a table at once, in bytes.
    stretch_bytes: u64,
    deleted: Deleted,
}

/// The deletion of a metric.
#[derive(Default)]
pub struct Deleted {
    metric: Option<MetricId>,
    /// The newest run with the mark among those that may have heads, and among those that may have blocks.
    heads_by: Option<usize>,
    blocks_by: Option<usize>,
}

impl Deleted {
    /// `marks`: for each run, oldest first, whether it has the mark, and its level.
    pub fn by(metric: MetricId, marks: &[(bool, Level)]) -> Self {
        let newest_not_in = |other| marks.iter().rposition(|(has_it, level)| *has_it && *level != other);
        let (heads_by, blocks_by) = (newest_not_in(Level::Blocks), newest_not_in(Level::Heads));
        Self { metric: Some(metric), heads_by, blocks_by }
    }

    /// Whether the entry of a run of this age is older than the deletion.
    pub fn voids(&self, key: &Key, age: usize) -> bool {
        let by = if key.is_head() { self.heads_by } else { self.blocks_by };
        self.metric == Some(key.metric()) && !key.is_deletion() && by.is_some_and(|by| age < by)
    }
}

/// Tables with disjoint keys, in order.
struct Run<S> {
    level: Level,
    /// The first one is being read.
    tables: VecDeque<Arc<Table<S>>>,
    /// The next page to read.
    page: usize,
    pages: Option<Pages>,
    /// Where the next entry is in `pages`.
    at: usize,
    next: Option<Header>,
}

/// A table, and the first page to read.
type Unread<S> = (Arc<Table<S>>, usize);

pub enum Step<S> {
    /// These pages of the table are wanted next; with [`Merge::feed`] of this run.
    Read {
        run: usize,
        table: Arc<Table<S>>,
        first: usize,
        last: usize,
    },
    Entry(Merged),
    Done,
}

/// An entry to keep.
pub struct Merged {
    pub key: Key,
    pub kind: Kind,
    /// Of [`Kind::Value`].
    pub value: Bytes,
    /// Of a deletion: whether its mark was found beside heads, and beside blocks.
    is_of_heads: bool,
    is_of_blocks: bool,
}

impl Merged {
    /// Whether an output of a merge needs the entry. Damaged entries stay: they differ from absent ones.
    pub fn belongs_to(&self, output: Output) -> bool {
        let is_theirs = match output.level {
            Level::Heads if self.key.is_deletion() => self.is_of_heads,
            Level::Blocks if self.key.is_deletion() => self.is_of_blocks,
            level => level.takes(&self.key),
        };
        is_theirs && !(output.is_oldest && self.kind == Kind::Tombstone)
    }
}

/// Entries with unknown keys are lost: the merge is impossible. Already reported.
#[derive(Debug)]
pub struct Lost;

impl<S: Site> Merge<S> {
    /// `runs`: each with its tables in order.
    pub fn new(runs: Levels<Vec<Arc<Table<S>>>>, stretch_bytes: u64) -> Self {
        let run = |level| {
            move |tables: Vec<_>| Run {
                level,
                tables: tables.into(),
                page: 0,
                pages: None,
                at: 0,
                next: None,
            }
        };
        let Levels { new, heads, blocks } = runs;
        let older =
            heads.into_iter().map(run(Level::Heads)).chain(blocks.into_iter().map(run(Level::Blocks)));
        let runs = older.chain(new.into_iter().map(run(Level::New))).collect();
        Self { runs, stretch_bytes, deleted: Deleted::default() }
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
            if key.is_deletion() {
                let marks = self.runs.iter().map(|run| (run.next_key() == Some(key), run.level));
                self.deleted = Deleted::by(key.metric(), &marks.collect::<Vec<_>>());
            }
            let mut newest = None;
            for (age, run) in self.runs.iter_mut().enumerate().rev() {
                if run.next_key() == Some(key) {
                    newest = newest.or_else(|| Some((age, run.open())));
                    run.pass();
                }
            }
            let (age, found) = newest.expect("some run has the smallest key");
            if self.deleted.voids(&key, age) {
                continue;
            }
            let (kind, value) = match found {
                Found::Value(value) => (Kind::Value, value),
                Found::Tombstone => (Kind::Tombstone, Bytes::new()),
                Found::Damaged(_) => (Kind::Damaged, Bytes::new()),
            };
            let Deleted { heads_by, blocks_by, .. } = self.deleted;
            let (is_of_heads, is_of_blocks) = (heads_by.is_some(), blocks_by.is_some());
            return Ok(Step::Entry(Merged { key, kind, value, is_of_heads, is_of_blocks }));
        }
    }
}

impl<S: Site> Run<S> {
    fn next_key(&self) -> Option<Key> {
        self.next.map(|header| header.key)
    }

    /// Finds the next entry, if it isn't known; or what to read before.
    fn advance(&mut self) -> Result<Option<Unread<S>>, Lost> {
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
