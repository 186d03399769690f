//! The mark: up to where the log is trimmed, and the numbering behind it.
//!
//! It must never go back, even if a delayed request of an old process takes effect: objects below it are
//! deleted, so their numbers could be created again. Objects have no compare-and-swap; so the marks are a
//! chain of small objects, each created only if absent, and the last one is valid. Those whose version is a
//! multiple of [`ANCHOR_EVERY`] are never deleted (a few thousand a year), the others once the next anchor
//! exists. So the end of the chain can be found from any version that ever existed: follow it to the first
//! missing version; if the anchor behind that exists, continue from there.

use bytes::Bytes;
use gnudi_model::{Numbering, SackCount};

use super::{
    names,
    object::{check_version, seal, unseal},
};
use crate::{
    incoming::{IncomingError, Result},
    objects::{ObjectError, Objects},
    segments::frame::u64_at,
};

const ANCHOR_EVERY: u64 = 1024;
const KIND: u64 = 0x4b52_414d;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Of the chain; 0 is the beginning, which has no object.
    pub version: u64,
    /// All objects up to this number are trimmed.
    pub through: u64,
    /// The numbering behind that object.
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

    fn decode(version: u64, bytes: &[u8]) -> Result<Self> {
        let name = names::mark(version);
        let damaged = || IncomingError::Io(format!("the object {name} is damaged"));
        let (format, payload) = unseal(KIND, bytes).ok_or_else(damaged)?;
        check_version(&name, format)?;
        let payload: &[u8; 11] = payload.try_into().map_err(|_| damaged())?;
        let count = u16::from_le_bytes([payload[8], payload[9]]).try_into().map_err(|_| damaged())?;
        let numbering = Numbering { count: SackCount(count), draining: payload[10] != 0 };
        Ok(Mark { version, through: u64_at(payload, 0), numbering })
    }

    pub async fn read(objects: &dyn Objects, version: u64) -> Result<Option<Self>> {
        let bytes = objects.get(&names::mark(version)).await.map_err(super::unavailable)?;
        bytes.map(|bytes| Self::decode(version, &bytes)).transpose()
    }

    /// The newest mark, starting from an earlier one.
    pub async fn newest(self, objects: &dyn Objects) -> Result<Self> {
        let mut mark = self;
        loop {
            let anchor = (mark.version / ANCHOR_EVERY + 1) * ANCHOR_EVERY;
            mark = mark.last(objects, 1, anchor).await?;
            // In this order: versions before an anchor are removed once it exists.
            let Some(next) = Self::read(objects, anchor).await? else { return Ok(mark) };
            mark = next.last(objects, ANCHOR_EVERY, u64::MAX).await?;
        }
    }

    /// The last existing version at a multiple of `step` from this one, below `end`, by galloping and binary
    /// search.
    async fn last(self, objects: &dyn Objects, step: u64, end: u64) -> Result<Self> {
        let (mut mark, mut stride) = (self, step);
        // First increasing strides, then bisection.
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

    /// Advances the mark; returns the newest one, which may be another process's.
    pub async fn advance(self, objects: &dyn Objects, through: u64, numbering: Numbering) -> Result<Self> {
        let mut mark = self;
        let next = loop {
            let next = Mark { version: mark.version + 1, through, numbering };
            match objects.create(&names::mark(next.version), next.encode()).await {
                Ok(()) => break next,
                Err(ObjectError::Exists(_)) => {
                    let newest = mark.newest(objects).await?;
                    // A mark before this one belongs to a replaced log: it must not stay the last.
                    if newest.through >= through || newest.version == mark.version {
                        return Ok(newest);
                    }
                    mark = newest;
                }
                Err(error) => return Err(super::unavailable(error)),
            }
        };
        // Twice, since the creator of the anchor may have stopped before this.
        if next.version >= ANCHOR_EVERY && next.version % ANCHOR_EVERY < 2 {
            let anchor = next.version / ANCHOR_EVERY * ANCHOR_EVERY;
            let old: Vec<String> = (anchor - ANCHOR_EVERY + 1..anchor).map(names::mark).collect();
            objects.delete(&old).await.map_err(super::unavailable)?;
        }
        // The version before this one may have been deleted with those before an anchor.
        mark.newest(objects).await
    }
}
