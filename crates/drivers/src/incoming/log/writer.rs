//! The writer thread: takes all queued batches, writes them, syncs once, makes them visible to workers and
//! answers the callers. The next group gathers meanwhile.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use super::{Durability, LogState, queue::PendingBatch, recent_frames::RecentFrame};
use crate::{
    incoming::{IncomingError, write_queue::take_fitting},
    segments::{Frame, Location, WriteError},
};

/// Runs until the queue is closed.
pub(super) fn run(shared: &Arc<LogState>) {
    while let Some(waiting) = shared.queue.take(|| mark(shared)) {
        let mut waiting = VecDeque::from(waiting);
        while let Some(next) = waiting.front() {
            let written = match shared.poisoned.get() {
                Some(reason) => Err(IncomingError::Poisoned(reason.clone())),
                None => shared.make_room(next.frame.len()).map_err(|error| fail(shared, error)),
            };
            match written {
                Ok(room) => write_group(shared, take_fitting(&mut waiting, room, |batch| &batch.frame)),
                // All batches that wait together get the same error.
                Err(error) => waiting.drain(..).for_each(|refused| answer(refused, Err(error.clone()))),
            }
        }
    }
    mark(shared);
}

/// Before the writer goes idle: marks for a later recovery that everything was durable.
fn mark(shared: &LogState) {
    if shared.durability == Durability::Sync
        && shared.poisoned.get().is_none()
        && let Err(error) = shared.log.lock().mark()
    {
        fail(shared, error);
    }
}

/// Writes a group that fits into the active segment, and answers its callers.
fn write_group(shared: &LogState, group: Vec<PendingBatch>) {
    let mut frames = Vec::with_capacity(group.len());
    let mut rest = Vec::with_capacity(group.len());
    for PendingBatch { frame, parts, admission, done, room } in group {
        frames.push(frame);
        rest.push((parts, admission, done, room));
    }
    match write_and_sync(shared, &mut frames) {
        Ok(locations) => {
            let held = frames.into_iter().map(|frame| RecentFrame::hold(frame, &shared.held));
            let parts = rest.iter().map(|(parts, ..)| &parts[..]);
            let published = locations.into_iter().zip(parts).zip(held);
            shared.index.publish(published.map(|((frame, parts), held)| (frame, parts, held)));
            shared.counters.appends.fetch_add(rest.len() as u64, Ordering::Relaxed);
            for (_, admission, done, _) in rest {
                admission.keep();
                // The receiver is gone if the caller was cancelled.
                done.send(Ok(())).ok();
            }
        }
        Err(error) => {
            for (_, admission, done, _) in rest {
                drop(admission);
                done.send(Err(error.clone())).ok();
            }
        }
    }
}

fn write_and_sync(shared: &LogState, frames: &mut [Frame]) -> Result<Vec<Location>, IncomingError> {
    let mut log = shared.log.lock();
    let locations = log.write(frames).map_err(|error| fail(shared, error))?;
    if shared.durability == Durability::Sync {
        let start = Instant::now();
        log.sync().map_err(|error| fail(shared, WriteError::Broken(error)))?;
        let counters = &shared.counters;
        counters.syncs.fetch_add(1, Ordering::Relaxed);
        counters.sync_nanoseconds.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }
    Ok(locations)
}

fn answer(waiting: PendingBatch, answer: Result<(), IncomingError>) {
    let PendingBatch { admission, done, .. } = waiting;
    // Before answering, so that the caller's next read sees the room.
    drop(admission);
    done.send(answer).ok();
}

/// Converts the error. After a failure that leaves the disk's content unknown, all further writes are
/// refused.
fn fail(shared: &LogState, error: WriteError) -> IncomingError {
    match error {
        WriteError::NoSpace(error) => {
            tracing::warn!("no space for incoming measures: {error}");
            IncomingError::NoSpace(error.to_string())
        }
        WriteError::Shortage(error) => {
            tracing::warn!("no file or memory for incoming measures: {error}");
            IncomingError::Io(error.to_string())
        }
        WriteError::Broken(error) => {
            let reason = shared.poisoned.get_or_init(|| {
                tracing::error!(
                    "writing the incoming log failed, no measures are accepted until a restart: {error}"
                );
                error.to_string()
            });
            IncomingError::Poisoned(reason.clone())
        }
    }
}
