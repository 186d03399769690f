//! A reserve of disk space for what must go on while the disk is full: deletions, the index's writes,
//! acknowledgements, and merges that free more than they take.
//!
//! It is a file, so that no other program takes the space. When the disk runs full the file is removed, and
//! writes of new measures are refused until there is room for it again. Each writer knows what its write is
//! for: new data checks [`Reserve::is_held`]; what must succeed uses the space by [`Reserve::release`].

use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use crate::{
    OpenError,
    disk::{Disk, if_there, is_no_space},
};

/// File name in the data directory.
pub const FILE_NAME: &str = "reserve";
/// The reserve takes at most 1/`PART_MAX` of the file system.
const PART_MAX: u64 = 10;
/// It is released when less than 1/`LOW_PART` of its size is free beside it: the next write finds room.
const LOW_PART: u64 = 4;
/// It is taken again when 1/`REGAIN_PART` of its size stays free beside it; more than at its release.
const REGAIN_PART: u64 = 2;
/// Merges leave 1/`KEPT_PART` of the reserve for the index and acknowledgements.
const KEPT_PART: u64 = 2;
/// Space is short while less than this many times the reserve is free, the reserve included.
const SHORT_TIMES: u64 = 3;
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// A handle; the default one reserves nothing, and is never short.
#[derive(Clone, Debug, Default)]
pub struct Reserve(Option<Arc<Watched>>);

/// The reserve and the thread that watches the free space; dropping it ends the thread.
#[derive(Debug)]
struct Watched {
    inner: Arc<Inner>,
    watcher: Option<JoinHandle<()>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        *self.inner.is_over.lock() = true;
        self.inner.over.notify_all();
        if self.watcher.take().is_some_and(|watcher| watcher.join().is_err()) {
            tracing::error!("the watcher of the reserve of disk space panicked");
        }
    }
}

/// Bytes, for `/metrics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReserveFigures {
    /// Free on the file system, without the reserve.
    pub free_bytes: u64,
    /// Currently reserved; 0 while released.
    pub held_bytes: u64,
    /// Configured size, held whenever there is room.
    pub wanted_bytes: u64,
}

struct Inner {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    bytes: u64,
    held: AtomicBool,
    /// Whether the file system has turned out to be unable to reserve space: then there is no reserve.
    is_impossible: AtomicBool,
    /// Number of loans; while there are any, the reserve is not taken again.
    loans: AtomicUsize,
    /// Locked while the file is created or removed.
    changing: Mutex<()>,
    is_over: Mutex<bool>,
    over: Condvar,
}

/// Keeps the reserve released until dropped.
pub(crate) struct Loan(Option<Arc<Inner>>);

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(inner) = &self.0 {
            inner.loans.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes in {}", self.bytes, self.dir.display())
    }
}

impl Reserve {
    /// Reserves `bytes`, but at most a tenth of the file system, in `dir`, which must exist. 0 reserves
    /// nothing. Without room now, it is taken once there is.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, bytes: u64) -> Result<Self, OpenError> {
        let path = dir.join(FILE_NAME);
        let bytes = match disk.space(dir) {
            Ok(space) => bytes.min(space.total_bytes / PART_MAX),
            Err(error) => {
                tracing::warn!(
                    "no space is reserved: the free space of {} is unknown: {error}",
                    dir.display()
                );
                0
            }
        };
        if bytes == 0 {
            if_there(disk.remove(&path)).map_err(OpenError::io(path))?;
            return Ok(Self::default());
        }
        let inner = Arc::new(Inner {
            disk,
            dir: dir.to_owned(),
            bytes,
            held: AtomicBool::new(false),
            is_impossible: AtomicBool::new(false),
            loans: AtomicUsize::new(0),
            changing: Mutex::new(()),
            is_over: Mutex::new(false),
            over: Condvar::new(),
        });
        match inner.take() {
            Ok(true) => {}
            Ok(false) => return Ok(Self::default()),
            Err(error) if is_no_space(&error) => {
                tracing::warn!("{}", inner.refusal());
            }
            Err(source) => return Err(OpenError::Io { path, source }),
        }
        let watched = Arc::clone(&inner);
        let watcher = std::thread::Builder::new().name("gnudi-reserve".into()).spawn(move || watched.watch());
        let watcher = Some(watcher.map_err(OpenError::io(dir))?);
        Ok(Self(Some(Arc::new(Watched { inner, watcher }))))
    }

    /// `None` if nothing is reserved.
    fn inner(&self) -> Option<&Arc<Inner>> {
        let inner = &self.0.as_ref()?.inner;
        (!inner.is_impossible.load(Ordering::Relaxed)).then_some(inner)
    }

    /// What files in `dir` must leave alone: nothing if they are on another file system.
    pub(crate) fn for_files_in(&self, dir: &Path) -> Self {
        let device = |dir: &Path| fs::metadata(dir).map(|found| found.dev()).ok();
        let is_same = |watched: &Arc<Watched>| {
            let own = device(&watched.inner.dir);
            own.is_some() && own == device(dir)
        };
        Self(self.0.clone().filter(is_same))
    }

    pub fn figures(&self) -> ReserveFigures {
        let Some(inner) = self.inner() else { return ReserveFigures::default() };
        ReserveFigures {
            free_bytes: inner.free_bytes().unwrap_or(0),
            held_bytes: inner.held_bytes(),
            wanted_bytes: inner.bytes,
        }
    }

    /// Whether new data may allocate space: not while the reserve is released.
    pub fn is_held(&self) -> bool {
        self.inner().is_none_or(|inner| inner.held.load(Ordering::Relaxed))
    }

    /// Releases the reserve for a write that must succeed; true if it is released now, also by others. False if
    /// there is none.
    pub fn release(&self) -> bool {
        self.inner().is_some_and(|inner| {
            let _changing = inner.changing.lock();
            inner.give_up() || !inner.held.load(Ordering::Relaxed)
        })
    }

    /// Releases the reserve until the loan is dropped.
    pub(crate) fn lend(&self) -> Loan {
        let inner = self.inner();
        if let Some(inner) = inner {
            let _changing = inner.changing.lock();
            inner.loans.fetch_add(1, Ordering::Relaxed);
            inner.give_up();
        }
        Loan(inner.cloned())
    }

    /// Runs `work`, which must succeed; if there is no space, releases the reserve and retries once.
    pub(crate) fn with_room<T>(&self, mut work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        match work() {
            Err(error) if is_no_space(&error) && self.release() => work(),
            done => done,
        }
    }

    /// Whether `bytes` can be written without the reserve. True if the free space is unknown.
    pub(crate) fn has_room_beside(&self, bytes: u64) -> bool {
        self.is_held() && self.free_bytes().is_none_or(|free| free >= bytes)
    }

    /// Whether `bytes` can be written if the reserve is released, leaving part of it for others. True if the
    /// free space is unknown.
    pub(crate) fn has_room_within(&self, bytes: u64) -> bool {
        let kept = self.inner().map_or(0, |inner| inner.bytes / KEPT_PART);
        self.room_within().is_none_or(|room| room >= bytes.saturating_add(kept))
    }

    /// Free bytes, the reserve included; `None` if unknown.
    fn room_within(&self) -> Option<u64> {
        let inner = self.inner()?;
        Some(inner.free_bytes()?.saturating_add(inner.held_bytes()))
    }

    /// Whether space is so short that whatever can be freed should be.
    pub fn is_short(&self) -> bool {
        let Some(inner) = self.inner() else { return false };
        self.room_within().is_some_and(|room| room < SHORT_TIMES * inner.bytes)
    }

    /// Replaces a no-space `error` with one that states the free and reserved space.
    pub(crate) fn refusal(&self, error: io::Error) -> io::Error {
        match self.inner() {
            Some(inner) => io::Error::new(io::ErrorKind::StorageFull, inner.refusal()),
            None => error,
        }
    }

    fn free_bytes(&self) -> Option<u64> {
        self.inner()?.free_bytes()
    }
}

impl Inner {
    fn watch(&self) {
        let mut is_over = self.is_over.lock();
        while !*is_over {
            parking_lot::MutexGuard::unlocked(&mut is_over, || self.check());
            if !*is_over {
                self.over.wait_for(&mut is_over, CHECK_INTERVAL);
            }
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.join(FILE_NAME)
    }

    fn free_bytes(&self) -> Option<u64> {
        self.disk.space(&self.dir).ok().map(|space| space.free_bytes)
    }

    fn held_bytes(&self) -> u64 {
        if self.held.load(Ordering::Relaxed) { self.bytes } else { 0 }
    }

    fn refusal(&self) -> String {
        format!(
            "the disk of {} is full ({} bytes are free, and {} of {} in reserve for deletions and the index): delete what is not \
             needed, or give it more space",
            self.dir.display(),
            self.free_bytes().unwrap_or(0),
            self.held_bytes(),
            self.bytes,
        )
    }

    /// Releases the reserve or takes it again, depending on the free space.
    fn check(&self) {
        let _changing = self.changing.lock();
        let Some(free) = self.free_bytes() else { return };
        if self.held.load(Ordering::Relaxed) {
            if free < self.bytes / LOW_PART {
                self.give_up();
            }
        } else if self.loans.load(Ordering::Relaxed) == 0 && free >= self.bytes + self.bytes / REGAIN_PART {
            match self.take() {
                Ok(true) => tracing::info!("{} has space again: measures are accepted", self.dir.display()),
                // Without a reserve they are accepted, too.
                Ok(false) => *self.is_over.lock() = true,
                Err(error) => tracing::debug!("the reserve cannot be allocated yet: {error}"),
            }
        }
    }

    /// The caller must hold `changing`.
    fn give_up(&self) -> bool {
        if !self.held.load(Ordering::Relaxed) {
            return false;
        }
        // Somebody may have removed it to make room.
        if let Err(error) = if_there(self.disk.remove(&self.path())) {
            tracing::error!("the reserve of disk space cannot be released: {error}");
            return false;
        }
        self.held.store(false, Ordering::Relaxed);
        tracing::warn!("the reserve of {} bytes is released: {}", self.bytes, self.refusal());
        true
    }

    /// Allocates the reserve; false if the file system cannot do so.
    fn take(&self) -> io::Result<bool> {
        let path = self.path();
        let file = match self.disk.open(&path) {
            Ok(file) if file.len()? == self.bytes => file,
            _ => self.disk.create(&path)?,
        };
        let done = file.allocate(self.bytes).and_then(|()| Ok(file.len()? == self.bytes));
        if !matches!(done, Ok(true)) {
            // Free what was allocated.
            self.disk.remove(&path).ok();
        }
        if let Ok(false) = done {
            tracing::warn!("no space is reserved: the file system of {} cannot do so", self.dir.display());
            self.is_impossible.store(true, Ordering::Relaxed);
        }
        self.held.store(matches!(done, Ok(true)), Ordering::Relaxed);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{DiskFile, LocalDisk, tests::Recorder};

    #[test]
    fn it_takes_space_and_gives_it_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE_NAME);
        let bytes = 1 << 20;
        let reserve = Reserve::open(Arc::new(LocalDisk), dir.path(), bytes).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().len(), bytes);
        assert!(reserve.is_held() && reserve.has_room_beside(1));
        let figures = reserve.figures();
        assert_eq!((figures.held_bytes, figures.wanted_bytes), (bytes, bytes));
        assert!(reserve.release());
        // The watcher may take it again at any moment, since there is room.
        drop(reserve);
        // A reserve of another size is replaced; size 0 removes it.
        drop(Reserve::open(Arc::new(LocalDisk), dir.path(), 2 * bytes).unwrap());
        assert_eq!(std::fs::metadata(&file).unwrap().len(), 2 * bytes);
        let none = Reserve::open(Arc::new(LocalDisk), dir.path(), 0).unwrap();
        assert!(!file.exists() && none.is_held() && !none.release() && !none.is_short());
    }

    #[test]
    fn files_on_another_file_system_do_not_take_its_space() {
        let dir = tempfile::tempdir().unwrap();
        let reserve = Reserve::open(Arc::new(LocalDisk), dir.path(), 1 << 20).unwrap();
        // The watcher would take it again.
        reserve.0.as_ref().unwrap().inner.loans.fetch_add(1, Ordering::Relaxed);
        assert!(reserve.release());
        assert!(!reserve.for_files_in(dir.path()).is_held());
        assert!(reserve.for_files_in(Path::new("/proc")).is_held());
        assert!(reserve.for_files_in(&dir.path().join("missing")).is_held());
    }

    #[test]
    fn a_reserve_that_somebody_removed_is_released() {
        let dir = tempfile::tempdir().unwrap();
        let reserve = Reserve::open(Arc::new(LocalDisk), dir.path(), 1 << 20).unwrap();
        let inner = &reserve.0.as_ref().unwrap().inner;
        // The watcher would take it again.
        inner.loans.fetch_add(1, Ordering::Relaxed);
        std::fs::remove_file(dir.path().join(FILE_NAME)).unwrap();
        assert!(reserve.release() && !reserve.is_held());
    }

    /// A file of a file system that allocates nothing in advance.
    struct Empty;

    impl DiskFile for Empty {
        fn len(&self) -> io::Result<u64> {
            Ok(0)
        }

        fn read_at(&self, _buf: &mut [u8], _offset: u64) -> io::Result<usize> {
            Ok(0)
        }

        fn write_at(&self, _slices: &[io::IoSlice<'_>], _offset: u64) -> io::Result<usize> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }

        fn truncate(&self, _len: u64) -> io::Result<()> {
            Ok(())
        }

        fn allocate(&self, _len: u64) -> io::Result<()> {
            Ok(())
        }
    }

    /// It may first have been full.
    #[test]
    fn a_file_system_that_cannot_reserve_space_refuses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(Recorder::default());
        let reserve = Reserve::open(disk.clone(), dir.path(), 1 << 20).unwrap();
        let inner = &reserve.0.as_ref().unwrap().inner;
        inner.loans.fetch_add(1, Ordering::Relaxed);
        assert!(reserve.release() && !reserve.is_held());
        *disk.created.lock() = Some(Arc::new(Empty));
        inner.loans.fetch_sub(1, Ordering::Relaxed);
        inner.check();
        assert!(reserve.is_held() && !reserve.release() && !reserve.is_short());
        assert_eq!(reserve.figures(), ReserveFigures::default());
    }

    #[test]
    fn what_must_succeed_is_tried_again_from_the_reserve() {
        let dir = tempfile::tempdir().unwrap();
        let reserve = Reserve::open(Arc::new(LocalDisk), dir.path(), 1 << 20).unwrap();
        let mut tries = 0;
        let done = reserve.with_room(|| {
            tries += 1;
            if tries == 1 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(tries) }
        });
        assert_eq!(done.unwrap(), 2);
        let mut tries = 0;
        let done = reserve.with_room(|| {
            tries += 1;
            // Released for another write meanwhile, or by the watcher.
            if tries == 1 && reserve.release() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(tries) }
        });
        assert_eq!(done.unwrap(), 2);
        let refused =
            Reserve::default().with_room(|| -> io::Result<()> { Err(io::ErrorKind::StorageFull.into()) });
        assert!(is_no_space(&refused.unwrap_err()), "there is nothing to give up");
    }
}
