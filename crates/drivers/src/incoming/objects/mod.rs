//! Measures waiting in a log of objects: on Ceph, S3, Swift, or a shared file system, through [`Objects`].
//!
//! The log is a row of objects, `log/1`, `log/2` and so on, each created only where there is none. So the store itself decides
//! between two writers, a number is the place in an order that is the same for everybody, and no process needs to know of any other.
//! Requests that come while an object is being created become the next one (`writer`). Each process reads the log, each object once,
//! and knows from it the backlog of each sack (`tail`, `view`); what it reads again for its workers it keeps in memory within
//! a bound (`bodies`).
//!
//! That the count of sacks was doubled is an object of the same log: what comes before lies in the old sacks, what comes behind
//! it in the new ones, and nobody can see it otherwise. A writer groups its batches by the count that it knows, only to save the readers
//! work: a reader regroups what was written by another count. So there is nothing to seal and nothing to refuse; doubling is one object
//! that is there or not. That the old sacks are empty (`settle`) is another one.
//!
//! How far sacks have come each process says in an object of its own (`acknowledgements`). When all records of the first objects are
//! trimmed, the mark passes them (`mark`) and they are deleted. Numbers are never used again: `tail` says how a process that slept is
//! kept from writing or reading below the mark.
//!
//! Where the store is emptied or replaced, positions go on above those that were used (`registration`).
//!
//! What this does not do: list objects while measures come and go. Only new processes are found by a list, and what is left below
//! the mark.

mod acknowledgements;
mod bodies;
mod mark;
mod names;
mod object;
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
use tokio::{
    sync::{Notify, Semaphore, oneshot},
    task::JoinHandle,
};
use uuid::Uuid;

use self::{
    acknowledgements::Acknowledgements,
    object::{Grouped, HEAD_BYTES, LogObjectKind, Object, seal},
    registration::{IDENTITY_DELAY, Registration},
    tail::Tail,
    view::{Progress, View},
    writer::{Counters, Request, RequestQueue},
};
use super::{
    Append, Backlog, Batch, Consume, Incoming, IncomingError, Pending, Position, Positions, Topology,
    log::entries, too_many,
};
use crate::objects::{ObjectError, Objects};

#[derive(Clone, Debug)]
pub struct ObjectIncomingOptions {
    /// For a new log; one that exists keeps its own.
    pub sack_count: SackCount,
    /// Stored bytes of measures not yet acknowledged; beyond it `append` answers [`IncomingError::BacklogFull`].
    pub backlog_bytes_max: u64,
    /// Batches between `append` and the store.
    pub queue_bytes_max: u32,
    /// What one object may gather; a larger batch is an object by itself.
    pub object_bytes_max: usize,
    /// How much of the log is kept in memory for this process's workers.
    pub bodies_bytes_max: usize,
    /// After so long a call that the store has not answered fails.
    pub timeout: Duration,
    /// How soon a process with workers looks for the next object when there was one just now, and when there was none for long.
    pub look_delay_min: Duration,
    pub look_delay_max: Duration,
    /// How often a process without workers looks, which only keeps its figures and its numbering fresh.
    pub look_delay_idle: Duration,
    /// `pending` does not ask the store where this process has looked so short a time ago.
    pub pending_age_max: Duration,
    /// Objects are deleted when they were seen so long ago at least, though they are trimmed. A process that slept for a
    /// quarter of it asks for the mark before it accepts what it finds. Zero: it asks each time.
    pub keep: Duration,
    /// How often the mark is moved.
    pub mark_delay: Duration,
    /// An object that is missing between others is given up after so long.
    pub missing_wait: Duration,
    /// How often it is looked whether the store holds the log that is followed, and not another one.
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

/// Figures since the start, for `/metrics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectIncomingFigures {
    /// Batches made durable.
    pub appends: u64,
    /// Objects that this process wrote: `appends / objects` batches share one.
    pub objects: u64,
    /// Numbers that another process took first.
    pub conflicts: u64,
    /// Damaged or missing places found.
    pub damaged: u64,
}

pub struct ObjectIncoming {
    shared: Arc<LogState>,
    tasks: Vec<JoinHandle<()>>,
}

/// What the callers and the tasks share.
struct LogState {
    objects: Arc<dyn Objects>,
    options: ObjectIncomingOptions,
    /// This life of the process.
    process: Uuid,
    /// Where aggregates follow the log.
    registration: Option<Registration>,
    view: Mutex<View>,
    arrived: Notify,
    tail: tokio::sync::Mutex<Tail>,
    /// When the last reading of the log began that came to its end.
    looked: Mutex<Option<Instant>>,
    /// Whether there are workers here.
    is_listening: AtomicBool,
    listening: Notify,
    queue: RequestQueue,
    room: Arc<Semaphore>,
    acknowledgements: Acknowledgements,
    marked: tokio::sync::Mutex<Marked>,
    counters: Counters,
    damaged: AtomicU64,
    quarantined_bytes: AtomicU64,
}

/// When the mark was moved, and what lies below it was looked for.
#[derive(Default)]
struct Marked {
    moved: Option<Instant>,
    swept: Option<Instant>,
}

/// How often leftovers are looked for.
const SWEEP_DELAY: Duration = Duration::from_hours(1);
/// For how long a list of the other processes does for `positions`.
const LIST_AGE_MAX: Duration = Duration::from_secs(2);
/// Beyond it damage is reported and counted, but no longer copied.
const QUARANTINE_BYTES_MAX: u64 = 256 << 20;
/// The longest batch.
const BATCH_BYTES_MAX: usize = 64 << 20;
/// What a waiting batch takes beside its bytes; bounds the number of batches in the queue too.
const BATCH_OVERHEAD_BYTES: usize = 256;

/// A store's failure, as the callers of [`Incoming`] know it.
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
            conflicts: counters.conflicts.load(Ordering::Relaxed),
            damaged: damaged.load(Ordering::Relaxed),
        }
    }
}

impl Drop for ObjectIncoming {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl LogState {
    /// Does not wait for longer than a call may.
    async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, IncomingError>>,
    ) -> Result<T, IncomingError> {
        tokio::time::timeout(self.options.timeout, work).await.unwrap_or_else(|_| Err(too_late()))
    }

    /// Hands something to the writer, and waits until it is in the log.
    async fn write(
        &self,
        kind: LogObjectKind,
        batch: Option<Grouped>,
        bytes: u64,
    ) -> Result<(), IncomingError> {
        let cost = (bytes as usize + BATCH_OVERHEAD_BYTES).min(self.options.queue_bytes_max as usize) as u32;
        let room = Arc::clone(&self.room).acquire_many_owned(cost).await.expect("the room is never closed");
        // Room was made by what has entered the backlog since.
        let limit = if batch.is_some() { self.options.backlog_bytes_max } else { u64::MAX };
        self.view
            .lock()
            .admit(bytes, limit)
            .map_err(|waiting| IncomingError::BacklogFull { bytes: waiting, limit })?;
        let (done, answer) = oneshot::channel();
        self.queue.push(Request { kind, batch, bytes, done, _room: room });
        answer.await.unwrap_or_else(|_| Err(too_late()))
    }

    /// Reads the log and what the other processes say, as of now.
    async fn refresh(&self, list_age_max: Duration) -> Result<(), IncomingError> {
        let now = Instant::now();
        // What was read first may be acknowledged already, but nothing is acknowledged that was not written.
        self.catch_up(now).await?;
        self.poll_acknowledgements(now, list_age_max).await
    }

    fn listen(&self) {
        if !self.is_listening.swap(true, Ordering::Relaxed) {
            self.view.lock().bodies.enable();
            self.listening.notify_one();
        }
    }

    /// Reports what is wrong with an object, and sets it aside.
    fn report(&self, number: u64, object: &Object, bytes: &Bytes) {
        let name = names::log(number);
        if object.head.is_some_and(|head| head.kind == LogObjectKind::Lost) {
            self.damaged.fetch_add(1, Ordering::Relaxed);
            tracing::error!(name, "an object of the log is gone, and the measures in it");
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

    /// Reports a small object that is damaged.
    fn report_small(&self, name: &str) {
        self.damaged.fetch_add(1, Ordering::Relaxed);
        tracing::error!(place = self.objects.place(), name, "damaged object: left out");
    }

    async fn put_hint(&self, number: u64) -> Result<(), IncomingError> {
        let hint = seal(HINT_KIND, &number.to_le_bytes());
        self.objects.put(names::HINT, hint).await.map_err(unavailable)
    }

    /// Where the log has come to at least.
    async fn hint(&self) -> Result<u64, IncomingError> {
        let bytes = self.objects.get(names::HINT).await.map_err(unavailable)?;
        let number = bytes.as_deref().and_then(|bytes| object::unseal(HINT_KIND, bytes));
        let number = number.and_then(|(_, payload)| payload.try_into().ok()).map(u64::from_le_bytes);
        Ok(number.unwrap_or_default())
    }
}

const HINT_KIND: u64 = 0x544e_4948;

impl Incoming for ObjectIncoming {
    fn fault(&self) -> Option<Fault> {
        if self.shared.registration.as_ref().is_some_and(|registration| registration.replaced().is_some()) {
            return Some(Fault::Ended("the log of objects that this process follows"));
        }
        let has_ended = self.tasks.iter().any(JoinHandle::is_finished);
        has_ended.then_some(Fault::Ended("a task of the log of objects"))
    }

    fn topology(&self) -> Option<&dyn Topology> {
        Some(self)
    }
}

#[async_trait]
impl Append for ObjectIncoming {
    async fn append(&self, batch: Batch) -> Result<(), IncomingError> {
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

    async fn backlog(&self) -> Result<Backlog, IncomingError> {
        self.shared.within(self.shared.refresh(Duration::ZERO)).await?;
        Ok(self.shared.view.lock().backlog())
    }

    async fn backlog_by_metric(&self) -> Result<HashMap<MetricId, u64>, IncomingError> {
        self.shared.within(self.shared.refresh(Duration::ZERO)).await?;
        self.shared.backlog_by_metric().await
    }
}

#[async_trait]
impl Consume for ObjectIncoming {
    fn numbering(&self) -> Numbering {
        self.shared.view.lock().numbering()
    }

    async fn pending(&self, sack: Sack, after: Position, bytes_max: usize) -> Result<Pending, IncomingError> {
        self.shared.listen();
        self.shared.within(self.shared.pending(sack, after, bytes_max)).await
    }

    async fn acknowledge(&self, sack: Sack, up_to: Position) -> Result<(), IncomingError> {
        let progress = Progress { acknowledged: up_to, ..Progress::default() };
        self.shared.view.lock().progress(sack, progress);
        self.shared.acknowledgements.tell([(sack, progress)]);
        Ok(())
    }

    async fn trim(&self, up_to: &[(Sack, Position)]) -> Result<(), IncomingError> {
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
        shared.acknowledgements.tell(known);
        shared.within(shared.trim()).await
    }

    async fn positions(&self, sacks: &[Sack]) -> Result<Vec<Positions>, IncomingError> {
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
    async fn split(&self) -> Result<Numbering, IncomingError> {
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

    async fn settle(&self) -> Result<Numbering, IncomingError> {
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
