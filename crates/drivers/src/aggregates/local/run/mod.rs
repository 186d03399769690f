//! A run: a file with one [`Table`].
//!
//! A run's name says its level and the range of log segments that it covers, `low..=high`; of two runs of a level that
//! cover the same segment, the wider one was made from the other. A damaged index is rebuilt from the entries.

mod cursor;
mod scan;
pub mod verify;
mod writer;

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use gnudi_model::MetricId;

use self::cursor::Cursor;
pub use self::{scan::Scanner, writer::RunWriter};
use crate::{
    OpenError,
    aggregates::{
        StoreError,
        key::Key,
        table::{
            DamagedIndex, Filter, Found, Index, PAGE_BYTES, Pages, Rebuild, Site, Table, Wanted,
            entry::{Header, Piece, walk},
            layout::{self, FOOTER_BYTES, FORMAT_VERSION, Footer, HEADER_BYTES, INDEX_ENTRY_BYTES},
            levels::Level,
        },
    },
    disk::{Disk, DiskFile, pieces, read_exact_at},
    quarantine::Quarantine,
    read_buffer,
    segments::Patience,
};

/// How much sequential readers read at once.
pub const STRETCH_BYTES: u64 = 1 << 20;
/// Up to how many unwanted bytes are read to save a system call, and how much is read at once for heads.
const GAP_BYTES: u64 = PAGE_BYTES as u64;
const SPAN_BYTES_MAX: u64 = 256 << 10;

/// The numbers of the log's segments that a run covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    pub low: u32,
    pub high: u32,
}

impl Range {
    pub fn contains(self, other: Range) -> bool {
        self.low <= other.low && other.high <= self.high
    }
}

/// A run's level and range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunName {
    pub level: Level,
    pub range: Range,
}

impl RunName {
    /// Of a run with heads and blocks.
    pub fn new(range: Range) -> Self {
        Self { level: Level::New, range }
    }

    /// `00000001-00000004.run`, or `.heads.run`, or `.blocks.run`
    pub fn file(self) -> String {
        let kind = match self.level {
            Level::New => "",
            Level::Heads => ".heads",
            Level::Blocks => ".blocks",
        };
        format!("{:08x}-{:08x}{kind}.run", self.range.low, self.range.high)
    }

    /// The inverse of [`RunName::file`]; `None` for other files.
    pub fn of_file(file: &str) -> Option<Self> {
        let (low, rest) = file.split_once('-')?;
        let (high, _) = rest.split_once('.')?;
        let number = |text| u32::from_str_radix(text, 16).ok();
        let range = Range { low: number(low)?, high: number(high)? };
        Level::ALL.map(|level| Self { level, range }).into_iter().find(|name| name.file() == file)
    }
}

pub struct Run {
    pub name: RunName,
    pub bytes: u64,
    pub table: Arc<Table<RunFile>>,
}

/// A run's file.
pub struct RunFile {
    pub path: PathBuf,
    /// `None` if it is gone.
    file: Option<Arc<dyn DiskFile>>,
    quarantine: Arc<Quarantine>,
    /// With a device that fails to read index or entries while the run is opened.
    patience: Arc<Patience>,
}

impl Site for RunFile {
    fn place(&self, offset: u64) -> String {
        format!("{} at {offset}", self.path.display())
    }

    fn report(&self, what: &str, offset: u64, bytes: &[u8]) {
        self.quarantine.report(what, &self.path, offset, bytes);
    }
}

impl PartialEq for Run {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Run {
    /// Opens a run that was just written.
    pub fn open(
        disk: &dyn Disk,
        dir: &Path,
        name: RunName,
        quarantine: &Arc<Quarantine>,
    ) -> Result<Self, OpenError> {
        Self::open_patiently(disk, dir, name, quarantine, &Arc::new(Patience::new(Duration::ZERO)))
    }

    /// Opens a run; waits for a device that fails to read, as long as there is patience.
    pub(super) fn open_patiently(
        disk: &dyn Disk,
        dir: &Path,
        name: RunName,
        quarantine: &Arc<Quarantine>,
        patience: &Arc<Patience>,
    ) -> Result<Self, OpenError> {
        let path = dir.join(name.file());
        let file = disk.open(&path).map_err(OpenError::io(&path))?;
        let bytes = file.len().map_err(OpenError::io(&path))?;
        let (quarantine, patience) = (Arc::clone(quarantine), Arc::clone(patience));
        let site = RunFile { path, file: Some(file), quarantine, patience };
        let mut header = vec![0; HEADER_BYTES.min(bytes as usize)];
        site.read_leaving_out(0, &mut header);
        match layout::version_of(&header) {
            Some(found) if found > FORMAT_VERSION => {
                return Err(OpenError::TooNew { path: site.path, found, known: FORMAT_VERSION });
            }
            Some(0) => {
                let reason = "was written by a development version, and is no longer read";
                return Err(OpenError::invalid(site.path, reason));
            }
            Some(_) => {}
            None => site.report("header of a run", 0, &header),
        }
        let index = site.load_index(bytes);
        Ok(Self { name, bytes, table: Arc::new(Table::new(site, index)) })
    }

    /// A run whose file is gone, which is reported: any entry may have been in it. `known`: see [`Table::gone`].
    pub fn lost(
        dir: &Path,
        name: RunName,
        quarantine: &Arc<Quarantine>,
        known: impl IntoIterator<Item = MetricId>,
    ) -> Self {
        let path = dir.join(name.file());
        let (quarantine, patience) = (Arc::clone(quarantine), Arc::new(Patience::new(Duration::ZERO)));
        let site = RunFile { path, file: None, quarantine, patience };
        site.report("run, whose file is gone", 0, &[]);
        Self { name, bytes: 0, table: Arc::new(Table::gone(site, known)) }
    }

    pub fn path(&self) -> &Path {
        &self.table.site.path
    }

    pub fn may_contain(&self, metric: MetricId) -> bool {
        self.table.may_contain(metric)
    }

    /// Each metric's head, or its deletion; in any order, but faster for neighbours.
    pub fn find_heads(&self, metrics: &[MetricId]) -> Vec<Result<Option<Found>, StoreError>> {
        let keys = metrics.iter().enumerate();
        let keys = keys.flat_map(|(of, metric)| self.table.head_keys(*metric).map(move |key| (of, key)));
        let mut found: Vec<_> = metrics.iter().map(|_| Ok(None)).collect();
        self.find_all(keys, &mut |wanted, entry| {
            let found: &mut Result<Option<Found>, StoreError> = &mut found[wanted.of];
            match entry {
                Err(error) => *found = Err(error),
                // What was found for the head counts more.
                Ok(entry) if wanted.key.is_head() || matches!(found, Ok(None)) => *found = Ok(Some(entry)),
                Ok(_) => {}
            }
        });
        found
    }

    /// The entry for a metric's deletion: a tombstone, or damaged.
    pub fn find_deletion(&self, metric: MetricId) -> Result<Option<Found>, StoreError> {
        let mut found = Ok(None);
        if self.table.index.marks > 0 {
            let key = Key::deletion(metric);
            self.find_all([(0, key)].into_iter(), &mut |_, entry| found = entry.map(Some));
        }
        found
    }

    /// Where blocks of a metric with unknown keys were lost, according to a loss mark.
    pub fn find_loss(&self, metric: MetricId) -> Result<Option<String>, StoreError> {
        let (index, key) = (&self.table.index, Key::loss(metric));
        let Some(page) = index.page_of(&key).filter(|_| index.marks > 0) else { return Ok(None) };
        let pages = self.read_pages(page, page)?;
        // Gaps are reported by scans.
        let is_mark = |piece| matches!(piece, Piece::Entry(_, Header { key: found, .. }) if found == key);
        let is_there = walk(&pages.bytes).any(is_mark);
        Ok(is_there.then(|| format!("{}, found earlier", self.table.site.place(pages.start))))
    }

    /// Calls `found` for the keys that are there, and for those that cannot be read.
    fn find_all(
        &self,
        keys: impl Iterator<Item = (usize, Key)>,
        found: &mut dyn FnMut(&Wanted, Result<Found, StoreError>),
    ) {
        let wanted = self.table.wanted(keys);
        for span in self.table.index.spans(&wanted, GAP_BYTES, SPAN_BYTES_MAX) {
            let Err(_) = self.find_span(span, found) else { continue };
            // A failed joint read may succeed for a page alone.
            for of_page in span.chunk_by(|one, next| one.page == next.page) {
                if let Err(error) = self.find_span(of_page, found) {
                    for wanted in of_page {
                        found(wanted, Err(error.clone()));
                    }
                }
            }
        }
    }

    fn find_span(
        &self,
        span: &[Wanted],
        found: &mut dyn FnMut(&Wanted, Result<Found, StoreError>),
    ) -> Result<(), StoreError> {
        let pages = self.read_pages(span[0].page, span[span.len() - 1].page)?;
        self.table.find_all(&pages, span, |wanted, entry| found(wanted, Ok(entry)));
        Ok(())
    }

    fn read_pages(&self, first: usize, last: usize) -> Result<Pages, StoreError> {
        self.table.site.read_pages(&self.table.index, first, last)
    }
}

impl RunFile {
    fn read_exact(&self, bytes: &mut [u8], start: u64) -> io::Result<()> {
        match &self.file {
            Some(file) => read_exact_at(&**file, bytes, start),
            // The index of a lost run has no pages.
            None if bytes.is_empty() => Ok(()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    /// Reads index and filter; rebuilds a damaged index from the entries.
    fn load_index(&self, length: u64) -> Index {
        let mut bytes = vec![0; FOOTER_BYTES.min(length as usize)];
        let footer_at = length - bytes.len() as u64;
        let read = self.read_patiently(&mut bytes, footer_at);
        let footer = if read.is_ok() { Footer::parse(&bytes, length) } else { None };
        let Some(footer) = footer else {
            self.report("end of a run", footer_at, &bytes);
            return self.rebuild(length, DamagedIndex { footer: None, filter: Filter::everything() });
        };
        let mut bytes = vec![0; (footer_at - footer.entries_end) as usize];
        self.read_leaving_out(footer.entries_end, &mut bytes);
        Index::parse(footer, &bytes, &mut |what, offset| self.report(what, offset, &[]))
            .unwrap_or_else(|damaged| self.rebuild(length, damaged))
    }

    /// Rebuilds the index from the entries. A valid footer gives their end and the number of marks. Without one,
    /// all entries were found if the index follows the last of them.
    fn rebuild(&self, length: u64, damaged: DamagedIndex) -> Index {
        let footer = damaged.footer.as_ref();
        let entries_end = footer.map_or(length, |footer| footer.entries_end);
        // What follows the last entry is index and filter, not a gap.
        let mut cursor = Cursor::new(self, entries_end);
        let mut rebuild = Rebuild::default();
        while let Some((at, header)) = cursor.next_header() {
            rebuild.add(at, &header);
        }
        let is_cut = match footer {
            Some(footer) => rebuild.end() < footer.entries_end,
            None => !self.begins_index(&rebuild),
        };
        if is_cut {
            self.report("entry", rebuild.end(), &[]);
        }
        rebuild.finish(damaged, cursor.has_gaps, is_cut)
    }

    /// Whether an index follows the entries that were found.
    fn begins_index(&self, rebuild: &Rebuild) -> bool {
        let mut bytes = [0; INDEX_ENTRY_BYTES];
        self.read_patiently(&mut bytes, rebuild.end()).is_ok() && rebuild.is_index(&bytes)
    }

    pub fn read_pages(&self, index: &Index, first: usize, last: usize) -> Result<Pages, StoreError> {
        let start = index.page_start(first);
        let end = index.page_end(last);
        let bytes =
            read_buffer::filled((end - start) as usize, |bytes| match self.read_exact(bytes, start) {
                Ok(()) => {
                    self.quarantine.was_read(&self.path, start..end);
                    Ok(())
                }
                Err(error) => self
                    .read_pieces(start, bytes, &|path, at| self.quarantine.is_given_up(path, at))
                    .map_err(|at| StoreError::Io(format!("{}: {error}", self.place(at)))),
            })?;
        Ok(Pages { first, last, start, bytes })
    }

    /// Reads in pieces after a joint read has failed. One bad place must not cost the rest: once it is given up, it
    /// reads as zeros, which never parse as an entry. Until then fails with the offset of the first. All are tried, so that
    /// they are given up together, not each after the one before.
    fn read_pieces(
        &self,
        start: u64,
        bytes: &mut [u8],
        is_given_up: &dyn Fn(&Path, u64) -> bool,
    ) -> Result<(), u64> {
        let mut unreadable = None;
        for (at, piece) in pieces(start, bytes) {
            match self.read_exact(piece, at) {
                Ok(()) => self.quarantine.was_read(&self.path, at..at + piece.len() as u64),
                Err(error) if is_given_up(&self.path, at) => {
                    self.report(&format!("piece, unreadable: {error}"), at, &[]);
                    piece.fill(0);
                }
                Err(_) => {
                    unreadable.get_or_insert(at);
                }
            }
        }
        unreadable.map_or(Ok(()), Err)
    }

    /// Reads again while the device fails and there is patience: what counts as damaged is made anew, without its
    /// history.
    fn read_patiently(&self, bytes: &mut [u8], start: u64) -> io::Result<()> {
        loop {
            match self.read_exact(bytes, start) {
                Err(error) if error.kind() != ErrorKind::UnexpectedEof && self.patience.wait() => {}
                read => return read,
            }
        }
    }

    /// Pieces that stay unreadable read as zeros: one bad place must not prevent opening.
    fn read_leaving_out(&self, start: u64, bytes: &mut [u8]) {
        if self.read_patiently(bytes, start).is_err() {
            self.read_pieces(start, bytes, &|_, _| true).expect("bad places are given up");
        }
    }
}
