//! The journal: the raw measures that an incoming store has accepted, kept in log files beside it. The store
//! drops them once they are in the aggregates, but a migration to another program needs them.
//!
//! [`Journaled`] is an incoming store that writes each batch to the journal before passing it to the
//! underlying store, and answers once it is durable in both. One writer thread gathers queued batches and
//! syncs once for all. [`JournalReader`] reads the journal, also while it is being written. Nothing is ever
//! removed: that is up to the operator.
//!
//! The files are those of `segments`, with a frame per batch. A frame has one item: its tag is the time of
//! the batch in nanoseconds, its payload the entries as in the incoming log (`log::entries`), in the
//! request's order. The owner tag has the version of this format in its highest byte, and a part of the
//! store's id in the others.

mod figures;
mod journaled;
mod read;
mod writer;

use std::{
    fs::File,
    path::Path,
    sync::{Arc, OnceLock},
    thread::JoinHandle,
};

use gnudi_model::{Fault, Timestamp};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use uuid::Uuid;

use self::figures::Counters;
pub use self::{
    figures::JournalFigures,
    journaled::Journaled,
    read::{Found, JournalEntry, JournalPosition, JournalReader},
};
use super::{Batch, IncomingError, Result, log::Durability, log::entries::put_entry, write_queue::QueueRoom};
use crate::{
    OpenError,
    data_dir::lock,
    disk::{Disk, LocalDisk},
    quarantine::Quarantine,
    reserve::Reserve,
    segments::{
        Frame, HeaderError, OwnerState, SEGMENT_HEADER_BYTES, Segment, SegmentHeader, SegmentLog,
        SegmentOptions, Tear, file_name, frame::FRAME_BYTES_MAX, numbers_on,
    },
};

/// Version of the frames' contents.
pub const FORMAT_VERSION: u8 = 1;

/// An entry's overhead (id, counts), for sizing buffers.
const ENTRY_OVERHEAD_BYTES: usize = 24;

#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// The id that the index has given the store.
    pub store: Uuid,
    pub durability: Durability,
    /// Size of a file.
    pub segment_bytes: u32,
    /// Queued bytes between `append` and the disk.
    pub queue_bytes_max: u32,
    /// The store's reserve of disk space. A journal on the same file system is written before the store refuses a batch, and
    /// clients repeat what is refused: it must not take the space that deletions need.
    pub reserve: Reserve,
    pub clock: fn() -> Timestamp,
}

/// A journal open for writing, by one process at a time.
pub struct Journal {
    /// `None` while closing.
    queue: Option<mpsc::UnboundedSender<Waiting>>,
    room: QueueRoom,
    poisoned: Arc<OnceLock<String>>,
    counters: Arc<Counters>,
    clock: fn() -> Timestamp,
    writer: Option<JoinHandle<()>>,
    _lock: Option<File>,
}

/// A batch waiting to be written.
struct Waiting {
    frame: Frame,
    written: Answer,
    durable: Answer,
    /// Released when the batch is dropped.
    room: OwnedSemaphorePermit,
}

type Answer = oneshot::Sender<Result<()>>;

/// A batch that is written, but maybe not durable yet.
#[must_use]
pub struct Written(oneshot::Receiver<Result<()>>);

impl Written {
    /// Waits until it is durable. After an error it may or may not exist.
    pub async fn durable(self) -> Result<()> {
        self.0.await.unwrap_or_else(|_| Err(stopped()))
    }
}

impl Journal {
    /// Opens the journal in `dir`, creating it if missing. Cuts off a torn end.
    pub fn open(dir: &Path, options: &JournalOptions) -> Result<Self, OpenError> {
        LocalDisk.create_dir(dir).map_err(OpenError::io(dir))?;
        let lock = lock(dir).map_err(|error| match error {
            OpenError::InUse { dir } => OpenError::Invalid {
                path: dir,
                reason: "another process writes this journal: each needs a directory of its own".to_owned(),
            },
            error => error,
        })?;
        let reserve = options.reserve.for_files_in(dir);
        Self::start(Arc::new(LocalDisk), dir, &JournalOptions { reserve, ..options.clone() }, Some(lock))
    }

    /// Like [`Journal::open`], on another disk, which is that of the reserve, and without a lock.
    pub fn open_on(disk: Arc<dyn Disk>, dir: &Path, options: &JournalOptions) -> Result<Self, OpenError> {
        Self::start(disk, dir, options, None)
    }

    fn start(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: &JournalOptions,
        lock: Option<File>,
    ) -> Result<Self, OpenError> {
        disk.create_dir(dir).map_err(OpenError::io(dir))?;
        let numbers = numbers_on(&*disk, dir).map_err(OpenError::io(dir))?;
        if let Some(last) = numbers.last() {
            check_owner(&*disk, dir, *last, options.store)?;
        }
        let quarantine = Quarantine::new(Arc::clone(&disk), dir.join("quarantine"));
        let segment_options = SegmentOptions {
            segment_bytes: options.segment_bytes,
            spares_max: 0,
            sync_full: options.durability == Durability::Sync,
            tear: Tear::KeepWhole,
            reserve: options.reserve.clone(),
        };
        // Only the last file can be torn; reading all would take longer each day.
        let unread = numbers.last().map_or(0, |last| last - 1);
        let known = OwnerState { owner_tag: owner_tag(options.store), unread, ..OwnerState::default() };
        let (mut bytes, files) = (u64::from(SEGMENT_HEADER_BYTES), numbers.len() as u64 + 1);
        for number in numbers.iter().rev().skip(1) {
            let path = dir.join(file_name(*number));
            bytes += disk.open(&path).and_then(|file| file.len()).map_err(OpenError::io(&path))?;
        }
        let log = SegmentLog::open(disk, dir, segment_options, &quarantine, known, &mut |_| {});
        let log = log.map_err(|error| match error {
            // A repair is of the data directory.
            OpenError::Unreadable { path, source } => OpenError::Io { path, source },
            error => error,
        })?;
        // The last file ends where its frames end, and another one has been begun.
        bytes += u64::from(log.found_end().offset);
        let counters = Arc::new(Counters { bytes: bytes.into(), files: files.into(), ..Counters::default() });
        let (queue, waiting) = mpsc::unbounded_channel();
        let poisoned = Arc::new(OnceLock::new());
        let writer = std::thread::Builder::new().name("gnudi-journal".into()).spawn({
            let (poisoned, counters) = (Arc::clone(&poisoned), Arc::clone(&counters));
            let durability = options.durability;
            move || writer::run(log, waiting, durability, &poisoned, &counters)
        });
        Ok(Self {
            queue: Some(queue),
            room: QueueRoom::new(options.queue_bytes_max),
            poisoned,
            counters,
            clock: options.clock,
            writer: Some(writer.map_err(OpenError::io(dir))?),
            _lock: lock,
        })
    }

    /// Writes a batch; `Ok` means durable. After an error it may or may not exist, except that
    /// [`IncomingError::NoSpace`] leaves nothing.
    pub async fn append(&self, batch: &Batch) -> Result<()> {
        self.write(batch).await?.durable().await
    }

    /// Writes a batch without waiting for the sync; errors like [`Journal::append`].
    pub async fn write(&self, batch: &Batch) -> Result<Written> {
        if let Some(reason) = self.poisoned.get() {
            return Err(poison(reason));
        }
        let frame = encode(batch, (self.clock)());
        if frame.len() > FRAME_BYTES_MAX {
            return Err(IncomingError::Io(format!("a batch of {} bytes is too large", frame.len())));
        }
        let room = self.room.take(frame.len()).await;
        let ((written, is_written), (durable, is_durable)) = (oneshot::channel(), oneshot::channel());
        let queue = self.queue.as_ref().expect("open as long as it lives");
        queue.send(Waiting { frame, written, durable, room }).map_err(|_| stopped())?;
        is_written.await.unwrap_or_else(|_| Err(stopped()))?;
        Ok(Written(is_durable))
    }

    pub fn figures(&self) -> JournalFigures {
        self.counters.figures()
    }

    /// A fault of the journal itself, beyond single failed calls.
    pub fn fault(&self) -> Option<Fault> {
        if let Some(reason) = self.poisoned.get() {
            return Some(Fault::OutOfOrder(format!("the journal accepts no measures: {reason}")));
        }
        let ended = self.writer.as_ref().is_some_and(JoinHandle::is_finished);
        ended.then_some(Fault::Ended("the writer of the journal"))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the writer of the journal panicked");
        }
    }
}

fn stopped() -> IncomingError {
    poison("its writer has stopped")
}

fn poison(reason: &str) -> IncomingError {
    IncomingError::Poisoned(format!("the journal: {reason}"))
}

fn encode(batch: &Batch, now: Timestamp) -> Frame {
    let mut frame = Frame::with_capacity(batch.bytes.len() + batch.entries.len() * ENTRY_OVERHEAD_BYTES);
    frame.push(now.0 as u64, |out| {
        for entry in &batch.entries {
            put_entry(out, entry, &batch.bytes);
        }
    });
    frame
}

const STORE_BITS: u32 = 56;

fn owner_tag(store: Uuid) -> u64 {
    u64::from(FORMAT_VERSION) << STORE_BITS | store_of(store.as_u64_pair().0)
}

fn store_of(tag: u64) -> u64 {
    tag & ((1 << STORE_BITS) - 1)
}

/// Refuses a journal of a newer program or of another store. Ignores a damaged header.
fn check_owner(disk: &dyn Disk, dir: &Path, number: u32, store: Uuid) -> Result<(), OpenError> {
    let path = dir.join(file_name(number));
    let segment = Segment::open_to_read(disk, dir, number).map_err(OpenError::io(&path))?;
    let tag = match SegmentHeader::read(&*segment.file, number).map_err(OpenError::io(&path))? {
        Ok(header) => header.owner_tag,
        Err(HeaderError::TooNew(found)) => {
            return Err(OpenError::TooNew { path, found, known: crate::segments::FORMAT_VERSION });
        }
        Err(HeaderError::Damaged) => return Ok(()),
    };
    let version = (tag >> STORE_BITS) as u8;
    if version > FORMAT_VERSION {
        return Err(OpenError::TooNew { path, found: version.into(), known: FORMAT_VERSION.into() });
    }
    if store_of(tag) != store_of(owner_tag(store)) {
        let reason = "the journal belongs to another store: give each a directory of its own".to_owned();
        return Err(OpenError::Invalid { path: dir.to_owned(), reason });
    }
    Ok(())
}
