//! The mark: up to where the log is trimmed, and which sacks there are from there on.
//!
//! It must never go back, whoever moves it and however late his request is carried out: below it objects are deleted, so that
//! their numbers could be created again. Objects cannot be compared and swapped; so the marks are a chain of small objects,
//! each created only where there is none, and the last one holds. Those whose version is a multiple of
//! [`ANCHOR_EVERY`] stay for ever (a few thousand a year); the others go when the next such one is there. So the end of the
//! chain is found from any version that was ever right: step on to the first that is missing; if the anchor behind it is there,
//! go on from that.

use bytes::Bytes;
use gnudi_model::{Numbering, SackCount};

use super::{
    names,
    object::{FORMAT_VERSION, seal, unseal},
};
use crate::{
    incoming::IncomingError,
    objects::{ObjectError, Objects},
    segments::frame::u64_at,
};

const ANCHOR_EVERY: u64 = 1024;
const KIND: u64 = 0x4b52_414d;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Of the chain; 0 stands for no object, the beginning.
    pub version: u64,
    /// All objects up to this number are trimmed.
    pub through: u64,
    /// Behind that object.
    pub numbering: Numbering,
}

impl Mark {
    pub fn beginning(count: SackCount) -> Self {
        Self { version: 0, through: 0, numbering: Numbering::settled(count) }
    }

    fn encode(self) -> Bytes {
        let mut payload = self.through.to_le_bytes().to_vec();
        payload.extend_from_slice(&self.numbering.count.get().to_le_bytes());
        payload.push(self.numbering.draining.into());
        seal(KIND, &payload)
    }

    fn decode(version: u64, bytes: &[u8]) -> Result<Self, IncomingError> {
        let damaged = || IncomingError::Io(format!("the object {} is damaged", names::mark(version)));
        let (format, payload) = unseal(KIND, bytes).ok_or_else(damaged)?;
        if format > FORMAT_VERSION {
            return Err(IncomingError::Io(format!(
                "the log was trimmed by a newer program (format {format})"
            )));
        }
        let payload: &[u8; 11] = payload.try_into().map_err(|_| damaged())?;
        let count = u16::from_le_bytes([payload[8], payload[9]]).try_into().map_err(|_| damaged())?;
        let numbering = Numbering { count: SackCount(count), draining: payload[10] != 0 };
        Ok(Mark { version, through: u64_at(payload, 0), numbering })
    }

    pub async fn read(objects: &dyn Objects, version: u64) -> Result<Option<Self>, IncomingError> {
        let bytes = objects.get(&names::mark(version)).await.map_err(super::unavailable)?;
        bytes.map(|bytes| Self::decode(version, &bytes)).transpose()
    }

    /// The newest mark, from one that was right once.
    pub async fn newest(self, objects: &dyn Objects) -> Result<Self, IncomingError> {
        let mut mark = self;
        loop {
            let anchor = (mark.version / ANCHOR_EVERY + 1) * ANCHOR_EVERY;
            mark = mark.last(objects, 1, anchor).await?;
            // Only now: the versions before an anchor are removed when it is there.
            let Some(next) = Self::read(objects, anchor).await? else { return Ok(mark) };
            mark = next.last(objects, ANCHOR_EVERY, u64::MAX).await?;
        }
    }

    /// The last version that is there of those that follow in steps, below `end`: as many reads as the count of steps has
    /// digits.
    async fn last(self, objects: &dyn Objects, step: u64, end: u64) -> Result<Self, IncomingError> {
        let (mut mark, mut stride) = (self, step);
        // Ever longer strides, then ever shorter ones.
        let mut beyond = end;
        while mark.version + stride < beyond {
            match Self::read(objects, mark.version + stride).await? {
                Some(found) => (mark, stride) = (found, stride * 2),
                None => beyond = mark.version + stride,
            }
        }
        loop {
            let steps = (beyond - mark.version).div_ceil(step);
            if beyond == u64::MAX || steps <= 1 {
                return Ok(mark);
            }
            let middle = mark.version + steps / 2 * step;
            match Self::read(objects, middle).await? {
                Some(found) => mark = found,
                None => beyond = middle,
            }
        }
    }

    /// Moves the mark on; returns the newest one, which another process may have moved further.
    pub async fn advance(
        self,
        objects: &dyn Objects,
        through: u64,
        numbering: Numbering,
    ) -> Result<Self, IncomingError> {
        let mut mark = self;
        let next = loop {
            let next = Mark { version: mark.version + 1, through, numbering };
            match objects.create(&names::mark(next.version), next.encode()).await {
                Ok(()) => break next,
                Err(ObjectError::Exists(_)) => {
                    let newest = mark.newest(objects).await?;
                    // One that lies before this one must not be the last: of a log that was replaced.
                    if newest.through >= through || newest.version == mark.version {
                        return Ok(newest);
                    }
                    mark = newest;
                }
                Err(error) => return Err(super::unavailable(error)),
            }
        };
        // Twice, since whoever created the anchor may have stopped there.
        if next.version >= ANCHOR_EVERY && next.version % ANCHOR_EVERY < 2 {
            let anchor = next.version / ANCHOR_EVERY * ANCHOR_EVERY;
            let old: Vec<String> = (anchor - ANCHOR_EVERY + 1..anchor).map(names::mark).collect();
            objects.delete(&old).await.map_err(super::unavailable)?;
        }
        // A version that was missing when this one was created may belong to a block that is gone.
        mark.newest(objects).await
    }
}
