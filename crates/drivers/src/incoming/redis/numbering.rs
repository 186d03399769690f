//! The sack count, and how it is doubled while appends go on.
//!
//! 1. The record (`root`) gets the new count: the numbering drains, and is not opened.
//! 2. Each group is sealed: it rejects appends by the old count, and by the new one still.
//! 3. Each group is opened, with the highest position of all groups: new entries are behind all earlier
//!    ones.
//! 4. The record is marked as opened: workers consider the split as begun.
//!
//! Each step is idempotent and may be done by any process at any time: a group knows its count and never goes
//! back. So a process that finds a stalled split does all the steps.

use std::sync::atomic::Ordering;

use gnudi_model::{Numbering, Sack, SackCount};
use redis::Value;
use uuid::Uuid;

use super::{Scripts, Store, layout};
use crate::{
    clients::redis::{Call, Confirm, Tag},
    incoming::{IncomingError, Result, too_many},
};

/// The client's connection for everything but appends.
pub(super) const LANE: usize = super::append::LANES;

/// The record of the sack count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) cluster: String,
    pub(super) format: u32,
    pub(super) groups: u16,
    pub(super) numbering: Numbering,
    /// Whether all groups accept appends by this count.
    pub(super) opened: bool,
}

impl Root {
    pub(super) fn parse(value: Value) -> Option<Root> {
        let items: Vec<Option<String>> = redis::from_redis_value(value).ok()?;
        let [Some(cluster), Some(format), Some(groups), Some(count), Some(draining), Some(opened)] =
            &items[..]
        else {
            return None;
        };
        Some(Root {
            cluster: cluster.clone(),
            format: format.parse().ok()?,
            groups: groups.parse().ok()?,
            numbering: Numbering { count: layout::parse_count(count)?, draining: draining == "1" },
            opened: opened == "1",
        })
    }
}

/// An operation on the record.
pub(super) enum Step {
    Read,
    Double(SackCount),
    Adopt(SackCount),
    Opened(SackCount),
    Settled(SackCount),
}

impl Step {
    pub(super) fn add_to(&self, call: &mut Call) {
        let (name, count) = match self {
            Step::Read => ("read", SackCount::DEFAULT),
            Step::Double(count) => ("double", *count),
            Step::Adopt(count) => ("adopt", *count),
            Step::Opened(count) => ("opened", *count),
            Step::Settled(count) => ("settled", *count),
        };
        call.push(name);
        call.push(count.get());
    }
}

/// A call for the record, which is created if missing, for this cluster and count.
pub(super) fn root_call(scripts: &Scripts, tag: &Tag, cluster: Uuid, groups: u16, count: SackCount) -> Call {
    Call::script(&scripts.root, tag)
        .key(tag.key(":r"))
        .arg(cluster.to_string())
        .arg(layout::FORMAT)
        .arg(groups)
        .arg(count.get())
}

impl Store {
    async fn root(&self, step: Step) -> Result<Root> {
        // A lost record of a split is created as from before it: a group that has the new count resumes the split (`carry_on`).
        let known = self.numbering().units();
        let mut call = root_call(&self.scripts, &self.root_tag, self.cluster, self.groups(), known);
        step.add_to(&mut call);
        let confirm = if matches!(step, Step::Read) { Confirm::Master } else { Confirm::Replicas };
        let value = self.client.call(LANE, confirm, vec![call]).await.remove(0)?;
        let root = Root::parse(value).ok_or_else(|| {
            IncomingError::Io(format!("{} has no record of the sacks that can be read", self.client.place()))
        })?;
        if root.cluster != self.cluster.to_string() || root.groups != self.groups() {
            let place = self.client.place();
            return Err(IncomingError::Io(format!(
                "{place}: the store was replaced by that of another cluster"
            )));
        }
        let is_lost = !root.opened && !root.numbering.draining;
        // Requests that wait for the new store read the record every few milliseconds.
        if !self.is_lost.swap(is_lost, Ordering::Relaxed) && is_lost {
            tracing::error!("{} has lost all its data: the store is created again", self.client.place());
        }
        self.set_numbering(root.numbering, root.opened);
        Ok(root)
    }

    /// Reads the current sack count.
    pub(super) async fn refresh(&self) -> Result<Root> {
        self.root(Step::Read).await
    }

    /// Does the steps 2 to 4. A higher count that a group has is adopted: the record of its split was lost.
    pub(super) async fn carry_on(&self, mut count: SackCount) -> Result<()> {
        let last = loop {
            let (highest, last) = self.seal(count).await?;
            if highest <= count {
                break last;
            }
            // A group opened by the lower count would put new entries before those that wait in the new sacks.
            self.root(Step::Adopt(highest)).await?;
            count = highest;
        };
        let open =
            |tag: &Tag| Call::script(&self.scripts.open, tag).key(tag.key(":m")).arg(count.get()).arg(last);
        self.every_group(open).await?;
        self.root(Step::Opened(count)).await?;
        Ok(())
    }

    /// Seals each group by a count; returns the highest count and the highest position of all groups.
    async fn seal(&self, count: SackCount) -> Result<(SackCount, u64)> {
        let seal = |tag: &Tag| Call::script(&self.scripts.seal, tag).key(tag.key(":m")).arg(count.get());
        let (mut highest, mut last) = (count, 0);
        for answer in self.every_group(seal).await? {
            let (of_group, position): (String, u64) = redis::from_redis_value(answer)
                .map_err(|error| IncomingError::Unavailable(format!("{}: {error}", self.client.place())))?;
            highest = highest.max(layout::parse_count(&of_group).unwrap_or(count));
            last = last.max(position);
        }
        Ok((highest, last))
    }

    pub(super) async fn split(&self) -> Result<Numbering> {
        let mut root = self.refresh().await?;
        if !root.numbering.draining && root.opened {
            let count = root.numbering.count;
            if count.doubled().is_none() {
                return Err(too_many(root.numbering));
            }
            root = self.root(Step::Double(count)).await?;
        }
        if !root.opened {
            self.carry_on(root.numbering.count).await?;
        }
        // A store that was created again must be split after that.
        if root.numbering.draining { Ok(root.numbering) } else { Box::pin(self.split()).await }
    }

    pub(super) async fn settle(&self) -> Result<Numbering> {
        let root = self.refresh().await?;
        let old = root.numbering.units();
        if !root.numbering.draining || !root.opened {
            return Ok(root.numbering);
        }
        let waiting =
            |tag: &Tag| Call::command("HGET", tag).key(tag.key(":m")).arg(format!("e{}", old.get()));
        for answer in self.every_group(waiting).await? {
            let entries: Option<u64> = redis::from_redis_value(answer)
                .map_err(|error| IncomingError::Unavailable(format!("{}: {error}", self.client.place())))?;
            if entries.unwrap_or(0) > 0 {
                return Ok(root.numbering);
            }
        }
        // On a replica, too: with a master that lost this the acknowledged entries would wait for ever.
        self.forget(old.sacks()).await?;
        Ok(self.root(Step::Settled(root.numbering.count)).await?.numbering)
    }

    /// Removes sacks of a count before the current one, which must be sealed and idle.
    pub(super) async fn forget(&self, old: impl IntoIterator<Item = Sack>) -> Result<()> {
        let begin = |tag: &Tag| Call::script(&self.scripts.forget, tag).key(tag.key(":m")).key(tag.key(":z"));
        let calls = self.sack_calls(old.into_iter().map(|sack| (sack, ())), begin, |_, ()| {});
        self.all(Confirm::Replicas, calls).await.map(drop)
    }

    /// A call to each group in one round trip, confirmed by the replicas.
    async fn every_group<'a>(&'a self, call: impl Fn(&'a Tag) -> Call) -> Result<Vec<Value>> {
        self.all(Confirm::Replicas, self.tags.iter().map(call).collect()).await
    }

    /// Calls that must all succeed.
    pub(super) async fn all(&self, confirm: Confirm, calls: Vec<Call>) -> Result<Vec<Value>> {
        let answers = self.client.call(LANE, confirm, calls).await;
        answers.into_iter().map(|answer| answer.map_err(IncomingError::from)).collect()
    }
}
