//! Writes the log: requests that arrive while an object is being created form the next one.
//!
//! An object is created at the first number that is free as far as this process knows. If another process was
//! first, the view reads its object, and the next number is tried. If the outcome is unknown, reading on
//! shows it: an object has its writer's id and a sequence, which retries keep.
//!
//! The winner of several writers would win again, since it knows the next number before the others do; so
//! after a success it waits about as long as an attempt of the others takes, if there are any.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot};

use super::{
    LogState, names,
    object::{BATCHES_MAX, Grouped, Head, LogObjectKind, Object, encode},
    unavailable,
};
use crate::{
    incoming::{IncomingError, Result},
    objects::{ObjectError, clock::Moment},
};

const RETRY_DELAY_MIN: Duration = Duration::from_millis(10);
const RETRY_DELAY_MAX: Duration = Duration::from_millis(500);
/// Interval of writing the hint.
const HINT_EVERY: Duration = Duration::from_secs(1);

/// A batch or a change of the numbering to be written.
pub struct Request {
    pub kind: LogObjectKind,
    /// `None` if it has no measures.
    pub batch: Option<Grouped>,
    pub bytes: u64,
    pub done: oneshot::Sender<Result<()>>,
    /// Released when the request is dropped.
    pub _room: OwnedSemaphorePermit,
}

#[derive(Default)]
pub struct RequestQueue {
    waiting: Mutex<VecDeque<Request>>,
    ready: Notify,
}

impl RequestQueue {
    pub fn push(&self, request: Request) {
        self.waiting.lock().push_back(request);
        self.ready.notify_one();
    }

    /// The requests for the next object, and the bytes of requests that were cancelled. Without requests if
    /// only such were found: their bytes would count until the next one.
    async fn take(&self, bytes_max: u64) -> (Vec<Request>, u64) {
        loop {
            let mut group: Vec<Request> = Vec::new();
            let (mut bytes, mut abandoned) = (0, 0);
            {
                let mut waiting = self.waiting.lock();
                // Drop cancelled requests: a refused batch must not appear later, behind newer ones.
                waiting.retain(|request| {
                    if request.done.is_closed() {
                        abandoned += request.bytes;
                    }
                    !request.done.is_closed()
                });
                while let Some(request) = waiting.pop_front_if(|request| {
                    let fits = bytes + request.bytes <= bytes_max && group.len() < BATCHES_MAX;
                    let is_measures = request.kind == LogObjectKind::Measures;
                    group
                        .first()
                        .is_none_or(|first| fits && is_measures && first.kind == LogObjectKind::Measures)
                }) {
                    bytes += request.bytes;
                    group.push(request);
                }
            }
            if !group.is_empty() || abandoned > 0 {
                return (group, abandoned);
            }
            self.ready.notified().await;
        }
    }
}

/// Counters since the start.
#[derive(Default)]
pub struct Counters {
    pub appends: AtomicU64,
    pub objects: AtomicU64,
    pub object_us: AtomicU64,
    pub conflicts: AtomicU64,
}

struct Writer {
    shared: Arc<LogState>,
    sequence: u64,
    /// Smoothed duration of a create request.
    trip: Duration,
}

/// Writes requests until the process ends.
pub async fn run(shared: Arc<LogState>) {
    let mut writer = Writer { shared, sequence: 0, trip: Duration::ZERO };
    loop {
        let group_bytes_max = writer.shared.options.object_bytes_max as u64;
        let (mut group, abandoned) = writer.shared.queue.take(group_bytes_max).await;
        writer.shared.view.lock().leave_queue(abandoned);
        if group.is_empty() {
            continue;
        }
        writer.sequence += 1;
        let answer = writer.write(&mut group).await;
        let Counters { appends, objects, .. } = &writer.shared.counters;
        if answer.is_ok() {
            appends.fetch_add(group.len() as u64, Ordering::Relaxed);
            objects.fetch_add(1, Ordering::Relaxed);
        }
        let done: u64 = group.iter().map(|request| request.bytes).sum();
        writer.shared.view.lock().leave_queue(done);
        for request in group {
            // The receiver is gone if the caller was cancelled.
            let _ = request.done.send(answer.clone());
        }
        if answer.is_ok() {
            writer.shared.written.notify_one();
            writer.let_others_in().await;
        }
    }
}

/// Outcome of an attempt to create an object.
enum Attempt {
    Written,
    /// Another process was first.
    Lost,
    /// Unknown whether it was created.
    Unknown(IncomingError),
    /// It was not created.
    Failed(IncomingError),
}

impl Writer {
    async fn write(&mut self, group: &mut [Request]) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let deadline = Instant::now() + shared.options.timeout;
        let kind = group[0].kind;
        let head = Head { writer: shared.process, sequence: self.sequence, kind };
        let mut delay = RETRY_DELAY_MIN;
        // The lowest number at which it may exist without this process knowing.
        let mut doubtful: Option<u64> = None;
        let mut losses = 0;
        loop {
            let (number, is_behind, own) = {
                let view = shared.view.lock();
                (view.next(), view.is_behind(), view.own())
            };
            // An object in doubt may have been read meanwhile.
            if own == self.sequence {
                return Ok(());
            }
            let mut attempt = if is_behind {
                Attempt::Lost
            } else if let Err(error) = within(deadline, shared.reserve(number)).await {
                Attempt::Failed(error)
            } else {
                let batches = group.iter_mut().filter_map(|request| request.batch.as_mut());
                let body = encode(number, &head, batches);
                self.attempt(number, &body, deadline).await
            };
            if let Attempt::Lost = attempt {
                losses += 1;
                shared.counters.conflicts.fetch_add(1, Ordering::Relaxed);
                if let Err(error) = within(deadline, shared.pass(number)).await {
                    attempt = Attempt::Unknown(error);
                }
            }
            if let Attempt::Unknown(_) = attempt {
                doubtful = doubtful.or(Some(number));
                if let Err(error) = within(deadline, shared.catch_up(Instant::now())).await {
                    attempt = Attempt::Unknown(error);
                }
            }
            let (own, next, skipped) = {
                let view = shared.view.lock();
                (view.own(), view.next(), view.skipped())
            };
            if matches!(attempt, Attempt::Written) || own == self.sequence {
                return Ok(());
            }
            if doubtful.is_some_and(|doubtful| doubtful <= skipped) {
                return Err(IncomingError::Unavailable("it is unknown whether it was written".to_owned()));
            }
            // That number was read, and is another writer's.
            doubtful = doubtful.filter(|doubtful| *doubtful >= next);
            let error = match attempt {
                Attempt::Failed(error) if doubtful.is_some() => {
                    return Err(IncomingError::Unavailable(error.to_string()));
                }
                Attempt::Failed(error) => return Err(error),
                Attempt::Unknown(error) => error,
                Attempt::Written | Attempt::Lost => {
                    IncomingError::Unavailable("other processes won every race".to_owned())
                }
            };
            let is_abandoned = group.iter().all(|request| request.done.is_closed());
            if is_abandoned || Instant::now() + delay >= deadline {
                return Err(error);
            }
            if losses > 0 && doubtful.is_none() {
                self.step_aside(losses).await;
            } else {
                tokio::time::sleep(delay).await;
                delay = (delay * 2).min(RETRY_DELAY_MAX);
            }
        }
    }

    async fn attempt(&mut self, number: u64, body: &Bytes, deadline: Instant) -> Attempt {
        let shared = &self.shared;
        let asked = Moment::now();
        let name = names::log(number);
        let create = shared.objects.create(&name, body.clone());
        let began = Instant::now();
        let Ok(created) = tokio::time::timeout_at(deadline.into(), create).await else {
            return Attempt::Unknown(super::too_late());
        };
        match created {
            Ok(()) => {}
            Err(ObjectError::Exists(_)) => return Attempt::Lost,
            Err(error @ ObjectError::Unavailable(_)) => return Attempt::Unknown(unavailable(error)),
            Err(error) => return Attempt::Failed(unavailable(error)),
        }
        let took = asked.elapsed();
        shared.counters.object_us.fetch_add(began.elapsed().as_micros() as u64, Ordering::Relaxed);
        self.trip = if self.trip.is_zero() { took } else { (self.trip * 7 + took) / 8 };
        let object = Object::parse(number, body);
        match within(deadline, shared.created(number, &object, body, asked)).await {
            Ok(true) => Attempt::Written,
            Err(error) => Attempt::Unknown(error),
            // A mark cannot pass an object younger than `keep`: so this process was suspended, and wrote
            // below the mark.
            Ok(false) if asked.elapsed() < shared.options.keep => Attempt::Lost,
            Ok(false) => Attempt::Unknown(IncomingError::Unavailable(
                "the log was trimmed while it was written".to_owned(),
            )),
        }
    }

    /// Spreads the retries of several losers.
    async fn step_aside(&mut self, losses: u32) {
        let others = self.shared.view.lock().other_writers();
        if losses < 3 && others > 1 {
            tokio::time::sleep(self.trip.mul_f64(fastrand::f64())).await;
        }
    }

    async fn let_others_in(&mut self) {
        let others = self.shared.view.lock().other_writers();
        if others > 0 {
            tokio::time::sleep(self.trip.mul_f64(1.0 + fastrand::f64())).await;
        }
    }
}

/// Writes the hint, a lower bound of the log's end for starting processes, after each object of this process, until the
/// process ends.
pub async fn hint(shared: Arc<LogState>) {
    let mut hinted = 0;
    loop {
        shared.written.notified().await;
        let number = shared.view.lock().next() - 1;
        if number == hinted {
            continue;
        }
        // On failure the next hint will do.
        let _ = shared.within(shared.put_hint(number)).await;
        let reached = match &shared.registration {
            Some(registration) => shared.within(registration.reach(number)).await,
            None => Ok(()),
        };
        if matches!(reached, Ok(()) | Err(IncomingError::Poisoned(_))) {
            hinted = number;
        } else {
            // Retry until it succeeds: there may be no next object.
            shared.written.notify_one();
        }
        tokio::time::sleep(HINT_EVERY).await;
    }
}

async fn within<T>(deadline: Instant, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout_at(deadline.into(), work).await.unwrap_or_else(|_| Err(super::too_late()))
}
