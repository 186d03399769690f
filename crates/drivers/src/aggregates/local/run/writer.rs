//! Writes a run: sorted entries, then index, filter and footer.

use std::{
    io::{self, IoSlice},
    path::{Path, PathBuf},
    sync::Arc,
};

use gnudi_model::MetricId;

use super::{
    HEAD_PAGE_BYTES, PAGE_BYTES,
    filter::{self, Filter},
    layout::{Footer, INDEX_ENTRY_BYTES, Range, file_header, file_name},
    order::{Order, Place},
};
use crate::{
    aggregates::{
        entry::{self, Kind},
        key::Key,
    },
    disk::{Disk, DiskFile, with_suffix, write_all_at},
};

/// How much is buffered before it is written.
const BUFFER_BYTES: usize = 1 << 20;
/// How much is written before it is synced, so that a long run does not end with one long sync that delays
/// other writers.
const SYNC_BYTES: u64 = 16 << 20;

pub struct RunWriter {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    order: Order,
    range: Range,
    temporary: PathBuf,
    file: Arc<dyn DiskFile>,
    buffer: Vec<u8>,
    /// Bytes written to the file.
    written: u64,
    synced: u64,
    page_start: u64,
    index: Vec<(Key, u64)>,
    hashes: Vec<u64>,
    marks: u64,
    last: Option<(Place, MetricId)>,
}

impl RunWriter {
    pub fn create(disk: Arc<dyn Disk>, dir: &Path, range: Range) -> io::Result<Self> {
        Self::create_in(Order::NEW, disk, dir, range)
    }

    pub(in super::super) fn create_in(
        order: Order,
        disk: Arc<dyn Disk>,
        dir: &Path,
        range: Range,
    ) -> io::Result<Self> {
        let temporary = with_suffix(&dir.join(file_name(range)), ".tmp");
        let file = disk.create(&temporary)?;
        Ok(Self {
            disk,
            dir: dir.to_owned(),
            order,
            range,
            temporary,
            file,
            buffer: file_header(range, order),
            written: 0,
            synced: 0,
            page_start: 0,
            index: Vec::new(),
            hashes: Vec::new(),
            marks: 0,
            last: None,
        })
    }

    /// Adds an entry; entries must come in the run's order.
    pub fn push(&mut self, key: Key, kind: Kind, value: &[u8]) -> io::Result<()> {
        let place = self.order.place(&key);
        assert!(self.last.is_none_or(|(last, _)| last < place), "entries come in order");
        let at = self.written + self.buffer.len() as u64;
        let page_bytes = if key.is_head() { HEAD_PAGE_BYTES } else { PAGE_BYTES };
        if self.index.is_empty() || at - self.page_start >= page_bytes as u64 {
            self.index.push((key, at));
            self.page_start = at;
        }
        if self.last.is_none_or(|(_, metric)| metric != key.metric()) {
            self.hashes.push(filter::hash(key.metric()));
        }
        self.last = Some((place, key.metric()));
        self.marks += u64::from(key.is_mark());
        entry::put(&mut self.buffer, &key, kind, value);
        if self.buffer.len() >= BUFFER_BYTES { self.write_buffer() } else { Ok(()) }
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        write_all_at(&*self.file, &mut [IoSlice::new(&self.buffer)], self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        if self.written - self.synced >= SYNC_BYTES {
            self.file.sync_data()?;
            self.synced = self.written;
        }
        Ok(())
    }

    /// Makes the run durable under its name; returns its length in bytes.
    pub fn finish(mut self) -> io::Result<u64> {
        match self.close() {
            Ok(()) => Ok(self.written),
            Err(error) => {
                self.abandon();
                Err(error)
            }
        }
    }

    fn close(&mut self) -> io::Result<()> {
        let entries_end = self.written + self.buffer.len() as u64;
        let mut index = Vec::with_capacity(self.index.len() * INDEX_ENTRY_BYTES);
        for (key, at) in &self.index {
            index.extend_from_slice(key.bytes());
            index.extend_from_slice(&at.to_le_bytes());
        }
        let filter = Filter::new(&self.hashes);
        let footer = Footer {
            entries_end,
            index_bytes: index.len() as u64,
            filter_bytes: filter.bytes().len() as u64,
            index_checksum: crc_fast::crc32_iscsi(&index),
            filter_checksum: crc_fast::crc32_iscsi(filter.bytes()),
            marks: self.marks,
        };
        self.buffer.extend_from_slice(&index);
        self.buffer.extend_from_slice(filter.bytes());
        self.buffer.extend_from_slice(&footer.bytes());
        self.write_buffer()?;
        self.file.sync_data()?;
        let path = self.dir.join(file_name(self.range));
        self.disk.rename(&self.temporary, &path)?;
        self.disk.sync_dir(&self.dir)
    }

    /// Discards the file.
    pub fn abandon(self) {
        // A file that cannot be removed now is removed at the next start.
        self.disk.remove(&self.temporary).ok();
    }
}
