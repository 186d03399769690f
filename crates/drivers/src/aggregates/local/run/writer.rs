//! Writes a run.

use std::{
    io::{self, IoSlice},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::RunName;
use crate::{
    aggregates::{
        key::Key,
        table::{Builder, entry::Kind},
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
    name: RunName,
    temporary: PathBuf,
    file: Arc<dyn DiskFile>,
    builder: Builder,
    /// Bytes written to the file.
    written: u64,
    synced: u64,
}

impl RunWriter {
    pub fn create(disk: Arc<dyn Disk>, dir: &Path, name: RunName) -> io::Result<Self> {
        let temporary = with_suffix(&dir.join(name.file()), ".tmp");
        let file = disk.create(&temporary)?;
        let (dir, builder) = (dir.to_owned(), Builder::default());
        Ok(Self { disk, dir, name, temporary, file, builder, written: 0, synced: 0 })
    }

    pub fn name(&self) -> RunName {
        self.name
    }

    /// Adds an entry; entries must come in order.
    pub fn push(&mut self, key: Key, kind: Kind, value: &[u8]) -> io::Result<()> {
        self.builder.push(key, kind, value);
        if self.builder.buffer.len() >= BUFFER_BYTES { self.write_buffer() } else { Ok(()) }
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        let buffer = &self.builder.buffer;
        write_all_at(&*self.file, &mut [IoSlice::new(buffer)], self.written)?;
        self.written += buffer.len() as u64;
        self.builder.taken();
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
        self.builder.finish();
        self.write_buffer()?;
        self.file.sync_data()?;
        let path = self.dir.join(self.name.file());
        self.disk.rename(&self.temporary, &path)?;
        self.disk.sync_dir(&self.dir)
    }

    /// Discards the file.
    pub fn abandon(self) {
        // A file that cannot be removed now is removed at the next start.
        self.disk.remove(&self.temporary).ok();
    }
}
