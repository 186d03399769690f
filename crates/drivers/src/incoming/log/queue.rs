//! The writer's queue of batches: limited in bytes; callers wait without blocking a thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::entries::SackExtent;
use crate::{
    incoming::{IncomingError, write_queue::QueueRoom},
    segments::Frame,
};

/// The writer is idle once nothing has arrived for so long.
const IDLE_AFTER: Duration = Duration::from_millis(5);

/// A batch waiting to be written.
pub struct PendingBatch {
    pub frame: Frame,
    pub parts: Vec<SackExtent>,
    pub admission: Admission,
    pub done: oneshot::Sender<Result<(), IncomingError>>,
    /// Released when the batch is dropped.
    pub room: OwnedSemaphorePermit,
}

pub struct WriteQueue {
    state: Mutex<State>,
    ready: Condvar,
    room: QueueRoom,
}

#[derive(Default)]
struct State {
    waiting: Vec<PendingBatch>,
    writer_sleeps: bool,
    closed: bool,
}

impl WriteQueue {
    pub fn new(bytes_max: u32) -> Self {
        Self { state: Mutex::default(), ready: Condvar::new(), room: QueueRoom::new(bytes_max) }
    }

    /// Waits for room, queues the batch, and returns the receiver of its result.
    pub async fn push(
        &self,
        frame: Frame,
        parts: Vec<SackExtent>,
        admission: Admission,
    ) -> oneshot::Receiver<Result<(), IncomingError>> {
        let room = self.room.take(frame.len()).await;
        let (done, answer) = oneshot::channel();
        let mut state = self.state.lock();
        state.waiting.push(PendingBatch { frame, parts, admission, done, room });
        if std::mem::take(&mut state.writer_sleeps) {
            self.ready.notify_one();
        }
        answer
    }

    /// All queued batches, in order; blocks until there are any. Calls `idle` if none arrives for [`IDLE_AFTER`].
    /// `None` once it is closed and empty.
    pub fn take(&self, idle: impl FnOnce()) -> Option<Vec<PendingBatch>> {
        let mut state = self.state.lock();
        if state.waiting.is_empty() && !state.closed {
            state.writer_sleeps = true;
            self.ready.wait_for(&mut state, IDLE_AFTER);
            state.writer_sleeps = false;
        }
        if state.waiting.is_empty() {
            MutexGuard::unlocked(&mut state, idle);
        }
        while state.waiting.is_empty() {
            if state.closed {
                return None;
            }
            state.writer_sleeps = true;
            self.ready.wait(&mut state);
        }
        Some(std::mem::take(&mut state.waiting))
    }

    /// The writer finishes the queue and stops.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.ready.notify_one();
    }
}

/// Counts bytes up to a limit.
#[derive(Debug)]
pub struct Gate {
    bytes: AtomicU64,
    limit: u64,
}

impl Gate {
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicU64::new(0), limit })
    }

    /// Admits `bytes`, or fails if that exceeds the limit.
    pub fn admit(self: &Arc<Self>, bytes: u64) -> Result<Admission, IncomingError> {
        let within = |inside: u64| inside.checked_add(bytes).filter(|sum| *sum <= self.limit);
        match self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within) {
            Ok(_) => Ok(Admission { gate: Arc::clone(self), bytes }),
            Err(inside) => Err(IncomingError::BacklogFull { bytes: inside, limit: self.limit }),
        }
    }

    /// Counts bytes whatever the limit: those that an earlier process left.
    pub fn enter(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts bytes.
    pub fn leave(&self, bytes: u64) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "more bytes left than came in");
    }
}

/// Admitted bytes; subtracted on drop, unless kept.
#[derive(Debug)]
pub struct Admission {
    gate: Arc<Gate>,
    bytes: u64,
}

impl Admission {
    /// The bytes stay counted: they are part of the backlog now.
    pub fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.gate.leave(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    /// Nobody waits for the answer.
    async fn push(queue: Arc<WriteQueue>) {
        let admission = Gate::new(u64::MAX).admit(1).unwrap();
        drop(queue.push(Frame::with_capacity(100), Vec::new(), admission).await);
    }

    #[tokio::test]
    async fn the_writer_is_idle_after_a_while() {
        let queue = Arc::new(WriteQueue::new(1 << 20));
        let idle = Arc::new(Semaphore::new(0));
        let take = || {
            let (queue, idle) = (Arc::clone(&queue), Arc::clone(&idle));
            tokio::task::spawn_blocking(move || {
                queue.take(|| idle.add_permits(1)).map(|batches| batches.len())
            })
        };
        push(queue.clone()).await;
        assert_eq!(take().await.unwrap(), Some(1));
        assert_eq!(idle.available_permits(), 0);
        let taken = take();
        idle.acquire().await.unwrap().forget();
        push(queue.clone()).await;
        assert_eq!(taken.await.unwrap(), Some(1));
        assert_eq!(idle.available_permits(), 0);
        queue.close();
        assert_eq!((take().await.unwrap(), idle.available_permits()), (None, 1));
    }

    #[test]
    fn the_gate_lets_in_up_to_its_limit() {
        let gate = Gate::new(100);
        gate.enter(10);
        let first = gate.admit(60).unwrap();
        assert_eq!(gate.admit(31).err(), Some(IncomingError::BacklogFull { bytes: 70, limit: 100 }));
        drop(first);
        gate.admit(90).unwrap().keep();
        assert!(gate.admit(1).is_err());
        gate.leave(100);
        gate.admit(100).unwrap();
    }
}
