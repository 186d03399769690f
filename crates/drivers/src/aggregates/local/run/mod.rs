//! A run: an immutable file of entries, sorted (`order`).
//!
//! `layout` has the format. Index and filter are held in memory: 48 bytes for each page, 10 bits for each metric. Both
//! can be made again from the entries, should they be damaged. A run is named by the segments of the log that it holds,
//! `low..=high`; of two that hold the same segment, the one that holds more was made from the other.

mod cursor;
pub mod filter;
mod heads;
mod layout;
mod order;
mod writer;

use std::{
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use gnudi_model::MetricId;

pub use self::{
    cursor::Cursor,
    layout::{Range, file_name, range_of},
    order::{Order, Place},
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
/// A head starts a new page where the last one has this size: a pass reads single heads, and of each a whole page. Costs
/// at most one index entry a metric.
pub const HEAD_PAGE_BYTES: usize = 4 << 10;
/// How much is given up where the disk cannot read.
const PIECE_BYTES: u64 = 4096;
/// How much is read at once where much is wanted.
const STRETCH_BYTES: u64 = 1 << 20;

/// What a run says of a key.
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
    /// How many metrics' deletions it holds: mostly none, and then nobody has to look for them.
    deletions: u64,
    filter: Filter,
    quarantine: Arc<Quarantine>,
    /// Whether entries have been lost, so that their keys are not known: such a run is not merged any more, for an older
    /// version of what is lost must not come up.
    pub has_gaps: AtomicBool,
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
            read_exact_at(&*file, &mut header, 0)?;
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
            deletions: 0,
            filter: Filter::everything(),
            quarantine: Arc::clone(quarantine),
            has_gaps: AtomicBool::new(false),
        };
        Ok(run.load_index().map(|()| {
            if format.is_none() {
                let keys: Vec<Key> = run.index.iter().map(|(key, _)| *key).collect();
                run.order = Order::of_keys(&keys);
            }
            run
        }))
    }

    /// Reads index and filter, or makes the index again from the entries.
    fn load_index(&mut self) -> io::Result<()> {
        let mut bytes = [0; FOOTER_BYTES];
        let footer_at = self.bytes.saturating_sub(FOOTER_BYTES as u64);
        let read = read_exact_at(&*self.file, &mut bytes, footer_at);
        let footer = if read.is_ok() { Footer::parse(&bytes, self.bytes) } else { None };
        let Some(footer) = footer else {
            self.quarantine.report("end of a run", &self.path, footer_at, &bytes);
            return self.rebuild(footer_at);
        };
        self.entries_end = footer.entries_end;
        self.deletions = footer.deletions;
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
            return self.rebuild(footer.entries_end);
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

    /// Bytes with a known checksum; `None` where it is wrong or they cannot be read.
    fn checked(&self, at: u64, length: u64, checksum: u32) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        let right =
            read_exact_at(&*self.file, &mut bytes, at).is_ok() && crc_fast::crc32_iscsi(&bytes) == checksum;
        right.then_some(bytes)
    }

    /// Makes the index again, of the entries found before `limit`.
    fn rebuild(&mut self, limit: u64) -> io::Result<()> {
        self.entries_end = limit;
        let mut index: Vec<(Key, u64)> = Vec::new();
        // What follows the last entry is index and filter, and no gap.
        let mut cursor = Cursor::with_open_end(self);
        let (mut entries_end, mut deletions) = (HEADER_BYTES as u64, 0);
        while let Some((at, header)) = cursor.next_header()? {
            match index.last() {
                // Whatever was lost in front belongs to the first page.
                None => index.push((Key::SMALLEST, HEADER_BYTES as u64)),
                Some((_, page)) if at - page >= PAGE_BYTES as u64 => index.push((header.key, at)),
                Some(_) => {}
            }
            deletions += u64::from(header.key.is_deletion());
            entries_end = at + header.entry_bytes() as u64;
        }
        self.index = index;
        self.deletions = deletions;
        self.entries_end = entries_end;
        Ok(())
    }

    pub fn may_contain(&self, metric: MetricId) -> bool {
        self.filter.may_contain(metric)
    }

    /// The entry at an offset where a cursor has found its header.
    pub fn read_entry(&self, at: u64, header: &Header) -> io::Result<Found> {
        let mut bytes = vec![0; header.entry_bytes()];
        read_exact_at(&*self.file, &mut bytes, at)?;
        Ok(self.open_value(at, &bytes, 0, header))
    }

    /// What the run says of a metric's head.
    pub fn find_head(&self, metric: MetricId) -> Result<Option<Found>, StoreError> {
        match self.find(&Key::head(metric))? {
            Some(found) => Ok(Some(found)),
            None => Ok(self.deletes(metric)?.then_some(Found::Tombstone)),
        }
    }

    /// Whether all that older runs have of a metric is void.
    pub fn deletes(&self, metric: MetricId) -> Result<bool, StoreError> {
        Ok(self.deletions > 0 && matches!(self.find(&Key::deletion(metric))?, Some(Found::Tombstone)))
    }

    fn find(&self, key: &Key) -> Result<Option<Found>, StoreError> {
        let Some(page) = self.page_of(key) else { return Ok(None) };
        let (start, bytes) = self.read_pages(page, page)?;
        Ok(self.find_in_page(start, &bytes, key))
    }

    /// What a page, which starts at `start` in the file, says of a key.
    fn find_in_page(&self, start: u64, bytes: &[u8], key: &Key) -> Option<Found> {
        let place = self.order.place(key);
        let mut before = None;
        for piece in walk(bytes) {
            match piece {
                Piece::Entry(at, header) => {
                    let here = self.order.place(&header.key);
                    match here.cmp(&place) {
                        std::cmp::Ordering::Less => before = Some(here),
                        std::cmp::Ordering::Equal => {
                            return Some(self.open_value(start, bytes, at, &header));
                        }
                        std::cmp::Ordering::Greater => break,
                    }
                }
                Piece::Gap(from, to) => {
                    self.report_gap(start + from as u64, &bytes[from..to]);
                    // The key may have been here: an older version must not be taken for the newest.
                    let behind = Header::parse(&bytes[to..]).map(|header| self.order.place(&header.key));
                    if before.is_none_or(|before| before < place)
                        && behind.is_none_or(|behind| behind > place)
                    {
                        return Some(Found::Damaged(self.place(start + from as u64)));
                    }
                }
            }
        }
        None
    }

    /// Shows the entries from `low` on, in order, values unopened, until `visit` has enough or there are no more.
    pub fn scan(
        &self,
        low: &Key,
        visit: &mut dyn FnMut(Seen<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let low_place = self.order.place(low);
        let mut page = self.page_of(low).unwrap_or(0);
        let mut stretch_bytes = PAGE_BYTES as u64;
        while page < self.index.len() {
            let last = self.pages_within(page, stretch_bytes);
            let (start, bytes) = self.read_pages(page, last)?;
            for piece in walk(&bytes) {
                match piece {
                    Piece::Entry(at, header) if self.order.place(&header.key) >= low_place => {
                        if visit(Seen { run: self, start, bytes: &bytes, at, header }).is_break() {
                            return Ok(());
                        }
                    }
                    Piece::Entry(..) => {}
                    Piece::Gap(from, to) => self.report_gap(start + from as u64, &bytes[from..to]),
                }
            }
            page = last + 1;
            // Most scans end soon; the long ones read more and more at once.
            stretch_bytes = (stretch_bytes * 2).min(STRETCH_BYTES);
        }
        Ok(())
    }

    /// The page in which a key lies, if it is there at all.
    fn page_of(&self, key: &Key) -> Option<usize> {
        let place = self.order.place(key);
        self.index.partition_point(|(first, _)| self.order.place(first) <= place).checked_sub(1)
    }

    /// The last page that ends within `bytes` of the start of `first`; `first` itself in any case.
    fn pages_within(&self, first: usize, bytes: u64) -> usize {
        let limit = self.index[first].1 + bytes;
        (first + 1..self.index.len()).take_while(|page| self.page_end(*page) <= limit).last().unwrap_or(first)
    }

    fn page_end(&self, page: usize) -> u64 {
        self.index.get(page + 1).map_or(self.entries_end, |(_, at)| *at)
    }

    fn read_pages(&self, first: usize, last: usize) -> Result<(u64, Vec<u8>), StoreError> {
        let start = self.index[first].1;
        let mut bytes = vec![0; (self.page_end(last) - start) as usize];
        if let Err(error) = read_exact_at(&*self.file, &mut bytes, start) {
            self.read_pieces(start, &mut bytes)
                .map_err(|at| StoreError::Io(format!("{} at {at}: {error}", self.path.display())))?;
        }
        Ok((start, bytes))
    }

    /// Reads what the disk has failed to read at once. A bad place must not cost the rest: after a while it counts as zeros, which
    /// are no entry. Until then fails with its offset.
    fn read_pieces(&self, start: u64, bytes: &mut [u8]) -> Result<(), u64> {
        let (mut at, mut rest) = (start, bytes);
        while !rest.is_empty() {
            // At the disk's boundaries: what is beside the bad place is whole.
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

    /// Checks a value, reporting it where it is damaged.
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
            Kind::Damaged => Found::Damaged(format!("{}, known from before", self.place(start + at as u64))),
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

/// An entry that a scan meets.
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
