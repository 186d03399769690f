//! The writer thread: takes all queued batches, writes them and notifies their callers, then syncs once and
//! notifies them again.

use std::{
    collections::VecDeque,
    sync::{OnceLock, atomic::Ordering},
    time::Instant,
};

use tokio::sync::mpsc::UnboundedReceiver;

use super::{Waiting, figures::Counters, poison};
use crate::{
    incoming::{IncomingError, Result, log::Durability, write_queue::take_fitting},
    segments::{Claim, Frame, SEGMENT_HEADER_BYTES, SegmentLog, WriteError},
};

/// Runs until all senders are dropped.
pub(super) fn run(
    log: SegmentLog,
    mut queue: UnboundedReceiver<Waiting>,
    durability: Durability,
    poisoned: &OnceLock<String>,
    counters: &Counters,
) {
    let mut writer = Writer { log, durability, poisoned, counters };
    writer.log.close_full();
    while let Some(first) = queue.blocking_recv() {
        let mut waiting = VecDeque::from([first]);
        while let Ok(next) = queue.try_recv() {
            waiting.push_back(next);
        }
        writer.write_all(waiting);
    }
    writer.mark();
}

struct Writer<'a> {
    log: SegmentLog,
    durability: Durability,
    /// Why writing has stopped: after a failure that leaves the disk's content unknown.
    poisoned: &'a OnceLock<String>,
    counters: &'a Counters,
}

impl Writer<'_> {
    fn write_all(&mut self, mut waiting: VecDeque<Waiting>) {
        while let Some(next) = waiting.front() {
            match self.make_room(next.frame.len()) {
                Ok(room) => {
                    let group = take_fitting(&mut waiting, room, |batch| &batch.frame);
                    self.write_group(group);
                }
                // All batches that wait together get the same error.
                Err(error) => {
                    self.counters.failures.fetch_add(waiting.len() as u64, Ordering::Relaxed);
                    for refused in waiting.drain(..) {
                        refused.written.send(Err(error.clone())).ok();
                    }
                }
            }
        }
    }

    fn make_room(&mut self, bytes: usize) -> Result<usize> {
        if let Some(reason) = self.poisoned.get() {
            return Err(poison(reason));
        }
        let before = self.log.active();
        let room = self.log.make_room(bytes, Claim::New).map_err(|error| self.fail(error))?;
        let begun = u64::from(self.log.active() - before);
        if begun > 0 {
            self.log.close_full();
        }
        self.counters.files.fetch_add(begun, Ordering::Relaxed);
        self.counters.bytes.fetch_add(begun * u64::from(SEGMENT_HEADER_BYTES), Ordering::Relaxed);
        Ok(room)
    }

    fn write_group(&mut self, group: Vec<Waiting>) {
        let (mut frames, mut callers) = (Vec::with_capacity(group.len()), Vec::with_capacity(group.len()));
        for Waiting { frame, written, durable, room } in group {
            frames.push(frame);
            // The receiver is gone if the caller was cancelled.
            callers.push((written, durable, room));
        }
        let bytes: usize = frames.iter().map(Frame::len).sum();
        let written = self.log.write(&mut frames).map(drop).map_err(|error| self.fail(error));
        let mut waiting = Vec::with_capacity(callers.len());
        for (is_written, is_durable, room) in callers {
            is_written.send(written.clone()).ok();
            waiting.push((is_durable, room));
        }
        let durable = written.and_then(|()| {
            self.counters.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            self.sync()
        });
        let count = if durable.is_ok() { &self.counters.appends } else { &self.counters.failures };
        count.fetch_add(waiting.len() as u64, Ordering::Relaxed);
        for (is_durable, room) in waiting {
            drop(room);
            is_durable.send(durable.clone()).ok();
        }
    }

    fn sync(&mut self) -> Result<()> {
        if self.durability == Durability::Sync {
            let start = Instant::now();
            self.log.sync().map_err(|error| self.fail(WriteError::Broken(error)))?;
            self.counters.syncs.fetch_add(1, Ordering::Relaxed);
            self.counters.sync_nanoseconds.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Marks for a later recovery that everything was durable.
    fn mark(&mut self) {
        if self.durability == Durability::Sync
            && self.poisoned.get().is_none()
            && let Err(error) = self.log.mark()
        {
            self.fail(error);
        }
    }

    /// Converts the error for the callers.
    fn fail(&self, error: WriteError) -> IncomingError {
        match error {
            WriteError::NoSpace(error) => {
                tracing::warn!("no space for the journal: {error}");
                IncomingError::NoSpace(format!("the journal: {error}"))
            }
            WriteError::Shortage(error) => {
                tracing::warn!("no file or memory for the journal: {error}");
                IncomingError::Io(format!("the journal: {error}"))
            }
            WriteError::Broken(error) => {
                let reason = self.poisoned.get_or_init(|| {
                    tracing::error!(
                        "writing the journal failed, no measures are accepted until a restart: {error}"
                    );
                    error.to_string()
                });
                poison(reason)
            }
        }
    }
}
