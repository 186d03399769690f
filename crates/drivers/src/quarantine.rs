//! Quarantine of damaged bytes: each finding is logged with file and offset, counted, and copied to a file of
//! its own for inspection. Nothing is repaired here.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::Hash,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::disk::{Disk, read_file, replace_file};

/// Beyond this, damage is reported and counted but no longer copied.
pub const QUARANTINE_BYTES_MAX: u64 = 256 << 20;

/// The same for what crashes leave: a machine that is often powered off must leave room for damage.
const TORN_BYTES_MAX: u64 = QUARANTINE_BYTES_MAX / 2;

pub struct Quarantine {
    disk: Arc<dyn Disk>,
    /// Without one, nothing is copied.
    dir: Option<PathBuf>,
    /// Of the copies in `dir`, of earlier processes, too; `None` before the first copy.
    copied_bytes: Mutex<Option<u64>>,
    /// Files and offsets.
    reported: Reported<(PathBuf, u64)>,
    /// Files and offsets that the disk failed to read, not read since, and since when.
    unreadable: Mutex<HashMap<PathBuf, BTreeMap<u64, Instant>>>,
    /// Whether there are any.
    has_unreadable: AtomicBool,
    unreadable_max: Duration,
    observer: Option<Observer>,
}

/// A damaged place, as passed to an observer.
pub struct Report {
    pub what: String,
    pub file: PathBuf,
    pub offset: u64,
    pub length: u64,
    /// Whether a crash explains it.
    pub is_expected: bool,
}

/// Receives damaged places instead of the program's log.
pub type Observer = Box<dyn Fn(Report) + Send + Sync>;

/// A place that stays unreadable this long counts as damaged.
pub const UNREADABLE_MAX: Duration = Duration::from_secs(30);

/// How many places are remembered; beyond that, some may be reported more than once.
const KNOWN_MAX: usize = 10_000;

/// How many unreadable places are remembered; beyond that, all are forgotten. More than are tried within the time after which
/// they count as damaged, or none ever would. Some 30 MB.
const UNREADABLE_KNOWN_MAX: usize = 1 << 20;

/// Places that were reported, so that each is reported once.
#[derive(Default)]
pub struct Reported<P> {
    known: Mutex<HashSet<P>>,
    found: AtomicU64,
}

impl<P: Eq + Hash> Reported<P> {
    /// Adds a place; false if it was reported before.
    pub fn insert(&self, place: P) -> bool {
        let mut known = self.known.lock();
        let is_new = known.len() >= KNOWN_MAX || known.insert(place);
        self.found.fetch_add(u64::from(is_new), Ordering::Relaxed);
        is_new
    }

    /// Number of places reported since the start.
    pub fn found(&self) -> u64 {
        self.found.load(Ordering::Relaxed)
    }
}

impl Quarantine {
    /// `dir` is created when the first damage is found.
    pub fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> Self {
        Self {
            disk,
            dir: Some(dir),
            copied_bytes: Mutex::default(),
            reported: Reported::default(),
            unreadable: Mutex::default(),
            has_unreadable: AtomicBool::new(false),
            unreadable_max: UNREADABLE_MAX,
            observer: None,
        }
    }

    /// Like [`Quarantine::new`], but reports go to `observer` instead of the log, and nothing is copied
    /// without `dir`. Unreadable places count as damaged at once. Earlier copies take no room from those of a repair, which
    /// removes what it copies.
    pub fn observed(disk: Arc<dyn Disk>, dir: Option<PathBuf>, observer: Observer) -> Self {
        let (observer, copied_bytes) = (Some(observer), Mutex::new(Some(0)));
        let unreadable_max = Duration::ZERO;
        Self { dir, copied_bytes, unreadable_max, observer, ..Self::new(disk, PathBuf::new()) }
    }

    /// Like [`Quarantine::new`], with another time until unreadable places count as damaged.
    pub fn giving_up_after(self, unreadable_max: Duration) -> Self {
        Self { unreadable_max, ..self }
    }

    /// A place that stays unreadable this long counts as damaged.
    pub fn unreadable_max(&self) -> Duration {
        self.unreadable_max
    }

    /// Number of findings since the start, for `/metrics`.
    pub fn found(&self) -> u64 {
        self.reported.found()
    }

    /// Whether a place that the disk has just failed to read counts as damaged. Only after a while: the
    /// device may recover, and damaged values are recreated.
    pub fn is_given_up(&self, file: &Path, offset: u64) -> bool {
        let mut unreadable = self.unreadable.lock();
        if unreadable.values().map(BTreeMap::len).sum::<usize>() >= UNREADABLE_KNOWN_MAX {
            unreadable.clear();
        }
        let since =
            *unreadable.entry(file.to_owned()).or_default().entry(offset).or_insert_with(Instant::now);
        self.has_unreadable.store(true, Ordering::Relaxed);
        since.elapsed() >= self.unreadable_max
    }

    /// Forgets earlier failures at offsets that have been read now.
    pub fn was_read(&self, file: &Path, offsets: Range<u64>) {
        // Nearly always there are none: a read takes no lock.
        if !self.has_unreadable.load(Ordering::Relaxed) {
            return;
        }
        let mut unreadable = self.unreadable.lock();
        let Some(of_file) = unreadable.get_mut(file) else { return };
        while let Some((&offset, _)) = of_file.range(offsets.clone()).next() {
            of_file.remove(&offset);
        }
        if of_file.is_empty() {
            unreadable.remove(file);
        }
        self.has_unreadable.store(!unreadable.is_empty(), Ordering::Relaxed);
    }

    /// Reports `bytes`, found damaged at `offset` of `file`: once, however often they are read. They are
    /// copied once, also across restarts.
    pub fn report(&self, what: &str, file: &Path, offset: u64, bytes: &[u8]) {
        if !self.reported.insert((file.to_owned(), offset)) {
            return;
        }
        if !self.notify(what, file, offset, bytes, false) {
            tracing::error!(file = %file.display(), offset, length = bytes.len(), "damaged {what}: set aside");
        }
        self.copy(file, offset, bytes, QUARANTINE_BYTES_MAX);
    }

    /// Copies bytes that a crash explains, though damage could look alike: no error in the log, not counted.
    pub fn set_aside(&self, what: &str, file: &Path, offset: u64, bytes: &[u8]) {
        if !self.notify(what, file, offset, bytes, true) {
            tracing::warn!(file = %file.display(), offset, length = bytes.len(), "{what}, as a crash leaves it: set aside");
        }
        self.copy(file, offset, bytes, TORN_BYTES_MAX);
    }

    /// Returns whether there is an observer.
    fn notify(&self, what: &str, file: &Path, offset: u64, bytes: &[u8], is_expected: bool) -> bool {
        let Some(observer) = &self.observer else { return false };
        let length = bytes.len() as u64;
        observer(Report { what: what.to_owned(), file: file.to_owned(), offset, length, is_expected });
        true
    }

    fn copy(&self, file: &Path, offset: u64, bytes: &[u8], bytes_max: u64) {
        let Some(dir) = &self.dir else { return };
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let copy = dir.join(format!("{name}.{offset}"));
        if bytes.is_empty() || read_file(&*self.disk, &copy).is_ok_and(|earlier| earlier == bytes) {
            return;
        }
        let mut copied_bytes = self.copied_bytes.lock();
        let copied_bytes = copied_bytes.get_or_insert_with(|| self.bytes_in(dir));
        if *copied_bytes + bytes.len() as u64 > bytes_max {
            tracing::error!("{} is full: the bytes are not copied", dir.display());
            return;
        }
        let copied = self.disk.create_dir(dir).and_then(|()| replace_file(&*self.disk, &copy, bytes));
        match copied {
            Ok(()) => *copied_bytes += bytes.len() as u64,
            Err(error) => tracing::error!("the bytes could not be copied to {}: {error}", copy.display()),
        }
    }

    /// The size of the files in a directory.
    fn bytes_in(&self, dir: &Path) -> u64 {
        let names = self.disk.list(dir).unwrap_or_default();
        let bytes = |name: &String| self.disk.open(&dir.join(name)).and_then(|file| file.len()).unwrap_or(0);
        names.iter().map(bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::LocalDisk;

    #[test]
    fn a_place_is_given_up_if_no_read_succeeds_for_a_while() {
        const MAX: Duration = Duration::from_millis(50);
        let quarantine = Quarantine::new(Arc::new(LocalDisk), PathBuf::new()).giving_up_after(MAX);
        let (file, other) = (Path::new("log"), Path::new("run"));
        for _ in 0..2 {
            assert!(!quarantine.is_given_up(file, 8));
            std::thread::sleep(2 * MAX);
            quarantine.was_read(file, 0..9);
        }
        assert!(!quarantine.is_given_up(file, 8), "a single error");
        std::thread::sleep(2 * MAX);
        quarantine.was_read(file, 0..8);
        quarantine.was_read(other, 0..9);
        assert!(quarantine.is_given_up(file, 8), "other places were read");
    }

    /// A failed head of a disk.
    #[test]
    fn many_places_are_given_up_as_one_is() {
        const MAX: Duration = Duration::from_millis(50);
        let quarantine = Quarantine::new(Arc::new(LocalDisk), PathBuf::new()).giving_up_after(MAX);
        let given_up =
            || (0..20_000_u64).filter(|place| quarantine.is_given_up(Path::new("run"), 4096 * place)).count();
        given_up();
        std::thread::sleep(2 * MAX);
        assert_eq!(given_up(), 20_000);
    }

    #[test]
    fn copies_of_earlier_processes_count() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("quarantine");
        std::fs::create_dir(&dir).unwrap();
        let begin = || Quarantine::new(Arc::new(LocalDisk), dir.clone());
        let is_copied = |name: &str| dir.join(name).exists();
        let earlier = std::fs::File::create(dir.join("1.log.0")).unwrap();
        earlier.set_len(TORN_BYTES_MAX).unwrap();
        begin().set_aside("torn frame", Path::new("2.log"), 0, b"torn");
        begin().report("frame", Path::new("3.log"), 0, b"damaged");
        assert!(!is_copied("2.log.0") && is_copied("3.log.0"));
        earlier.set_len(QUARANTINE_BYTES_MAX).unwrap();
        begin().report("frame", Path::new("4.log"), 0, b"damaged");
        assert!(!is_copied("4.log.0"));
    }
}
