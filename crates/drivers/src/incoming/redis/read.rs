//! The workers' operations: read, acknowledge, trim, and wait for arrivals.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_model::{Numbering, Sack};
use redis::Value;

use super::{KnownNumbering, RedisIncoming, Store, layout, numbering::LANE};
use crate::{
    clients::redis::{Call, ClientError, Confirm, Script, Tag},
    incoming::{Backlog, Consume, IncomingError, Pending, Position, Positions, Result},
};

/// How many bytes of a sack one round trip returns: larger responses would block other clients.
pub(super) const READ_BYTES_MAX: usize = 4 << 20;
/// How many sacks one call trims or removes.
const CALL_SACKS_MAX: usize = 500;
/// How many damaged entries are kept for inspection.
const DAMAGED_MAX: usize = 1000;
/// How often workers poll for entries of other processes.
const ARRIVALS_INTERVAL: Duration = Duration::from_millis(20);
/// Minimum delay between two polls for arrivals.
const ARRIVALS_PAUSE: Duration = Duration::from_millis(2);
/// Delay after a failed poll.
const ARRIVALS_RETRY: Duration = Duration::from_millis(200);

impl Store {
    /// A call of a script that concerns one sack.
    fn sack_call(&self, script: &Script, sack: Sack) -> Call {
        let tag = self.tag_of(sack);
        let call = Call::script(script, tag).key(tag.key(":m")).key(layout::stream(tag, sack));
        call.arg(layout::member(sack))
    }

    /// Calls for sacks: `begin` makes one for a group, and `add` appends what a sack needs besides its key and its name.
    pub(super) fn sack_calls<T: Copy>(
        &self,
        sacks: impl Iterator<Item = (Sack, T)>,
        begin: impl Fn(&Tag) -> Call,
        add: impl Fn(&mut Call, T),
    ) -> Vec<Call> {
        let mut of_groups: Vec<Vec<(Sack, T)>> = vec![Vec::new(); self.tags.len()];
        for item in sacks {
            of_groups[usize::from(self.group_of(item.0))].push(item);
        }
        let mut calls = Vec::new();
        for (tag, items) in self.tags.iter().zip(of_groups) {
            for items in items.chunks(CALL_SACKS_MAX) {
                let mut call = begin(tag);
                for &(sack, item) in items {
                    call.push_key(layout::stream(tag, sack));
                    call.push(layout::member(sack));
                    add(&mut call, item);
                }
                calls.push(call);
            }
        }
        calls
    }

    /// Reports a damaged entry, once, and keeps a copy of it.
    async fn set_aside(&self, sack: Sack, position: Position, payload: &Bytes) {
        if !self.damaged.insert((sack.count.get(), sack.id.0, position.0)) {
            return;
        }
        tracing::error!(
            %sack, position = position.0, bytes = payload.len(),
            "an entry of the incoming store is damaged: skipped, a copy is in {}:damaged", self.tag_of(sack).name
        );
        let tag = self.tag_of(sack);
        let key = tag.key(":damaged");
        let keep = Call::command("LPUSH", tag).key(key.clone()).arg(payload.as_ref());
        let bound = Call::command("LTRIM", tag).key(key).arg(0).arg(DAMAGED_MAX - 1);
        for answer in self.client.call(LANE, Confirm::Master, vec![keep, bound]).await {
            if let Err(error) = answer {
                tracing::warn!(%error, "the damaged entry could not be copied");
            }
        }
    }

    /// The sacks with waiting entries behind the cursors, one cursor per group; advances the cursors. Forgets those that a
    /// split has left behind: entries wait there if a server lost their acknowledgements after the split was settled.
    pub(super) async fn arrived(&self, cursors: &mut [u64]) -> Result<Vec<Sack>> {
        let call = |(tag, cursor): (&Tag, &u64)| {
            let call = Call::script(&self.scripts.arrivals, tag).key(tag.key(":m")).key(tag.key(":z"));
            call.arg(*cursor)
        };
        let calls = self.tags.iter().zip(&*cursors).map(call).collect();
        let answers = self.client.call(LANE, Confirm::Master, calls).await;
        let mut sacks = Vec::new();
        let mut failed = None;
        for (answer, cursor) in answers.into_iter().zip(cursors) {
            match answer.map(redis::from_redis_value::<Vec<String>>) {
                Ok(Ok(items)) => {
                    let Some((highest, members)) = items.split_first() else { continue };
                    *cursor = highest.parse().unwrap_or(*cursor);
                    sacks.extend(members.iter().filter_map(|member| layout::parse_member(member)));
                }
                Ok(Err(_)) => failed = Some(self.nonsense()),
                Err(error) => failed = Some(error.into()),
            }
        }
        let units = self.numbering().units();
        let (left, sacks): (Vec<Sack>, Vec<Sack>) = sacks.into_iter().partition(|sack| sack.count < units);
        if !left.is_empty() {
            tracing::warn!("acknowledgements in {} sacks from before a split were lost", left.len());
            if let Err(error) = self.forget(left).await {
                tracing::warn!(%error, "these sacks are removed after the next start");
            }
        }
        let newest = sacks.iter().map(|sack| sack.count).max();
        if let Some(count) = newest.filter(|count| *count > self.sealed_numbering().count) {
            // Before a pass: it would leave out the new sacks of a split, and nothing would name these again.
            if let Err(error) = self.refresh().await {
                tracing::debug!(%error, "the numbering of the sacks is not known");
            }
            self.note_opened(count);
        }
        match failed {
            Some(error) if sacks.is_empty() => Err(error),
            _ => Ok(sacks),
        }
    }

    pub(super) async fn backlog(&self) -> Result<Backlog> {
        let mut backlog = Backlog::default();
        for of_group in self.backlogs().await {
            let Backlog { measures, bytes } = of_group?;
            backlog.measures += measures;
            backlog.bytes += bytes;
        }
        Ok(backlog)
    }

    /// Of each group.
    pub(super) async fn backlogs(&self) -> Vec<Result<Backlog>> {
        let call = |tag: &Tag| Call::command("HGET", tag).key(tag.key(":m")).arg("total");
        let answers = self.client.call(LANE, Confirm::Master, self.tags.iter().map(call).collect()).await;
        let backlog = |answer: Result<Value, ClientError>| -> Result<Backlog> {
            let packed: Option<Vec<u8>> = redis::from_redis_value(answer?).map_err(|_| self.nonsense())?;
            let number =
                |index| packed.as_deref().and_then(|packed| layout::number_at(packed, index)).unwrap_or(0);
            Ok(Backlog { measures: number(0), bytes: number(1) })
        };
        answers.into_iter().map(backlog).collect()
    }

    fn nonsense(&self) -> IncomingError {
        IncomingError::Io(format!("{} returned an unexpected response", self.client.place()))
    }
}

impl RedisIncoming {
    /// All entries behind `from` up to `to` are damaged. If those before them are in the aggregates, nothing
    /// is left to be done for these: without an acknowledgement the sack would never be idle.
    async fn pass_damaged(&self, sack: Sack, from: Position, to: Position) -> Result<()> {
        if self.positions(&[sack]).await?[0].acknowledged >= from {
            self.acknowledge(sack, to).await?;
        }
        Ok(())
    }

    /// The positions of the sacks whose node responds, and the error of the others.
    async fn found_positions(
        &self,
        sacks: &[Sack],
    ) -> Result<(Vec<Option<Positions>>, Option<IncomingError>)> {
        let store = &*self.store;
        let mut of_groups: Vec<Vec<usize>> = vec![Vec::new(); store.tags.len()];
        for (index, sack) in sacks.iter().enumerate() {
            of_groups[usize::from(store.group_of(*sack))].push(index);
        }
        of_groups.retain(|indexes| !indexes.is_empty());
        let call = |indexes: &Vec<usize>| {
            let tag = store.tag_of(sacks[indexes[0]]);
            let mut call = Call::command("HMGET", tag).key(tag.key(":m")).arg("count");
            for index in indexes {
                let member = layout::member(sacks[*index]);
                call.push(format!("n{member}"));
                call.push(format!("a{member}"));
            }
            call
        };
        let answers = store.client.call(LANE, Confirm::Master, of_groups.iter().map(call).collect()).await;
        let (mut positions, mut failed) = (vec![None; sacks.len()], None);
        let KnownNumbering { numbering, opened } = *store.numbering.read();
        let mut is_outdated = !opened;
        for (indexes, answer) in of_groups.iter().zip(answers) {
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => {
                    failed = Some(error.into());
                    continue;
                }
            };
            let values: Vec<Option<Vec<u8>>> =
                redis::from_redis_value(answer).map_err(|_| store.nonsense())?;
            let (count, values) = values.split_first().ok_or_else(|| store.nonsense())?;
            let count =
                count.as_deref().and_then(|count| layout::parse_count(std::str::from_utf8(count).ok()?));
            is_outdated |= count.is_some_and(|count| count > numbering.count);
            let first = |value: &Option<Vec<u8>>| {
                Position(value.as_deref().and_then(layout::first_number).unwrap_or(0))
            };
            for (index, pair) in indexes.iter().zip(values.chunks_exact(2)) {
                let (newest, acknowledged) = (first(&pair[0]), first(&pair[1]));
                positions[*index] = Some(Positions { acknowledged, newest });
            }
        }
        if is_outdated {
            // A caller that waits for these sacks must wait for those of a split, too.
            store.refresh().await?;
        }
        Ok((positions, failed))
    }
}

#[async_trait]
impl Consume for RedisIncoming {
    fn numbering(&self) -> Numbering {
        self.store.sealed_numbering()
    }

    async fn pending(&self, sack: Sack, after: Position, bytes_max: usize) -> Result<Pending> {
        let store = &*self.store;
        let mut pending = Pending::default();
        let from = after;
        let (mut after, mut bytes) = (after, 0);
        loop {
            let wanted = (bytes_max - bytes).min(READ_BYTES_MAX);
            let call = store.sack_call(&store.scripts.pending, sack).arg(after.0).arg(wanted);
            let value = store.all(Confirm::Master, vec![call]).await?.remove(0);
            let page = Page::parse(value).ok_or_else(|| store.nonsense())?;
            pending.more = page.more;
            for (position, payload) in page.entries {
                (after, bytes) = (position, bytes + payload.len());
                if layout::records(&payload, position, &mut pending.records).is_none() {
                    store.set_aside(sack, position, &payload).await;
                }
            }
            let enough = bytes >= bytes_max && !pending.records.is_empty();
            if !page.more || enough {
                if pending.records.is_empty() && after > from {
                    self.pass_damaged(sack, from, after).await?;
                }
                return Ok(pending);
            }
            bytes = bytes.min(bytes_max.saturating_sub(1));
        }
    }

    async fn acknowledge(&self, sack: Sack, up_to: Position) -> Result<()> {
        let store = &*self.store;
        let call = store.sack_call(&store.scripts.acknowledge, sack).arg(up_to.0);
        store.all(Confirm::Master, vec![call]).await?;
        Ok(())
    }

    async fn acknowledge_again(&self, sack: Sack, up_to: Position) -> Result<()> {
        // The script goes no further than the newest record.
        self.acknowledge(sack, up_to).await
    }

    async fn trim(&self, up_to: &[(Sack, Position)]) -> Result<()> {
        let store = &*self.store;
        let begin = |tag: &Tag| Call::script(&store.scripts.trim, tag).key(tag.key(":m"));
        let calls = store.sack_calls(up_to.iter().copied(), begin, |call, position| call.push(position.0));
        store.all(Confirm::Master, calls).await.map(drop)
    }

    async fn positions(&self, sacks: &[Sack]) -> Result<Vec<Positions>> {
        let (positions, failed) = self.found_positions(sacks).await?;
        match failed {
            Some(error) => Err(error),
            None => Ok(positions.into_iter().map(Option::unwrap_or_default).collect()),
        }
    }

    async fn reachable_positions(&self, sacks: &[Sack]) -> Result<Vec<(Sack, Positions)>> {
        let (positions, failed) = self.found_positions(sacks).await?;
        let found = sacks.iter().zip(positions).filter_map(|(sack, found)| Some((*sack, found?)));
        let found: Vec<(Sack, Positions)> = found.collect();
        match failed {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok(found),
        }
    }

    async fn arrivals(&self) -> Vec<Sack> {
        let mut named = self.named.lock().await;
        loop {
            let wait = match self.store.arrived(&mut named).await {
                Ok(sacks) if !sacks.is_empty() => return sacks,
                Ok(_) => ARRIVALS_INTERVAL,
                Err(error) => {
                    tracing::debug!(%error, "arrivals are not seen");
                    ARRIVALS_RETRY
                }
            };
            tokio::time::sleep(ARRIVALS_PAUSE).await;
            tokio::time::timeout(wait, self.arrived.notified()).await.ok();
        }
    }
}

/// One call's result for a sack.
struct Page {
    more: bool,
    entries: Vec<(Position, Bytes)>,
}

impl Page {
    fn parse(value: Value) -> Option<Self> {
        let Value::Array(items) = value else { return None };
        let mut items = items.into_iter();
        let Value::Int(more) = items.next()? else { return None };
        let mut entries = Vec::with_capacity(items.len() / 2);
        while let Some(id) = items.next() {
            let (Value::BulkString(id), Some(Value::BulkString(payload))) = (id, items.next()) else {
                return None;
            };
            let position = std::str::from_utf8(&id).ok()?.split('-').next()?.parse().ok()?;
            entries.push((Position(position), Bytes::from(payload)));
        }
        Some(Page { more: more == 1, entries })
    }
}
