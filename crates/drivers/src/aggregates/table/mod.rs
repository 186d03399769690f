//! The immutable table, in which the local store and the store on objects keep what is no longer new: sorted
//! entries in pages, a sparse index, and a filter.
//!
//! A table never changes. How its bytes are read, and how it is published, is up to the store: as a file that gets
//! its name once it is complete, or as an object that a manifest names. `layout` has the format, `levels` the choice
//! of what to merge, `merge` the rules of deletion.
//!
//! Each entry has checksums, so damage costs one entry. Of a damaged entry the key may be lost, too: then every key
//! that may have been there counts as damaged, and no older value of it is returned.

pub mod blocks;
mod builder;
pub mod entry;
#[cfg(any(test, fuzzing))]
pub mod exercise;
mod filter;
mod index;
pub mod layout;
pub mod levels;
pub mod merge;

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering},
    time::UNIX_EPOCH,
};

use bytes::Bytes;
use gnudi_model::MetricId;

use self::entry::{HEADER_BYTES, Header, Kind, Piece, walk};
pub use self::{
    builder::Builder,
    filter::Filter,
    index::{DamagedIndex, Index, Rebuild},
};
use super::{holes::Before, key::Key};

/// How much is read to find one entry.
pub const PAGE_BYTES: usize = 32 << 10;
/// A head starts a new page once the current one has this size: passes read single heads, each with its whole page.
/// Costs at most one index entry per metric.
pub const HEAD_PAGE_BYTES: usize = 4 << 10;

/// A table's entry for a key.
#[derive(Clone, Debug)]
pub enum Found {
    Value(Bytes),
    Tombstone,
    /// The place, for messages.
    Damaged(String),
}

/// Where a table is.
pub trait Site: Send + Sync {
    /// For messages.
    fn place(&self, offset: u64) -> String;

    /// Reports damaged bytes once, and sets them aside.
    fn report(&self, what: &str, offset: u64, bytes: &[u8]);
}

pub struct Table<S> {
    pub site: S,
    pub index: Index,
    /// Unix time in ms at which the table was opened. Metrics created later have lost nothing in it. The latest time if
    /// the clock was behind then, such as that of a machine that starts without one.
    opened_ms: u64,
    /// Whether entries with unknown keys were lost. Such a table is no longer merged: an older version of a lost entry
    /// must not reappear.
    has_gaps: AtomicBool,
}

/// Whole pages of a table, one after another.
pub struct Pages {
    pub first: usize,
    pub last: usize,
    /// Their offset in the table.
    pub start: u64,
    pub bytes: Bytes,
}

/// A key to find, the page that would contain it, and whose key it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    pub page: usize,
    pub key: Key,
    /// The index of the request.
    pub of: usize,
}

/// An entry that was met, its value unopened.
pub struct Entry<'a> {
    pub offset: u64,
    pub header: Header,
    bytes: &'a Bytes,
    at: usize,
}

/// A place where entries were lost.
pub struct Gap {
    pub before: Before,
    /// The first key behind the gap, or an upper bound of the lost keys.
    pub behind: Option<Key>,
    pub place: String,
}

/// An item of a scan.
pub enum Met<'a> {
    Entry(Entry<'a>),
    Gap(Gap),
}

impl<S: Site> Table<S> {
    pub fn new(site: S, index: Index) -> Self {
        let opened_ms = opened_ms(index.pages.iter().map(|(first, _)| first.metric()));
        let has_gaps = AtomicBool::new(index.has_gaps);
        Self { site, index, opened_ms, has_gaps }
    }

    /// A table that is gone: any entry may have been in it. `known` are metrics that the store has, whose ids may show that
    /// the clock is behind.
    pub fn gone(site: S, known: impl IntoIterator<Item = MetricId>) -> Self {
        Self { opened_ms: opened_ms(known), ..Self::new(site, Index::of_nothing()) }
    }

    pub fn may_contain(&self, metric: MetricId) -> bool {
        self.index.filter.may_contain(metric)
    }

    /// Whether a metric may have been among the lost entries: not if its id was created since.
    pub fn may_have_lost(&self, metric: MetricId) -> bool {
        created_ms(metric).is_none_or(|made| made <= self.opened_ms)
    }

    pub fn has_gaps(&self) -> bool {
        self.has_gaps.load(Ordering::Relaxed)
    }

    pub fn report_gap(&self, offset: u64, bytes: &[u8]) {
        self.has_gaps.store(true, Ordering::Relaxed);
        self.site.report("entry", offset, bytes);
    }

    /// The keys that this table may have, sorted; each with the index of its metric.
    pub fn wanted(&self, keys: impl Iterator<Item = (usize, Key)>) -> Vec<Wanted> {
        let wanted = |(of, key)| Some(Wanted { page: self.index.page_of(&key)?, key, of });
        let mut wanted: Vec<Wanted> = keys.filter_map(wanted).collect();
        wanted.sort_unstable();
        wanted
    }

    /// The head of a metric, and the mark that may void it.
    pub fn head_keys(&self, metric: MetricId) -> impl Iterator<Item = Key> + use<S> {
        [Key::head(metric), Key::deletion(metric)].into_iter().take(if self.index.marks > 0 { 2 } else { 1 })
    }

    /// The entries for sorted keys whose pages are all among `pages`. `found` is called for those that exist.
    pub fn find_all(&self, pages: &Pages, wanted: &[Wanted], mut found: impl FnMut(&Wanted, Found)) {
        for of_page in wanted.chunk_by(|one, next| one.page == next.page) {
            let start = self.index.page_start(of_page[0].page);
            let from = (start - pages.start) as usize;
            let end = (self.index.page_end(of_page[0].page) - pages.start) as usize;
            let page = pages.bytes.slice(from.min(pages.bytes.len())..end.min(pages.bytes.len()));
            let mut from = 0;
            for wanted in of_page {
                if let Some(entry) = self.find_in_page(start, &page, &wanted.key, &mut from) {
                    found(wanted, entry);
                }
            }
        }
    }

    /// The entry for a key in the page at `start`. Searches from offset `from` on, and advances `from` for the next key,
    /// which must not be smaller.
    fn find_in_page(&self, start: u64, page: &Bytes, key: &Key, from: &mut usize) -> Option<Found> {
        let mut before = None;
        let skipped = *from;
        for piece in walk(&page[skipped..]) {
            match piece {
                Piece::Entry(at, header) => {
                    if header.key <= *key {
                        *from = skipped + at;
                    }
                    match header.key.cmp(key) {
                        std::cmp::Ordering::Less => before = Some(header.key),
                        std::cmp::Ordering::Equal => {
                            return Some(self.open(&Entry::new(start, page, skipped + at, header)));
                        }
                        std::cmp::Ordering::Greater => return None,
                    }
                }
                Piece::Gap(from, to) => {
                    let (from, to) = (skipped + from, skipped + to);
                    self.report_gap(start + from as u64, &page[from..to]);
                    // The key may have been here: an older version must not be taken for the newest.
                    let behind = Header::parse(&page[to..]).map(|header| header.key);
                    if self.may_have_lost(key.metric())
                        && before.is_none_or(|before| before < *key)
                        && behind.is_none_or(|behind| behind > *key)
                    {
                        return Some(Found::Damaged(self.site.place(start + from as u64)));
                    }
                }
            }
        }
        // In a table with a lost end, the key may have been there, too.
        let end = start + page.len() as u64;
        let may_be_cut = self.index.is_cut && end == self.index.entries_end;
        (may_be_cut && self.may_have_lost(key.metric())).then(|| Found::Damaged(self.site.place(end)))
    }

    /// Validates the value, and reports damage.
    pub fn open(&self, entry: &Entry<'_>) -> Found {
        let Entry { offset, header, bytes, at } = entry;
        let start = at + HEADER_BYTES;
        let value = start..start + header.length as usize;
        match header.kind {
            Kind::Tombstone => Found::Tombstone,
            Kind::Value if header.fits(&bytes[value.clone()]) => Found::Value(bytes.slice(value)),
            Kind::Value => {
                self.site.report("value", *offset, &bytes[*at..at + header.entry_bytes()]);
                Found::Damaged(self.site.place(*offset))
            }
            Kind::Damaged => Found::Damaged(format!("{}, found earlier", self.site.place(*offset))),
        }
    }
}

/// By how much the clocks of the machines that create metrics may differ.
const CLOCKS_DIFFER_MS: u64 = 5 * 60 * 1000;

/// Unix time in ms. Later if one of these metrics was created later than now: the clock is behind, by an unknown time if by
/// more than [`CLOCKS_DIFFER_MS`].
fn opened_ms(known: impl IntoIterator<Item = MetricId>) -> u64 {
    let now_ms = UNIX_EPOCH.elapsed().map_or(u64::MAX, |time| time.as_millis() as u64);
    let newest_ms = known.into_iter().filter_map(created_ms).max().unwrap_or(0);
    match newest_ms.saturating_sub(now_ms) {
        0 => now_ms,
        1..=CLOCKS_DIFFER_MS => now_ms + CLOCKS_DIFFER_MS,
        _ => u64::MAX,
    }
}

/// Unix time in ms at which a metric was created, if its id has it.
fn created_ms(metric: MetricId) -> Option<u64> {
    let made = metric.0.get_timestamp().filter(|_| metric.0.get_version_num() == 7)?;
    let (seconds, nanoseconds) = made.to_unix();
    Some(seconds * 1000 + u64::from(nanoseconds) / 1_000_000)
}

impl<'a> Entry<'a> {
    /// An entry in bytes that were read at `start` of the table.
    pub fn new(start: u64, bytes: &'a Bytes, at: usize, header: Header) -> Self {
        Self { offset: start + at as u64, header, bytes, at }
    }
}

/// A scan of a table from a key on.
pub struct Scan {
    low: Key,
    before: Before,
    /// The last entry up to `low`, and its offset.
    passed: Option<(Key, u64)>,
}

impl Scan {
    /// Returns the page where the scan begins, too.
    pub fn new(index: &Index, low: Key) -> (Self, usize) {
        let page = index.page_of(&low).unwrap_or(0);
        let before = index.pages.get(page).map_or(Before::Nothing, |(first, _)| Before::Lost(*first));
        (Self { low, before, passed: None }, page)
    }

    /// Passes entries from `low` on, and gaps, to `visit`, in order, until it breaks. `pages` begin with the first page
    /// of the scan or with the next one; the entries before `from` are skipped.
    pub fn visit<S: Site>(
        &mut self,
        table: &Table<S>,
        pages: &Pages,
        from: usize,
        visit: &mut dyn FnMut(Met<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let from = from.min(pages.bytes.len());
        let mut pieces = walk(&pages.bytes[from..]).peekable();
        while let Some(piece) = pieces.next() {
            let met = match piece {
                Piece::Entry(at, header) => {
                    let entry = Entry::new(pages.start, &pages.bytes, from + at, header);
                    self.before = Before::Whole(header.key);
                    if header.key <= self.low {
                        self.passed = Some((header.key, entry.offset));
                    }
                    if header.key < self.low {
                        continue;
                    }
                    Met::Entry(entry)
                }
                Piece::Gap(start, end) => {
                    let (start, end) = (from + start, from + end);
                    let offset = pages.start + start as u64;
                    table.report_gap(offset, &pages.bytes[start..end]);
                    let behind = match pieces.peek() {
                        Some(Piece::Entry(_, header)) => Some(header.key),
                        _ => table.index.pages.get(pages.last + 1).map(|(first, _)| *first),
                    };
                    Met::Gap(Gap { before: self.before, behind, place: table.site.place(offset) })
                }
            };
            visit(met)?;
        }
        ControlFlow::Continue(())
    }

    /// After the last page: entries behind it may be lost.
    pub fn end<S: Site>(self, table: &Table<S>, visit: &mut dyn FnMut(Met<'_>) -> ControlFlow<()>) {
        if table.index.is_cut {
            let place = table.site.place(table.index.entries_end);
            let _ = visit(Met::Gap(Gap { before: self.before, behind: None, place }));
        }
    }

    /// The last entry that was met up to the start of the scan, and its offset.
    pub fn passed(&self) -> Option<(Key, u64)> {
        self.passed
    }
}

#[cfg(test)]
mod tests {
    use gnudi_model::Timestamp;

    use super::{exercise::Memory, *};

    /// Otherwise older heads would come back where newer ones are lost.
    #[test]
    fn with_a_clock_that_is_behind_every_metric_may_have_lost_something() {
        let now_s = UNIX_EPOCH.elapsed().unwrap().as_secs() as i64;
        let metric = |after_s: i64| MetricId::new(Timestamp::from_secs(now_s + after_s), 7);
        let table = |first: MetricId| {
            let pages = vec![(Key::head(first), 0)];
            Table::new(Memory, Index { pages, ..Index::of_nothing() })
        };
        let (day, week) = (86_400, 7 * 86_400);
        let whole = table(metric(-day));
        assert!(whole.may_have_lost(metric(-week)) && !whole.may_have_lost(metric(week)));
        assert!(table(metric(day)).may_have_lost(metric(week)));
        // Another machine's clock is a little ahead.
        let shared = table(metric(100));
        assert!(shared.may_have_lost(metric(200)) && !shared.may_have_lost(metric(week)));
        let gone = |known: i64| Table::gone(Memory, [metric(-week), metric(known)]);
        assert!(!gone(-day).may_have_lost(metric(week)) && gone(day).may_have_lost(metric(week)));
    }
}
