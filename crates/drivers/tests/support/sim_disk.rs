//! A simulated disk in memory that can lose power, run full, and fail any operation.
//!
//! After a power cut it has everything synced, and an arbitrary part of the rest: each write may exist, be
//! missing or be torn at any sector, independent of others; of a directory's unsynced changes a prefix
//! exists. A directory whose own name is lost loses its contents.
//!
//! A process may be killed before the power is cut: the next one sees what it wrote, though it is not on
//! disk. A sync may fail as on Linux: the bytes stay in memory, count as clean, and no later sync writes
//! them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::{self, ErrorKind, IoSlice},
    path::{Path, PathBuf},
    sync::Arc,
};

use gnudi_drivers::disk::{Disk, DiskFile, Space};
use parking_lot::Mutex;

use super::{
    random::Random,
    sim_inode::{Change, Inode},
};

/// Operations that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    MakeDir,
    Create,
    Write,
    SyncData,
    SyncDir,
    Rename,
    Remove,
    Truncate,
    Allocate,
    Read,
}

/// Those of every log; `Remove` is for stores that remove files.
pub const FAULTS: [Operation; 7] = [
    Operation::Create,
    Operation::Write,
    Operation::SyncData,
    Operation::SyncDir,
    Operation::Rename,
    Operation::Truncate,
    Operation::Allocate,
];

#[derive(Clone, Default)]
pub struct SimDisk(Arc<Mutex<State>>);

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    /// Incremented by each power cut: files opened before are invalid.
    boot: u32,
    panics_at_write: bool,
    spoilt: Vec<(u64, std::ops::Range<u64>)>,
    inodes: HashMap<u64, Inode>,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    /// The root always exists.
    dirs: BTreeSet<PathBuf>,
    durable_dirs: BTreeSet<PathBuf>,
    name_changes: Vec<NameChange>,
    made: u64,
    faults: Vec<Fault>,
    batch_write_fault: Option<ErrorKind>,
    /// What to do before a write of a batch, and how many come before it.
    before_batch: Option<(usize, Work)>,
    /// Syncs that still succeed before one loses its pages.
    pages_lost_after: Option<usize>,
    capacity: Option<usize>,
    /// Changing operations left until the power cut.
    power_left: Option<u64>,
    /// Kill the process instead of cutting the power.
    is_kill: bool,
    random: Option<Random>,
}

struct Fault {
    operation: Operation,
    /// Calls that still succeed before it.
    after: usize,
    error: ErrorKind,
    lasting: bool,
    /// Only files or directories whose names end with this; for creating, renaming, removing and syncing
    /// names.
    name_end: &'static str,
}

impl Fault {
    fn concerns(&self, operation: Operation, path: Option<&Path>) -> bool {
        let named = || path.is_some_and(|path| path.to_string_lossy().ends_with(self.name_end));
        self.operation == operation && (self.name_end.is_empty() || named())
    }
}

enum NameChange {
    MakeDir(PathBuf),
    Add(PathBuf, u64),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf, u64),
}

impl NameChange {
    fn dir(&self) -> &Path {
        match self {
            NameChange::MakeDir(path)
            | NameChange::Add(path, _)
            | NameChange::Remove(path)
            | NameChange::Rename(path, _, _) => path.parent().expect("a file lies in a directory"),
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, u64>, dirs: &mut BTreeSet<PathBuf>) {
        match self {
            NameChange::MakeDir(path) => drop(dirs.insert(path.clone())),
            NameChange::Add(path, inode) => drop(names.insert(path.clone(), *inode)),
            NameChange::Remove(path) => drop(names.remove(path)),
            NameChange::Rename(from, to, inode) => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
        }
    }
}

impl SimDisk {
    /// Some of the next operations fail.
    pub fn fail_at_random(&self, random: &mut Random, operations: &[Operation]) {
        for _ in 0..random.below(5) {
            let operation = operations[random.below(operations.len())];
            let error = if random.one_in(3) { ErrorKind::Other } else { ErrorKind::StorageFull };
            self.fail(operation, random.below(25), error, false);
        }
    }

    /// The power is cut within this many operations, or the process is killed if that is asked for; then syncs may
    /// lose pages, too.
    pub fn end_at_random(&self, random: &mut Random, operations_max: u64, kills: bool) {
        let operations = 1 + random.next() % operations_max;
        if kills && random.one_in(2) {
            self.kill_after(operations);
        } else {
            self.cut_after(operations, random.next());
        }
        if kills && random.one_in(3) {
            self.lose_pages(random.below(10));
        }
    }

    /// Makes the `after`-th next `operation` fail, once or from then on.
    pub fn fail(&self, operation: Operation, after: usize, error: ErrorKind, lasting: bool) {
        self.0.lock().faults.push(Fault { operation, after, error, lasting, name_end: "" });
    }

    /// Makes the next write of a batch of 1,000 bytes or more fail; the marks of the log's idle writer are
    /// far shorter and succeed.
    pub fn fail_batch_write(&self, error: ErrorKind) {
        self.0.lock().batch_write_fault = Some(error);
    }

    /// Does something before the `after`-th next write of a batch.
    pub fn before_batch_write(&self, after: usize, work: impl FnOnce() + Send + 'static) {
        self.0.lock().before_batch = Some((after, Box::new(work)));
    }

    /// Makes the next `operation` on a file or directory whose name ends with `name_end` fail.
    pub fn fail_named(&self, operation: Operation, name_end: &'static str, error: ErrorKind) {
        self.0.lock().faults.push(Fault { operation, after: 0, error, lasting: false, name_end });
    }

    /// Makes the `after`-th next sync of a file fail and lose its bytes: they stay readable until the power
    /// cut, and later syncs succeed without writing them.
    pub fn lose_pages(&self, after: usize) {
        self.0.lock().pages_lost_after = Some(after);
    }

    /// Makes these bytes of a file unreadable, like a bad sector.
    pub fn spoil(&self, path: &Path, bytes: std::ops::Range<u64>) {
        let mut state = self.0.lock();
        let inode = state.inode(path).unwrap();
        state.spoilt.push((inode, bytes));
    }

    /// Makes the next write panic, like a bug.
    pub fn panic_at_write(&self) {
        self.0.lock().panics_at_write = true;
    }

    /// Whether all faults have occurred.
    pub fn is_healed(&self) -> bool {
        self.0.lock().faults.is_empty()
    }

    /// From now on nothing fails, and everything is readable.
    pub fn heal(&self) {
        let mut state = self.0.lock();
        state.faults.clear();
        state.spoilt.clear();
    }

    /// Limits the bytes of all files together; `None` for no limit.
    pub fn set_capacity(&self, bytes: Option<usize>) {
        self.0.lock().capacity = bytes;
    }

    pub fn used(&self) -> usize {
        self.0.lock().used()
    }

    /// Cuts the power after `operations` more changing operations: from then on everything fails.
    pub fn cut_after(&self, operations: u64, seed: u64) {
        let mut state = self.0.lock();
        state.power_left = Some(operations);
        state.random = Some(Random::new(seed));
    }

    /// Kills the process after `operations` more changing operations: from then on everything fails for it.
    /// Its changes stay, synced or not.
    pub fn kill_after(&self, operations: u64) {
        let mut state = self.0.lock();
        (state.power_left, state.is_kill) = (Some(operations), true);
    }

    /// Cuts the power now, or kills the process, unless that has happened already; then restarts.
    pub fn restart(&self, seed: u64) {
        let mut state = self.0.lock();
        if state.power_left != Some(0) {
            state.random = Some(Random::new(seed));
            state.stop();
        }
        state.is_kill = false;
        state.power_left = None;
        state.faults.clear();
        state.pages_lost_after = None;
    }

    /// Number of files ever created.
    pub fn created(&self) -> u64 {
        self.0.lock().made
    }

    pub fn is_on(&self) -> bool {
        self.0.lock().power_left != Some(0)
    }

    /// Edits a file's bytes, for tests of damage; they count as durable.
    pub fn edit(&self, path: &Path, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.0.lock();
        let inode = state.names[path];
        let inode = state.inodes.get_mut(&inode).unwrap();
        edit(&mut inode.current);
        inode.durable = inode.current.clone();
        inode.pending.clear();
    }

    /// File and offset of some bytes; in the last of several files.
    pub fn find(&self, wanted: &[u8]) -> Option<(PathBuf, u64)> {
        let state = self.0.lock();
        state.names.iter().rev().find_map(|(path, inode)| {
            let bytes = &state.inodes[inode].current;
            let at = bytes.windows(wanted.len()).position(|window| window == wanted)?;
            Some((path.clone(), at as u64))
        })
    }

    pub fn paths(&self) -> Vec<PathBuf> {
        self.0.lock().names.keys().cloned().collect()
    }
}

impl State {
    fn used(&self) -> usize {
        self.names.values().filter_map(|inode| self.inodes.get(inode)).map(|inode| inode.current.len()).sum()
    }

    /// Counts an operation, and fails it if a fault is due or the power is cut.
    fn operate(&mut self, operation: Operation, boot: u32, path: Option<&Path>) -> io::Result<()> {
        let is_planned = operation == Operation::Write && std::mem::take(&mut self.panics_at_write);
        assert!(!is_planned, "a panic as planned");
        if boot != self.boot || self.power_left == Some(0) {
            return Err(io::Error::other("the power is off"));
        }
        if operation != Operation::Read
            && let Some(left) = &mut self.power_left
        {
            *left -= 1;
            if *left == 0 {
                self.stop();
                return Err(io::Error::other("the power went off"));
            }
        }
        let due = self.faults.iter_mut().filter(|fault| fault.concerns(operation, path)).find_map(|fault| {
            let due = fault.after == 0;
            fault.after = fault.after.saturating_sub(1);
            due.then_some((fault.error, fault.lasting))
        });
        match due {
            Some((error, lasting)) => {
                if !lasting {
                    let struck = |fault: &Fault| fault.concerns(operation, path) && fault.after == 0;
                    let at = self.faults.iter().position(struck).unwrap();
                    self.faults.remove(at);
                }
                Err(error.into())
            }
            None => Ok(()),
        }
    }

    fn due_before_batch(&mut self) -> Option<Work> {
        let (after, _) = self.before_batch.as_mut()?;
        if *after > 0 {
            *after -= 1;
            return None;
        }
        self.before_batch.take().map(|(_, work)| work)
    }

    fn stop(&mut self) {
        self.boot += 1;
        if !self.is_kill {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let mut random = self.random.take().expect("a cut has a seed");
        let mut kept: HashMap<PathBuf, usize> = HashMap::new();
        for change in &self.name_changes {
            *kept.entry(change.dir().to_owned()).or_default() += 1;
        }
        for count in kept.values_mut() {
            *count = random.below(*count + 1);
        }
        for change in std::mem::take(&mut self.name_changes) {
            let left = kept.get_mut(change.dir()).unwrap();
            if *left > 0 {
                *left -= 1;
                change.apply(&mut self.durable_names, &mut self.durable_dirs);
            }
        }
        self.lose_unreachable();
        (self.names, self.dirs) = (self.durable_names.clone(), self.durable_dirs.clone());
        // In a fixed order, so that a seed always gives the same result.
        let mut numbers: Vec<u64> = self.inodes.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let inode = self.inodes.get_mut(&number).unwrap();
            let bytes = inode.after_cut(&mut random);
            *inode = Inode { durable: bytes.clone(), current: bytes, pending: Vec::new() };
        }
        let named: Vec<u64> = self.names.values().copied().collect();
        self.inodes.retain(|number, _| named.contains(number));
    }

    /// Drops the contents of directories whose own names are lost.
    fn lose_unreachable(&mut self) {
        let mut reachable = BTreeSet::new();
        // Parents come before their contents.
        for dir in &self.durable_dirs {
            let parent = dir.parent().expect("the root is not listed");
            if parent.parent().is_none() || reachable.contains(parent) {
                reachable.insert(dir.clone());
            }
        }
        self.durable_dirs = reachable;
        let dirs = &self.durable_dirs;
        self.durable_names.retain(|path, _| path.parent().is_some_and(|dir| dirs.contains(dir)));
    }

    fn is_dir(&self, dir: &Path) -> bool {
        dir.parent().is_none() || self.dirs.contains(dir)
    }

    /// Fails if the parent directory does not exist.
    fn check_parent(&self, path: &Path) -> io::Result<()> {
        let is_there = path.parent().is_some_and(|dir| self.is_dir(dir));
        if is_there { Ok(()) } else { Err(ErrorKind::NotFound.into()) }
    }

    fn inode(&self, path: &Path) -> io::Result<u64> {
        self.names.get(path).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// By how many of `wanted` bytes a file that is currently not in `inodes` may grow.
    fn room(&self, wanted: usize, inode: &Inode) -> usize {
        let used = self.used() + inode.current.len();
        self.capacity.map_or(wanted, |capacity| wanted.min(capacity.saturating_sub(used)))
    }

    fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.names, &mut self.dirs);
        self.name_changes.push(change);
    }
}

impl Disk for SimDisk {
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.0.lock();
        if !state.is_dir(dir) {
            return Err(ErrorKind::NotFound.into());
        }
        let names = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(names.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect())
    }

    fn is_dir(&self, dir: &Path) -> bool {
        self.0.lock().is_dir(dir)
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        let boot = state.boot;
        state.operate(Operation::MakeDir, boot, Some(dir))?;
        state.check_parent(dir)?;
        if state.is_dir(dir) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        state.change_names(NameChange::MakeDir(dir.to_owned()));
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.0.lock();
        let boot = state.boot;
        state.operate(Operation::Create, boot, Some(path))?;
        state.check_parent(path)?;
        let inode = if let Ok(inode) = state.inode(path) {
            let content = state.inodes.get_mut(&inode).unwrap();
            content.current.clear();
            content.pending.push(Change::Length(0));
            inode
        } else {
            state.made += 1;
            let inode = state.made;
            state.inodes.insert(inode, Inode::default());
            state.change_names(NameChange::Add(path.to_owned(), inode));
            inode
        };
        Ok(Arc::new(SimFile { disk: self.clone(), inode, boot }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let state = self.0.lock();
        Ok(Arc::new(SimFile { disk: self.clone(), inode: state.inode(path)?, boot: state.boot }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        let boot = state.boot;
        state.operate(Operation::Rename, boot, Some(to))?;
        let inode = state.inode(from)?;
        state.change_names(NameChange::Rename(from.to_owned(), to.to_owned(), inode));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        let boot = state.boot;
        state.operate(Operation::Remove, boot, Some(path))?;
        state.inode(path)?;
        state.change_names(NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn space(&self, _dir: &Path) -> io::Result<Space> {
        let state = self.0.lock();
        let total = state.capacity.unwrap_or(usize::MAX >> 1);
        let free_bytes = total.saturating_sub(state.used()) as u64;
        Ok(Space { total_bytes: total as u64, free_bytes })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        let boot = state.boot;
        state.operate(Operation::SyncDir, boot, Some(dir))?;
        if !state.is_dir(dir) {
            return Err(ErrorKind::NotFound.into());
        }
        let (synced, rest) =
            std::mem::take(&mut state.name_changes).into_iter().partition(|change| change.dir() == dir);
        state.name_changes = rest;
        let synced: Vec<NameChange> = synced;
        let State { durable_names, durable_dirs, .. } = &mut *state;
        for change in synced {
            change.apply(durable_names, durable_dirs);
        }
        Ok(())
    }
}

struct SimFile {
    disk: SimDisk,
    inode: u64,
    boot: u32,
}

impl SimFile {
    fn operate<T>(
        &self,
        operation: Operation,
        work: impl FnOnce(&mut State, &mut Inode) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.disk.0.lock();
        state.operate(operation, self.boot, None)?;
        let mut inode = state.inodes.remove(&self.inode).expect("an open file is there");
        let answer = work(&mut state, &mut inode);
        state.inodes.insert(self.inode, inode);
        answer
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        self.operate(Operation::Read, |_, inode| Ok(inode.current.len() as u64))
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let wanted = offset..offset + buf.len() as u64;
        self.operate(Operation::Read, |state, inode| {
            let is_hit = |(inode, bad): &(u64, std::ops::Range<u64>)| {
                *inode == self.inode && bad.start < wanted.end && wanted.start < bad.end
            };
            if state.spoilt.iter().any(is_hit) {
                return Err(io::Error::other("a bad sector"));
            }
            let rest = inode.current.get(offset as usize..).unwrap_or_default();
            let count = rest.len().min(buf.len());
            buf[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        })
    }

    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let mut data: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        let due = if data.len() >= 1000 { self.disk.0.lock().due_before_batch() } else { None };
        if let Some(work) = due {
            work();
        }
        self.operate(Operation::Write, |state, inode| {
            if data.len() >= 1000
                && let Some(error) = state.batch_write_fault.take()
            {
                return Err(error.into());
            }
            let offset = offset as usize;
            let growth = (offset + data.len()).saturating_sub(inode.current.len());
            let missing = growth - state.room(growth, inode);
            data.truncate(data.len() - missing.min(data.len()));
            if data.is_empty() {
                return Err(ErrorKind::StorageFull.into());
            }
            Inode::write(&mut inode.current, offset, &data);
            inode.pending.push(Change::Write(offset, data.clone()));
            Ok(data.len())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.operate(Operation::SyncData, |state, inode| {
            let is_due = state.pages_lost_after == Some(0);
            state.pages_lost_after = state.pages_lost_after.and_then(|after| after.checked_sub(1));
            if is_due {
                inode.lose_pages();
                return Err(io::Error::other("the disk lost pages"));
            }
            inode.sync();
            Ok(())
        })
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.operate(Operation::Truncate, |_, inode| {
            inode.current.resize(len as usize, 0);
            inode.pending.push(Change::Length(len as usize));
            Ok(())
        })
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.operate(Operation::Allocate, |state, inode| {
            let growth = (len as usize).saturating_sub(inode.current.len());
            if state.room(growth, inode) < growth {
                return Err(ErrorKind::StorageFull.into());
            }
            if growth > 0 {
                inode.current.resize(len as usize, 0);
                inode.pending.push(Change::Length(len as usize));
            }
            Ok(())
        })
    }
}
