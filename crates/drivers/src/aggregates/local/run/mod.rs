//! A run: an immutable sorted file of entries (`order`).
//!
//! `layout` has the format. Index and filter are held in memory: 48 bytes per page, 10 bits per metric. A
//! damaged index is rebuilt from the entries. A run's name is the range of log segments that it covers,
//! `low..=high`; of two runs that cover the same segment, the wider one was made from the other.

mod cursor;
pub mod filter;
mod heads;
mod layout;
mod order;
mod scan;
pub mod verify;
mod writer;

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::UNIX_EPOCH,
};

use gnudi_model::MetricId;

pub use self::{
    cursor::Cursor,
    layout::{Range, file_name, range_of},
    order::{Order, Place},
    scan::{Gap, Met, Scanner},
    writer::RunWriter,
};
use self::{
    filter::Filter,
    layout::{FOOTER_BYTES, Footer, HEADER_BYTES, INDEX_ENTRY_BYTES, format_of},
};
use crate::{
    OpenError,
    aggregates::{
        StoreError,
        entry::{self, Header, Kind, Piece, walk},
        key::{KEY_BYTES, Key},
    },
    disk::{Disk, DiskFile, read_exact_at},
    quarantine::Quarantine,
    segments::frame::u64_at,
};

/// How much is read to find one entry.
pub const PAGE_BYTES: usize = 32 << 10;
/// A head starts a new page once the current one has this size: passes read single heads, each with its whole
/// page. Costs at most one index entry per metric.
pub const HEAD_PAGE_BYTES: usize = 4 << 10;
/// The unit that reads as zeros when the disk cannot read it.
const PIECE_BYTES: u64 = 4096;
/// How much sequential readers read at once.
const STRETCH_BYTES: u64 = 1 << 20;

/// A run's entry for a key.
#[derive(Clone, Debug)]
pub enum Found {
    Value(Vec<u8>),
    Tombstone,
    Damaged(String),
}

pub struct Run {
    pub range: Range,
    pub path: PathBuf,
    pub bytes: u64,
    file: Arc<dyn DiskFile>,
    index: Vec<(Key, u64)>,
    entries_end: u64,
    pub order: Order,
    /// Number of deletion and loss marks. Mostly 0; then lookups of marks are skipped.
    pub marks: u64,
    filter: Filter,
    quarantine: Arc<Quarantine>,
    /// Whether entries with unknown keys were lost. Such a run is no longer merged: an older version of a
    /// lost entry must not reappear.
    pub has_gaps: AtomicBool,
    /// Whether entries behind the last whole one were lost.
    is_cut: bool,
    /// Unix time in ms at which the run was opened. Metrics created later have lost nothing in it.
    opened_ms: u64,
}

impl Run {
    pub fn open(
        disk: &dyn Disk,
        dir: &Path,
        range: Range,
        quarantine: &Arc<Quarantine>,
    ) -> Result<Self, OpenError> {
        let path = dir.join(file_name(range));
        Self::load(disk, path.clone(), range, quarantine)?.map_err(OpenError::io(path))
    }

    fn load(
        disk: &dyn Disk,
        path: PathBuf,
        range: Range,
        quarantine: &Arc<Quarantine>,
    ) -> Result<io::Result<Self>, OpenError> {
        let read = || -> io::Result<(Arc<dyn DiskFile>, u64, Vec<u8>)> {
            let file = disk.open(&path)?;
            let length = file.len()?;
            let mut header = vec![0; HEADER_BYTES.min(length as usize)];
            // An unreadable header counts as damaged.
            if read_exact_at(&*file, &mut header, 0).is_err() {
                header.fill(0);
            }
            Ok((file, length, header))
        };
        let (file, length, header) = match read() {
            Ok(read) => read,
            Err(error) => return Ok(Err(error)),
        };
        let format = format_of(&header, &path, quarantine)?;
        let mut run = Self {
            range,
            path,
            bytes: length,
            file,
            index: Vec::new(),
            entries_end: 0,
            order: format.map_or(Order::NEW, Order::of_format),
            marks: 0,
            opened_ms: UNIX_EPOCH.elapsed().map_or(u64::MAX, |time| time.as_millis() as u64),
            filter: Filter::everything(),
            quarantine: Arc::clone(quarantine),
            has_gaps: AtomicBool::new(false),
            is_cut: false,
        };
        Ok(run.load_index().map(|()| {
            if format.is_none() {
                let keys: Vec<Key> = run.index.iter().map(|(key, _)| *key).collect();
                run.order = Order::of_keys(&keys);
            }
            run
        }))
    }

    /// Reads index and filter; rebuilds a damaged index from the entries.
    fn load_index(&mut self) -> io::Result<()> {
        let mut bytes = [0; FOOTER_BYTES];
        let footer_at = self.bytes.saturating_sub(FOOTER_BYTES as u64);
        let read = read_exact_at(&*self.file, &mut bytes, footer_at);
        let footer = if read.is_ok() { Footer::parse(&bytes, self.bytes) } else { None };
        let Some(footer) = footer else {
            self.quarantine.report("end of a run", &self.path, footer_at, &bytes);
            return self.rebuild(None);
        };
        self.entries_end = footer.entries_end;
        self.marks = footer.marks;
        let filter_at = footer.entries_end + footer.index_bytes;
        match self
            .checked(filter_at, footer.filter_bytes, footer.filter_checksum)
            .and_then(Filter::from_bytes)
        {
            Some(filter) => self.filter = filter,
            None => self.quarantine.report("filter of a run", &self.path, filter_at, &[]),
        }
        let Some(index) = self.checked(footer.entries_end, footer.index_bytes, footer.index_checksum) else {
            self.quarantine.report("index of a run", &self.path, footer.entries_end, &[]);
            return self.rebuild(Some(&footer));
        };
        self.index = index
            .chunks_exact(INDEX_ENTRY_BYTES)
            .map(|entry| {
                let key = entry[..KEY_BYTES].try_into().expect("forty bytes");
                (Key::from_bytes(key), u64_at(entry, KEY_BYTES))
            })
            .collect();
        Ok(())
    }

    /// Bytes with a known checksum; `None` if it is wrong or they cannot be read.
    fn checked(&self, at: u64, length: u64, checksum: u32) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        let right =
            read_exact_at(&*self.file, &mut bytes, at).is_ok() && crc_fast::crc32_iscsi(&bytes) == checksum;
        right.then_some(bytes)
    }

    /// Rebuilds the index from the entries. A valid footer gives their end and the number of marks.
    /// Without one, all entries were found if the index follows the last of them.
    fn rebuild(&mut self, footer: Option<&Footer>) -> io::Result<()> {
        self.entries_end = footer.map_or(self.bytes, |footer| footer.entries_end);
        let mut index: Vec<(Key, u64)> = Vec::new();
        let mut first = None;
        // What follows the last entry is index and filter, not a gap.
        let mut cursor = Cursor::with_open_end(self);
        let (mut entries_end, mut marks) = (HEADER_BYTES as u64, 0);
        while let Some((at, header)) = cursor.next_header()? {
            first.get_or_insert((header.key, at));
            match index.last() {
                // Entries lost at the front belong to the first page.
                None => index.push((Key::SMALLEST, HEADER_BYTES as u64)),
                Some((_, page)) if at - page >= PAGE_BYTES as u64 => index.push((header.key, at)),
                Some(_) => {}
            }
            marks += u64::from(header.key.is_mark());
            entries_end = at + header.entry_bytes() as u64;
        }
        self.is_cut = match footer {
            Some(footer) => entries_end < footer.entries_end,
            None => !first.is_some_and(|first| self.index_begins(entries_end, first)),
        };
        if self.is_cut {
            if index.is_empty() {
                index.push((Key::SMALLEST, HEADER_BYTES as u64));
            }
            self.report_gap(entries_end, &[]);
        }
        // Marks may be among the lost entries.
        let lost = u64::from(self.has_gaps.load(Ordering::Relaxed));
        self.marks = footer.map_or(marks + lost, |footer| footer.marks);
        self.index = index;
        self.entries_end = entries_end;
        Ok(())
    }

    /// Whether the index of a run with this first whole entry begins at `at`.
    fn index_begins(&self, at: u64, (key, place): (Key, u64)) -> bool {
        let mut bytes = [0; INDEX_ENTRY_BYTES];
        let first_page = HEADER_BYTES as u64;
        read_exact_at(&*self.file, &mut bytes, at).is_ok()
            && u64_at(&bytes, KEY_BYTES) == first_page
            && (place > first_page || bytes[..KEY_BYTES] == key.bytes()[..])
    }

    pub fn may_contain(&self, metric: MetricId) -> bool {
        self.filter.may_contain(metric)
    }

    /// Whether a metric may have been among the lost entries: not if its id was created since.
    pub fn may_have_lost(&self, metric: MetricId) -> bool {
        let made = metric.0.get_timestamp().filter(|_| metric.0.get_version_num() == 7);
        made.is_none_or(|made| {
            let (seconds, nanoseconds) = made.to_unix();
            seconds * 1000 + u64::from(nanoseconds) / 1_000_000 <= self.opened_ms
        })
    }

    /// The entry at the offset of a header that a cursor has found.
    pub fn read_entry(&self, at: u64, header: &Header) -> io::Result<Found> {
        let mut bytes = vec![0; header.entry_bytes()];
        read_exact_at(&*self.file, &mut bytes, at)?;
        Ok(self.open_value(at, &bytes, 0, header))
    }

    /// The entry for a metric's head.
    pub fn find_head(&self, metric: MetricId) -> Result<Option<Found>, StoreError> {
        match self.find(&Key::head(metric))? {
            Some(found) => Ok(Some(found)),
            None => self.find_deletion(metric),
        }
    }

    /// The entry for a metric's deletion: a tombstone, or damaged.
    pub fn find_deletion(&self, metric: MetricId) -> Result<Option<Found>, StoreError> {
        if self.marks == 0 {
            return Ok(None);
        }
        let found = self.find(&Key::deletion(metric))?;
        Ok(found.filter(|found| matches!(found, Found::Tombstone | Found::Damaged(_))))
    }

    /// Where blocks of a metric with unknown keys were lost, according to a loss mark.
    pub fn find_loss(&self, metric: MetricId) -> Result<Option<String>, StoreError> {
        if self.marks == 0 {
            return Ok(None);
        }
        let key = Key::loss(metric);
        let Some(page) = self.page_of(&key) else { return Ok(None) };
        let (start, bytes) = self.read_pages(page, page)?;
        // Gaps are reported by scans.
        let marks = walk(&bytes).any(|piece| matches!(piece, Piece::Entry(_, header) if header.key == key));
        Ok(marks.then(|| format!("{}, found earlier", self.place(start))))
    }

    fn find(&self, key: &Key) -> Result<Option<Found>, StoreError> {
        let Some(page) = self.page_of(key) else { return Ok(None) };
        let (start, bytes) = self.read_pages(page, page)?;
        Ok(self.find_in_page(start, &bytes, key, &mut 0))
    }

    /// The entry for a key in the page that starts at `start` in the file. No entry before `from` is that of the
    /// key; sets `from` for keys behind it.
    fn find_in_page(&self, start: u64, bytes: &[u8], key: &Key, from: &mut usize) -> Option<Found> {
        let place = self.order.place(key);
        let mut before = None;
        let skipped = *from;
        for piece in walk(&bytes[skipped..]) {
            match piece {
                Piece::Entry(at, header) => {
                    let here = self.order.place(&header.key);
                    if here <= place {
                        *from = skipped + at;
                    }
                    match here.cmp(&place) {
                        std::cmp::Ordering::Less => before = Some(here),
                        std::cmp::Ordering::Equal => {
                            return Some(self.open_value(start, bytes, skipped + at, &header));
                        }
                        std::cmp::Ordering::Greater => return None,
                    }
                }
                Piece::Gap(from, to) => {
                    let (from, to) = (skipped + from, skipped + to);
                    self.report_gap(start + from as u64, &bytes[from..to]);
                    // The key may have been here: an older version must not be taken for the newest.
                    let behind = Header::parse(&bytes[to..]).map(|header| self.order.place(&header.key));
                    if self.may_have_lost(key.metric())
                        && before.is_none_or(|before| before < place)
                        && behind.is_none_or(|behind| behind > place)
                    {
                        return Some(Found::Damaged(self.place(start + from as u64)));
                    }
                }
            }
        }
        // In a run with a lost end, the key may have been there, too.
        let end = start + bytes.len() as u64;
        let may_be_cut = self.is_cut && end == self.entries_end && self.may_have_lost(key.metric());
        may_be_cut.then(|| Found::Damaged(self.place(end)))
    }

    /// The page that would contain the key.
    fn page_of(&self, key: &Key) -> Option<usize> {
        let place = self.order.place(key);
        self.index.partition_point(|(first, _)| self.order.place(first) <= place).checked_sub(1)
    }

    /// The last page that ends within `bytes` of the start of `first`; at least `first` itself.
    fn pages_within(&self, first: usize, bytes: u64) -> usize {
        let limit = self.index[first].1 + bytes;
        (first + 1..self.index.len()).take_while(|page| self.page_end(*page) <= limit).last().unwrap_or(first)
    }

    fn page_end(&self, page: usize) -> u64 {
        self.index.get(page + 1).map_or(self.entries_end, |(_, at)| *at)
    }

    fn read_pages(&self, first: usize, last: usize) -> Result<(u64, Vec<u8>), StoreError> {
        let mut bytes = Vec::new();
        let start = self.read_pages_into(first, last, &mut bytes)?;
        Ok((start, bytes))
    }

    /// Returns the offset of the pages in the file. On an error, the contents of `bytes` are unspecified.
    fn read_pages_into(&self, first: usize, last: usize, bytes: &mut Vec<u8>) -> Result<u64, StoreError> {
        let start = self.index[first].1;
        bytes.resize((self.page_end(last) - start) as usize, 0);
        if let Err(error) = read_exact_at(&*self.file, bytes, start) {
            self.read_pieces(start, bytes)
                .map_err(|at| StoreError::Io(format!("{} at {at}: {error}", self.path.display())))?;
        }
        Ok(start)
    }

    /// Reads in pieces after a joint read has failed. One bad place must not cost the rest: after a while it
    /// reads as zeros, which never parse as an entry. Until then fails with its offset.
    fn read_pieces(&self, start: u64, bytes: &mut [u8]) -> Result<(), u64> {
        let (mut at, mut rest) = (start, bytes);
        while !rest.is_empty() {
            // Aligned to the disk's blocks, so that the bad block's neighbours are not lost.
            let length = (PIECE_BYTES - at % PIECE_BYTES).min(rest.len() as u64);
            let (piece, behind) = rest.split_at_mut(length as usize);
            if let Err(error) = read_exact_at(&*self.file, piece, at) {
                if !self.quarantine.is_given_up(&self.path, at) {
                    return Err(at);
                }
                self.quarantine.report(&format!("piece, unreadable: {error}"), &self.path, at, &[]);
                piece.fill(0);
            }
            (at, rest) = (at + length, behind);
        }
        Ok(())
    }

    /// Like [`Run::read_pieces`], but unreadable pieces read as zeros at once.
    fn read_leaving_out(&self, start: u64, bytes: &mut [u8]) {
        let (mut at, mut rest) = (start, bytes);
        while !rest.is_empty() {
            let length = (PIECE_BYTES - at % PIECE_BYTES).min(rest.len() as u64);
            let (piece, behind) = rest.split_at_mut(length as usize);
            if let Err(error) = read_exact_at(&*self.file, piece, at) {
                self.quarantine.report(&format!("piece, unreadable: {error}"), &self.path, at, &[]);
                piece.fill(0);
            }
            (at, rest) = (at + length, behind);
        }
    }

    /// Validates a value, and reports damage.
    fn open_value(&self, start: u64, bytes: &[u8], at: usize, header: &Header) -> Found {
        let value = &bytes[at + entry::HEADER_BYTES..][..header.length as usize];
        match header.kind {
            Kind::Tombstone => Found::Tombstone,
            Kind::Value if header.fits(value) => Found::Value(value.to_vec()),
            Kind::Value => {
                let offset = start + at as u64;
                self.quarantine.report("value", &self.path, offset, &bytes[at..at + header.entry_bytes()]);
                Found::Damaged(self.place(offset))
            }
            Kind::Damaged => Found::Damaged(format!("{}, found earlier", self.place(start + at as u64))),
        }
    }

    fn place(&self, offset: u64) -> String {
        format!("{} at {offset}", self.path.display())
    }

    fn report_gap(&self, offset: u64, bytes: &[u8]) {
        self.has_gaps.store(true, Ordering::Relaxed);
        self.quarantine.report("entry", &self.path, offset, bytes);
    }
}

/// An entry that was read, its value unopened.
pub struct Seen<'a> {
    run: &'a Run,
    start: u64,
    bytes: &'a [u8],
    at: usize,
    header: Header,
}

impl Seen<'_> {
    pub fn key(&self) -> Key {
        self.header.key
    }

    pub fn kind(&self) -> Kind {
        self.header.kind
    }

    pub fn open(&self) -> Found {
        self.run.open_value(self.start, self.bytes, self.at, &self.header)
    }
}
