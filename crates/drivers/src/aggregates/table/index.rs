//! A table's index, in memory: 48 bytes for each page, and the filter, 10 bits for each metric.

use super::{
    PAGE_BYTES, Wanted,
    entry::{Header, Piece, walk},
    filter::Filter,
    layout::{Footer, HEADER_BYTES, INDEX_ENTRY_BYTES},
};
use crate::{
    aggregates::{
        BlockRange,
        key::{KEY_BYTES, Key},
    },
    segments::frame::u64_at,
};

#[derive(Debug)]
pub struct Index {
    /// The first key of each page, and its offset.
    pub pages: Vec<(Key, u64)>,
    pub entries_end: u64,
    /// Number of deletion and loss marks. Mostly 0; then look-ups of marks are skipped.
    pub marks: u64,
    pub filter: Filter,
    /// Whether a rebuilt index lacks entries.
    pub has_gaps: bool,
    /// Whether entries behind the last whole one were lost.
    pub is_cut: bool,
}

/// What is left of a damaged index.
pub struct DamagedIndex {
    pub footer: Option<Footer>,
    pub filter: Filter,
}

/// What is damaged, and its offset.
pub type Report<'a> = &'a mut dyn FnMut(&str, u64);

impl Index {
    /// From the bytes between the entries and the footer.
    pub fn parse(footer: Footer, bytes: &[u8], report: Report<'_>) -> Result<Self, DamagedIndex> {
        let (index, filter) = bytes.split_at_checked(footer.index_bytes as usize).unwrap_or_default();
        let is_whole = crc_fast::crc32_iscsi(filter) == footer.filter_checksum;
        let parsed = if is_whole { Filter::from_bytes(filter.to_vec()) } else { None };
        let filter = parsed.unwrap_or_else(|| {
            report("filter of a table", footer.entries_end + footer.index_bytes);
            Filter::everything()
        });
        let is_whole = crc_fast::crc32_iscsi(index) == footer.index_checksum;
        let pages = pages_of(index);
        if !is_whole || !are_pages(&pages, footer.entries_end) {
            report("index of a table", footer.entries_end);
            return Err(DamagedIndex { footer: Some(footer), filter });
        }
        let Footer { entries_end, marks, .. } = footer;
        Ok(Self { pages, entries_end, marks, filter, has_gaps: false, is_cut: false })
    }

    /// Of a table whose entries are all lost.
    pub fn of_nothing() -> Self {
        let start = HEADER_BYTES as u64;
        Self {
            pages: vec![(Key::SMALLEST, start)],
            entries_end: start,
            // Marks may be among the lost entries.
            marks: 1,
            filter: Filter::everything(),
            has_gaps: true,
            is_cut: true,
        }
    }

    /// The page that would contain the key.
    pub fn page_of(&self, key: &Key) -> Option<usize> {
        self.pages.partition_point(|(first, _)| first <= key).checked_sub(1)
    }

    /// The last page that may have a block of the range, of a table without tombstones.
    pub fn last_page_of(&self, range: &BlockRange) -> usize {
        // Blocks do not overlap: of those that end at or after the end of the range, only the first may begin in it.
        let last = Key::bounds(&BlockRange { from: range.to, ..*range }).0;
        let page = self.page_of(&last).unwrap_or(0);
        let begins_next = |(first, _): &(Key, u64)| {
            first.as_block().is_some_and(|block| {
                (block.metric, block.granularity) == (range.metric, range.granularity)
                    && block.first <= range.to
            })
        };
        page + usize::from(self.pages.get(page + 1).is_some_and(begins_next))
    }

    pub fn page_start(&self, page: usize) -> u64 {
        self.pages[page].1
    }

    pub fn page_end(&self, page: usize) -> u64 {
        self.pages.get(page + 1).map_or(self.entries_end, |(_, at)| *at)
    }

    /// The last page that ends within `bytes` of the start of `first`; at least `first` itself.
    pub fn pages_within(&self, first: usize, bytes: u64) -> usize {
        let limit = self.page_start(first) + bytes;
        (first + 1..self.pages.len()).take_while(|page| self.page_end(*page) <= limit).last().unwrap_or(first)
    }

    /// Divides what is wanted, sorted, into spans to read at once: unwanted pages between them have at most `gap_bytes`,
    /// a span of several pages has at most `span_bytes_max`.
    pub fn spans<'w>(&self, wanted: &'w [Wanted], gap_bytes: u64, span_bytes_max: u64) -> Vec<&'w [Wanted]> {
        let (mut spans, mut rest) = (Vec::new(), wanted);
        while let Some(Wanted { page: first, .. }) = rest.first() {
            let limit = self.page_start(*first).saturating_add(span_bytes_max);
            let mut last = *first;
            let is_near = |wanted: &&Wanted| {
                let skipped = self.page_start(wanted.page).saturating_sub(self.page_end(last));
                let fits = skipped <= gap_bytes && self.page_end(wanted.page) <= limit;
                let is_near = wanted.page == *first || fits;
                last = if is_near { wanted.page } else { last };
                is_near
            };
            let (span, behind) = rest.split_at(rest.iter().take_while(is_near).count());
            spans.push(span);
            rest = behind;
        }
        spans
    }

    /// In memory.
    pub fn bytes(&self) -> usize {
        self.pages.len() * INDEX_ENTRY_BYTES + self.filter.bytes().len()
    }
}

fn pages_of(index: &[u8]) -> Vec<(Key, u64)> {
    let page = |entry: &[u8]| {
        let key = entry[..KEY_BYTES].try_into().expect("forty bytes");
        (Key::from_bytes(key), u64_at(entry, KEY_BYTES))
    };
    index.chunks_exact(INDEX_ENTRY_BYTES).map(page).collect()
}

/// Whether the pages divide the entries, in order.
fn are_pages(pages: &[(Key, u64)], entries_end: u64) -> bool {
    let start = HEADER_BYTES as u64;
    pages.first().map_or(start, |(_, at)| *at) == start
        && pages.is_sorted_by(|(key, at), (next_key, next)| key < next_key && at < next)
        && pages.last().is_none_or(|(_, at)| *at < entries_end)
}

/// Rebuilds a damaged index from the entries.
pub struct Rebuild {
    pages: Vec<(Key, u64)>,
    first: Option<(Key, u64)>,
    end: u64,
    marks: u64,
}

impl Default for Rebuild {
    fn default() -> Self {
        Self { pages: Vec::new(), first: None, end: HEADER_BYTES as u64, marks: 0 }
    }
}

impl Rebuild {
    /// From the whole bytes of a table, whose entries end at `entries_end`.
    pub fn of_bytes(whole: &[u8], entries_end: u64, damaged: DamagedIndex) -> Index {
        let end = whole.len().min(usize::try_from(entries_end).unwrap_or(usize::MAX));
        let (mut rebuild, mut has_gaps) = (Self::default(), false);
        for piece in walk(whole.get(HEADER_BYTES..end).unwrap_or_default()) {
            match piece {
                Piece::Entry(at, header) => rebuild.add((HEADER_BYTES + at) as u64, &header),
                Piece::Gap(..) => has_gaps = true,
            }
        }
        let is_cut = rebuild.end < entries_end;
        rebuild.finish(damaged, has_gaps, is_cut)
    }

    /// Adds the next entry and its offset.
    pub fn add(&mut self, at: u64, header: &Header) {
        self.first.get_or_insert((header.key, at));
        match self.pages.last() {
            // Entries lost at the front belong to the first page.
            None => self.pages.push((Key::SMALLEST, HEADER_BYTES as u64)),
            Some((_, page)) if at - page >= PAGE_BYTES as u64 => self.pages.push((header.key, at)),
            Some(_) => {}
        }
        self.marks += u64::from(header.key.is_mark());
        self.end = at + header.entry_bytes() as u64;
    }

    /// Where the entries that were found end.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Whether `bytes`, which follow the entries that were found, begin the index of these entries: then none is
    /// lost behind them.
    pub fn is_index(&self, bytes: &[u8]) -> bool {
        let Some((key, at)) = self.first else { return false };
        let first_page = HEADER_BYTES as u64;
        bytes.len() >= INDEX_ENTRY_BYTES
            && u64_at(bytes, KEY_BYTES) == first_page
            && (at > first_page || bytes[..KEY_BYTES] == key.bytes()[..])
    }

    /// A valid footer gives the number of marks. `is_cut`: entries behind those that were found are lost.
    pub fn finish(mut self, damaged: DamagedIndex, has_gaps: bool, is_cut: bool) -> Index {
        let DamagedIndex { footer, filter } = damaged;
        if is_cut && self.pages.is_empty() {
            self.pages.push((Key::SMALLEST, HEADER_BYTES as u64));
        }
        // Marks may be among the lost entries.
        let has_gaps = has_gaps || is_cut;
        let marks = footer.map_or(self.marks + u64::from(has_gaps), |footer| footer.marks);
        Index { pages: self.pages, entries_end: self.end, marks, filter, has_gaps, is_cut }
    }
}
