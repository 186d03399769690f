//! The one thread that writes: takes all batches that wait, writes them, makes them durable with one sync, and answers their callers.

use std::{collections::VecDeque, sync::OnceLock};

use tokio::sync::mpsc::UnboundedReceiver;

use super::{Waiting, poison};
use crate::{
    incoming::{IncomingError, log::Durability},
    segments::{Claim, Frame, SegmentLog, WriteError},
};

/// Runs until nobody can send any more.
pub(super) fn run(
    log: SegmentLog,
    mut queue: UnboundedReceiver<Waiting>,
    durability: Durability,
    poisoned: &OnceLock<String>,
) {
    let mut writer = Writer { log, durability, poisoned };
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
    /// Why nothing is written any more: after a failure that leaves the disk's content unknown.
    poisoned: &'a OnceLock<String>,
}

impl Writer<'_> {
    fn write_all(&mut self, mut waiting: VecDeque<Waiting>) {
        while let Some(next) = waiting.front() {
            match self.make_room(next.frame.len()) {
                Ok(room) => {
                    let group = take_fitting(&mut waiting, room);
                    self.write_group(group);
                }
                // What was refused for one is refused for all that wait: they came at the same time.
                Err(error) => waiting.drain(..).for_each(|refused| answer(refused, Err(error.clone()))),
            }
        }
    }

    fn make_room(&mut self, bytes: usize) -> Result<usize, IncomingError> {
        match self.poisoned.get() {
            Some(reason) => Err(poison(reason)),
            None => self.log.make_room(bytes, Claim::New).map_err(|error| self.fail(error)),
        }
    }

    fn write_group(&mut self, group: Vec<Waiting>) {
        let (mut frames, mut callers) = (Vec::with_capacity(group.len()), Vec::with_capacity(group.len()));
        for Waiting { frame, done, room } in group {
            frames.push(frame);
            callers.push((done, room));
        }
        let written = self.write_and_sync(&mut frames);
        for (done, room) in callers {
            drop(room);
            // Nobody listens where the caller went away meanwhile.
            done.send(written.clone()).ok();
        }
    }

    fn write_and_sync(&mut self, frames: &mut [Frame]) -> Result<(), IncomingError> {
        self.log.write(frames).map_err(|error| self.fail(error))?;
        if self.durability == Durability::Sync {
            self.log.sync().map_err(|error| self.fail(WriteError::Broken(error)))?;
        }
        Ok(())
    }

    /// Tells a later recovery that all was durable.
    fn mark(&mut self) {
        if self.durability == Durability::Sync
            && self.poisoned.get().is_none()
            && let Err(error) = self.log.mark()
        {
            self.fail(error);
        }
    }

    /// The error for the callers.
    fn fail(&self, error: WriteError) -> IncomingError {
        match error {
            WriteError::NoSpace(error) => {
                tracing::warn!("no space for the journal: {error}");
                IncomingError::NoSpace(format!("the journal: {error}"))
            }
            WriteError::Broken(error) => {
                let reason = self.poisoned.get_or_init(|| {
                    tracing::error!(
                        "writing the journal failed, no measures are taken any more until a restart: {error}"
                    );
                    error.to_string()
                });
                poison(reason)
            }
        }
    }
}

/// The batches in front that fit into `room` bytes; at least one.
fn take_fitting(waiting: &mut VecDeque<Waiting>, room: usize) -> Vec<Waiting> {
    let (mut group, mut bytes) = (Vec::new(), 0);
    while let Some(next) = waiting.pop_front_if(|next| group.is_empty() || bytes + next.frame.len() <= room) {
        bytes += next.frame.len();
        group.push(next);
    }
    group
}

fn answer(waiting: Waiting, answer: Result<(), IncomingError>) {
    waiting.done.send(answer).ok();
}
