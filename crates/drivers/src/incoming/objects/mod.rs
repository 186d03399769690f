//! Incoming measures in a log of objects: on Ceph, S3, Swift, or a shared file system, through [`Objects`].
//!
//! The log is a sequence of objects, `log/1`, `log/2` and so on, each created only if absent. So the store
//! itself decides between two writers, the numbers define one order for all processes, and no process needs
//! to know of any other. Requests that arrive while an object is being created form the next one (`writer`).
//! Each process reads each object once, and derives each sack's backlog from it (`tail`, `view`); bodies that
//! workers need again are cached, within a limit (`bodies`).
//!
//! Doubling the sack count is an object of the same log: earlier records are in the old sacks, later ones in
//! the new, and all processes agree on that. A writer groups its batches by the count that it knows, only to
//! save work for readers: they regroup batches written by another count. So nothing needs sealing or
//! rejecting: the doubling object exists or not. Another object records that the old sacks are empty
//! (`settle`).
//!
//! Each process stores the sacks' progress in an object of its own (`acknowledgements`). When all records of
//! the first objects are trimmed, the mark moves beyond them (`mark`) and they are deleted. Numbers are never
//! reused: `tail` describes how a suspended process is prevented from writing or reading below the mark.
//!
//! If the store is emptied or replaced, positions continue above those already used (`registration`).
//!
//! Objects are not listed in normal operation: only other processes, and leftovers below the mark, are found
//! by listing.

mod acknowledgements;
mod bodies;
mod listing;
mod mark;
mod names;
pub(crate) mod object;
mod opening;
mod read;
mod registration;
mod tail;
mod view;
mod writer;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_model::{Fault, MetricId, Numbering, Sack, SackCount};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use uuid::Uuid;

use self::{
    acknowledgements::Acknowledgements,
    listing::Listing,
    object::{Grouped, HEAD_BYTES, LogObjectKind, Object, seal},
    registration::{IDENTITY_DELAY, Registration},
    tail::Tail,
    view::{Progress, View},
    writer::{Counters, Request, RequestQueue},
};
use super::{
    Append, Backlog, Batch, Consume, Incoming, IncomingError, Pending, Position, Positions, Result, Topology,
    log::entries, too_many, write_queue::QueueRoom,
};
use crate::{
    Figure,
    objects::{ObjectError, Objects},
    quarantine::QUARANTINE_BYTES_MAX,
    tasks::Tasks,
};

#[derive(Clone, Debug)]
pub struct ObjectIncomingOptions {
    /// For a new log; an existing one keeps its own.
    pub sack_count: SackCount,
    /// Stored bytes of unacknowledged measures; beyond it `append` returns [`IncomingError::BacklogFull`].
    pub backlog_bytes_max: u64,
    /// Queued bytes between `append` and the store.
    pub queue_bytes_max: u32,
    /// How many bytes of batches one object may have; a larger batch is an object by itself.
    pub object_bytes_max: usize,
    /// Memory for cached objects of the log, for this process's workers.
    pub bodies_bytes_max: usize,
    /// Timeout of a call.
    pub timeout: Duration,
    /// How soon a process with workers polls for the next object: min after a new one, max after a long time
    /// without.
    pub look_delay_min: Duration,
    pub look_delay_max: Duration,
    /// Poll interval of a process without workers, which only updates its figures and its numbering.
    pub look_delay_idle: Duration,
    /// `pending` does not poll the store if this process polled it less than this time ago.
    pub pending_age_max: Duration,
    /// Minimum age of objects, since this process saw them, before they are deleted. A process suspended for
    /// a quarter of it reads the mark before it accepts what it finds. Zero: reads it each time.
    pub keep: Duration,
    /// How often the mark is moved.
    pub mark_delay: Duration,
    /// How long to wait for a missing object in the log before it is given up.
    pub missing_wait: Duration,
    /// How often to check that the store still holds the followed log.
    pub identity_delay: Duration,
}

impl Default for ObjectIncomingOptions {
    fn default() -> Self {
        Self {
            sack_count: SackCount::DEFAULT,
            backlog_bytes_max: 4 << 30,
            queue_bytes_max: 64 << 20,
            object_bytes_max: 4 << 20,
            bodies_bytes_max: 256 << 20,
            timeout: Duration::from_secs(10),
            look_delay_min: Duration::from_millis(10),
            look_delay_max: Duration::from_millis(250),
            look_delay_idle: Duration::from_secs(1),
            pending_age_max: Duration::from_millis(20),
            keep: Duration::from_mins(1),
            mark_delay: Duration::from_secs(10),
            missing_wait: Duration::from_secs(10),
            identity_delay: IDENTITY_DELAY,
        }
    }
}

impl ObjectIncomingOptions {
    fn lease(&self) -> Duration {
        self.keep / 4
    }
}

/// Counters since the start, for `/metrics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectIncomingFigures {
    /// Batches made durable.
    pub appends: u64,
    /// Objects that this process wrote: each has `appends / objects` batches on average.
    pub objects: u64,
    /// The time that writing them took, of all together.
    pub object_time: Duration,
    /// Numbers that another process took first.
    pub conflicts: u64,
    /// Damaged or missing places found.
    pub damaged: u64,
}

pub struct ObjectIncoming {
    shared: Arc<LogState>,
    tasks: Tasks,
}

/// Shared by the callers and the tasks.
struct LogState {
    objects: Arc<dyn Objects>,
    options: ObjectIncomingOptions,
    /// Id of this run of the process.
    process: Uuid,
    /// If aggregates follow the log.
    registration: Option<Registration>,
    view: Mutex<View>,
    arrived: Notify,
    tail: tokio::sync::Mutex<Tail>,
    /// When the last complete read of the log began.
    looked: Mutex<Option<Instant>>,
    /// Whether this process has workers.
    is_listening: AtomicBool,
    listening: Notify,
    queue: RequestQueue,
    /// This process has written an object.
    written: Notify,
    room: QueueRoom,
    acknowledgements: Acknowledgements,
    marked: tokio::sync::Mutex<Marked>,
    counters: Counters,
    damaged: AtomicU64,
    quarantined_bytes: AtomicU64,
}

/// When the mark was last moved, and leftovers below it last searched.
#[derive(Default)]
struct Marked {
    moved: Option<Instant>,
    swept: Option<Instant>,
    /// The search under way.
    listing: Option<Listing>,
}

/// Interval of searches for leftovers.
const SWEEP_DELAY: Duration = Duration::from_hours(1);
/// For how long `positions` reuses the list of other processes.
const LIST_AGE_MAX: Duration = Duration::from_secs(2);
/// Maximum size of a batch.
const BATCH_BYTES_MAX: usize = 64 << 20;

/// Converts a store's error.
fn unavailable(error: ObjectError) -> IncomingError {
    match error {
        ObjectError::NoSpace(reason) => IncomingError::NoSpace(reason),
        ObjectError::Unavailable(reason) => IncomingError::Unavailable(reason),
        error @ (ObjectError::Refused(_) | ObjectError::Exists(_)) => IncomingError::Io(error.to_string()),
    }
}

fn too_late() -> IncomingError {
    IncomingError::Unavailable("no answer in time".to_owned())
}

impl ObjectIncoming {
    pub fn figures(&self) -> ObjectIncomingFigures {
        let LogState { counters, damaged, .. } = &*self.shared;
        ObjectIncomingFigures {
            appends: counters.appends.load(Ordering::Relaxed),
            objects: counters.objects.load(Ordering::Relaxed),
            object_time: Duration::from_micros(counters.object_us.load(Ordering::Relaxed)),
            conflicts: counters.conflicts.load(Ordering::Relaxed),
            damaged: damaged.load(Ordering::Relaxed),
        }
    }
}

impl LogState {
    /// Applies the timeout.
    async fn within<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::time::timeout(self.options.timeout, work).await.unwrap_or_else(|_| Err(too_late()))
    }

    /// Passes a request to the writer, and waits until it is in the log.
    async fn write(&self, kind: LogObjectKind, batch: Option<Grouped>, bytes: u64) -> Result<()> {
        let room = self.room.take(bytes as usize).await;
        // Checked after waiting for room, which is freed when batches enter the backlog.
        let limit = if batch.is_some() { self.options.backlog_bytes_max } else { u64::MAX };
        self.view
            .lock()
            .admit(bytes, limit)
            .map_err(|waiting| IncomingError::BacklogFull { bytes: waiting, limit })?;
        let (done, answer) = oneshot::channel();
        self.queue.push(Request { kind, batch, bytes, done, _room: room });
        answer.await.unwrap_or_else(|_| Err(too_late()))
    }

    /// Reads the log, and then the other processes' acknowledgements.
    async fn refresh(&self, list_age_max: Duration) -> Result<()> {
        let now = Instant::now();
        // In this order: records read may be acknowledged already, but none is acknowledged before it is
        // written.
        self.catch_up(now).await?;
        self.poll_acknowledgements(now, list_age_max).await
    }

    fn listen(&self) {
        if !self.is_listening.swap(true, Ordering::Relaxed) {
            self.view.lock().bodies.enable();
            self.listening.notify_one();
        }
    }

    /// Reports damage to an object, and copies the object to the quarantine.
    fn report(&self, number: u64, object: &Object, bytes: &Bytes) {
        let name = names::log(number);
        if object.head.is_some_and(|head| head.kind == LogObjectKind::Lost) {
            self.damaged.fetch_add(1, Ordering::Relaxed);
            tracing::error!(name, "an object of the log is missing; its measures are lost");
        }
        let Some(first) = object.damaged.first() else { return };
        self.damaged.fetch_add(1, Ordering::Relaxed);
        let place = self.objects.place();
        tracing::error!(
            place,
            name,
            offset = first.start,
            length = bytes.len(),
            "damaged object of the log: set aside"
        );
        let before = self.quarantined_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if before + bytes.len() as u64 > QUARANTINE_BYTES_MAX {
            return;
        }
        let (objects, bytes) = (Arc::clone(&self.objects), bytes.clone());
        tokio::spawn(async move {
            if let Err(error) = objects.put(&names::quarantined(number), bytes).await {
                tracing::error!(%error, "it could not be copied");
            }
        });
    }

    /// Reports a damaged small object.
    fn report_small(&self, name: &str) {
        self.damaged.fetch_add(1, Ordering::Relaxed);
        tracing::error!(place = self.objects.place(), name, "damaged object: skipped");
    }

    async fn put_hint(&self, number: u64) -> Result<()> {
        let hint = seal(HINT_KIND, &number.to_le_bytes());
        self.objects.put(names::HINT, hint).await.map_err(unavailable)
    }

    /// A lower bound of the log's end.
    async fn hint(&self) -> Result<u64> {
        let bytes = self.objects.get(names::HINT).await.map_err(unavailable)?;
        let hint = bytes.as_deref().and_then(|bytes| object::unseal(HINT_KIND, bytes));
        let Some((version, payload)) = hint else { return Ok(0) };
        object::check_version(names::HINT, version)?;
        Ok(payload.try_into().map_or(0, u64::from_le_bytes))
    }
}

const HINT_KIND: u64 = 0x544e_4948;

impl Incoming for ObjectIncoming {
    fn damaged(&self) -> u64 {
        self.shared.damaged.load(Ordering::Relaxed)
    }

    fn shared_figures(&self) -> Vec<Figure> {
        let ObjectIncomingFigures { appends, objects, object_time, conflicts, damaged } = self.figures();
        vec![
            Figure::counter("appends", "Requests made durable", appends),
            Figure::counter("objects", "Objects written to the log of measures", objects),
            Figure::time("object_seconds", "Time of writing these objects in seconds", object_time),
            Figure::counter("conflicts", "Numbers of objects that another process took first", conflicts),
            Figure::counter("damaged", "Damaged places found", damaged),
        ]
    }

    fn fault(&self) -> Option<Fault> {
        if self.shared.registration.as_ref().is_some_and(|registration| registration.replaced().is_some()) {
            return Some(Fault::Ended("the log of objects that this process follows"));
        }
        self.tasks.fault("a task of the log of objects")
    }

    fn topology(&self) -> Option<&dyn Topology> {
        Some(self)
    }
}

#[async_trait]
impl Append for ObjectIncoming {
    async fn append(&self, batch: Batch) -> Result<()> {
        if batch.entries.is_empty() {
            return Ok(());
        }
        let count = self.numbering().count;
        let (frame, parts) = entries::encode(&batch, count);
        drop(batch);
        if frame.len() + HEAD_BYTES > BATCH_BYTES_MAX {
            return Err(IncomingError::Io(format!("a batch of {} bytes is too large", frame.len())));
        }
        let bytes = parts.iter().map(entries::SackExtent::stored_bytes).sum();
        let work = self.shared.write(LogObjectKind::Measures, Some(Grouped { count, frame }), bytes);
        self.shared.within(work).await
    }

    async fn backlog(&self) -> Result<Backlog> {
        self.shared.within(self.shared.refresh(Duration::ZERO)).await?;
        Ok(self.shared.view.lock().backlog())
    }

    async fn backlog_by_metric(&self) -> Result<HashMap<MetricId, u64>> {
        self.shared.within(self.shared.refresh(Duration::ZERO)).await?;
        self.shared.backlog_by_metric().await
    }
}

#[async_trait]
impl Consume for ObjectIncoming {
    fn numbering(&self) -> Numbering {
        self.shared.view.lock().numbering()
    }

    async fn pending(&self, sack: Sack, after: Position, bytes_max: usize) -> Result<Pending> {
        self.shared.listen();
        self.shared.within(self.shared.pending(sack, after, bytes_max)).await
    }

    async fn acknowledge(&self, sack: Sack, up_to: Position) -> Result<()> {
        let progress = Progress { acknowledged: up_to, ..Progress::default() };
        self.shared.view.lock().progress(sack, progress);
        self.shared.acknowledgements.add([(sack, progress)]);
        self.shared.pass_lost(sack);
        Ok(())
    }

    async fn trim(&self, up_to: &[(Sack, Position)]) -> Result<()> {
        let shared = &self.shared;
        let progress = |position: &Position| Progress { acknowledged: *position, trimmed: *position };
        let known: Vec<_> = up_to.iter().map(|(sack, position)| (*sack, progress(position))).collect();
        {
            let mut view = shared.view.lock();
            for (sack, progress) in &known {
                view.progress(*sack, *progress);
            }
            view.trim_settled();
        }
        shared.acknowledgements.add(known);
        shared.within(shared.trim()).await
    }

    async fn positions(&self, sacks: &[Sack]) -> Result<Vec<Positions>> {
        if sacks.is_empty() {
            return Ok(Vec::new());
        }
        self.shared.within(self.shared.refresh(LIST_AGE_MAX)).await?;
        let view = self.shared.view.lock();
        Ok(sacks.iter().map(|sack| view.positions(*sack)).collect())
    }

    async fn arrivals(&self) -> Vec<Sack> {
        self.shared.listen();
        loop {
            let unnamed = self.shared.view.lock().take_unnamed();
            if !unnamed.is_empty() {
                return unnamed;
            }
            self.shared.arrived.notified().await;
        }
    }
}

#[async_trait]
impl Topology for ObjectIncoming {
    async fn split(&self) -> Result<Numbering> {
        let shared = &self.shared;
        shared.within(shared.catch_up(Instant::now())).await?;
        let numbering = self.numbering();
        if numbering.draining {
            return Ok(numbering);
        }
        let doubled = numbering.count.doubled().ok_or_else(|| too_many(numbering))?;
        if let Some(registration) = &shared.registration {
            shared.within(registration.double(doubled)).await?;
        }
        shared.within(shared.write(LogObjectKind::Split(numbering.count), None, 0)).await?;
        Ok(self.numbering())
    }

    async fn settle(&self) -> Result<Numbering> {
        let shared = &self.shared;
        shared.within(shared.refresh(Duration::ZERO)).await?;
        let (numbering, is_drained) = {
            let view = shared.view.lock();
            (view.numbering(), view.is_drained())
        };
        if numbering.draining && is_drained {
            shared.within(shared.write(LogObjectKind::Settle(numbering.count), None, 0)).await?;
        }
        Ok(self.numbering())
    }
}
