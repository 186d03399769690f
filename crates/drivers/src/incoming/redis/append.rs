//! Appends: queued batches are sent together, with the parts of a sack as one entry.
//!
//! Each lane takes the queued batches, sends them in one round trip, and answers the callers: the more
//! callers, the more batches per trip. Parts that a group rejects because the sack count was doubled are
//! regrouped and sent again.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use gnudi_model::{Sack, SackCount};
use redis::Value;
use tokio::{
    sync::{Mutex, mpsc, oneshot},
    time::Instant,
};

use super::{Store, layout};
use crate::{
    clients::redis::{Call, Confirm},
    incoming::{Batch, Entry, IncomingError, Result},
};

/// Number of connections for appends.
pub(super) const LANES: usize = 2;
/// Limits of one round trip, so that it stays short.
const TRIP_BYTES_MAX: usize = 4 << 20;
const TRIP_BATCHES_MAX: usize = 256;
/// How many sacks one script call appends to, so that it does not block other clients.
const CALL_SACKS_MAX: usize = 512;
/// How many batches may wait for a lane; further callers wait to queue theirs.
pub(super) const QUEUE_BATCHES_MAX: usize = 1024;
/// Delay before a retry while a split moves from the old sacks to the new, which takes one or two round
/// trips.
const REFUSED_PAUSE: Duration = Duration::from_millis(1);
/// A split takes at most this long; after that its process has died, and others finish the split.
const REFUSED_FOR_MAX: Duration = Duration::from_millis(100);

pub(super) struct Queued {
    pub(super) batch: Batch,
    pub(super) answer: oneshot::Sender<Result<()>>,
}

/// An entry of one of the batches in a round trip.
#[derive(Clone, Copy)]
struct TripEntry<'a> {
    batch: usize,
    entry: &'a Entry,
}

/// A group's response to a call.
enum Answer {
    Taken { position: u64 },
    Closed { count: SackCount },
    Full { bytes: u64 },
}

/// Sends queued batches until the driver is dropped.
pub(super) async fn lane(store: Arc<Store>, lane: usize, queue: Arc<Mutex<mpsc::Receiver<Queued>>>) {
    loop {
        let queued = {
            let mut queue = queue.lock().await;
            let Some(first) = queue.recv().await else { return };
            let mut bytes = first.batch.bytes.len();
            let mut queued = vec![first];
            while bytes < TRIP_BYTES_MAX && queued.len() < TRIP_BATCHES_MAX {
                let Ok(next) = queue.try_recv() else { break };
                bytes += next.batch.bytes.len();
                queued.push(next);
            }
            // A refused batch must not appear later, behind newer ones.
            queued.retain(|queued| !queued.answer.is_closed());
            queued
        };
        if queued.is_empty() {
            continue;
        }
        let (batches, answers): (Vec<Batch>, Vec<_>) =
            queued.into_iter().map(|queued| (queued.batch, queued.answer)).unzip();
        let results = store.take(lane, &batches).await;
        for (answer, result) in answers.into_iter().zip(results) {
            // The receiver is gone if the caller was cancelled.
            answer.send(result).ok();
        }
    }
}

impl Store {
    /// Appends batches; one result for each.
    async fn take(&self, lane: usize, batches: &[Batch]) -> Vec<Result<()>> {
        let refs: Vec<&Batch> = batches.iter().collect();
        let together = self.take_together(lane, &refs).await;
        let is_full = |result: &Result<()>| matches!(result, Err(IncomingError::BacklogFull { .. }));
        if batches.len() == 1 || !together.iter().any(is_full) {
            return together;
        }
        // Some may fit alone. No part of a full trip was appended: one call has rejected it, or it was not sent.
        let mut results = Vec::with_capacity(batches.len());
        for (batch, result) in refs.iter().zip(together) {
            results.push(if is_full(&result) {
                self.take_together(lane, &[batch]).await.remove(0)
            } else {
                result
            });
        }
        results
    }

    async fn take_together(&self, lane: usize, batches: &[&Batch]) -> Vec<Result<()>> {
        let mut results = vec![Ok(()); batches.len()];
        if !self.is_one_call(self.numbering().count)
            && let Err(error) = self.room_for(batches).await
        {
            return vec![Err(error); batches.len()];
        }
        let mut parts: Vec<TripEntry> = batches
            .iter()
            .enumerate()
            .flat_map(|(batch, of)| of.entries.iter().map(move |entry| TripEntry { batch, entry }))
            .collect();
        let deadline = Instant::now() + self.client_timeout();
        let mut refused_since = None;
        loop {
            let used = self.numbering().count;
            let left = self.round(lane, used, batches, parts, &mut results).await;
            let Some(taken) = left.count else { return results };
            parts = left.parts;
            let caught_up = if Instant::now() >= deadline {
                Err(IncomingError::Unavailable("a split of the sacks does not finish".to_owned()))
            } else {
                self.catch_up(used, taken, &mut refused_since).await
            };
            if let Err(error) = caught_up {
                for part in parts {
                    results[part.batch] = Err(error.clone());
                }
                return results;
            }
        }
    }

    /// One round trip; returns the parts rejected by groups that have another sack count.
    async fn round<'a>(
        &self,
        lane: usize,
        count: SackCount,
        batches: &[&Batch],
        mut parts: Vec<TripEntry<'a>>,
        results: &mut [Result<()>],
    ) -> Left<'a> {
        parts.sort_by_key(|part| count.sack_of(part.entry.metric));
        let (calls, of_calls) = self.calls(count, batches, &parts);
        let answers = self.client.call(lane, Confirm::Replicas, calls).await;
        let mut left = Left { count: None, parts: Vec::new() };
        for (answer, parts) in answers.into_iter().zip(of_calls) {
            let error = match answer.map(parse) {
                Ok(Some(Answer::Taken { position })) => {
                    self.passed.fetch_max(position, Ordering::Relaxed);
                    self.note_opened(count);
                    continue;
                }
                Ok(Some(Answer::Closed { count })) => {
                    left.count = Some(count);
                    left.parts.extend(parts);
                    continue;
                }
                Ok(Some(Answer::Full { bytes })) => {
                    IncomingError::BacklogFull { bytes, limit: self.options.backlog_bytes_max }
                }
                Ok(None) => IncomingError::Unavailable(format!(
                    "{} returned an unexpected response",
                    self.client.place()
                )),
                Err(error) => error.into(),
            };
            for part in parts {
                results[part.batch] = Err(error.clone());
            }
        }
        // Restore the requests' order.
        left.parts.sort_by_key(|part| (part.batch, part.entry.start));
        left
    }

    /// The calls for parts sorted by sack, and the parts of each call.
    fn calls<'a>(
        &self,
        count: SackCount,
        batches: &[&Batch],
        parts: &[TripEntry<'a>],
    ) -> (Vec<Call>, Vec<Vec<TripEntry<'a>>>) {
        let limit =
            if self.is_one_call(count) { self.options.backlog_bytes_max.to_string() } else { String::new() };
        let passed = self.passed.load(Ordering::Relaxed);
        let mut calls: Vec<(Call, usize, Vec<TripEntry>)> = Vec::new();
        let mut open: HashMap<u16, usize> = HashMap::new();
        let same_sack =
            |a: &TripEntry, b: &TripEntry| count.sack_of(a.entry.metric) == count.sack_of(b.entry.metric);
        for chunk in parts.chunk_by(same_sack) {
            let sack = Sack::of(chunk[0].entry.metric, count);
            let group = self.group_of(sack);
            let index = match open.get(&group) {
                Some(index) if calls[*index].1 < CALL_SACKS_MAX => *index,
                _ => {
                    let tag = &self.tags[usize::from(group)];
                    let call = Call::script(&self.scripts.append, tag).key(tag.key(":m")).key(tag.key(":z"));
                    let call = call.arg(count.get()).arg(&limit).arg(passed).only_once().with_server();
                    calls.push((call, 0, Vec::new()));
                    open.insert(group, calls.len() - 1);
                    calls.len() - 1
                }
            };
            let (call, sacks, of_call) = &mut calls[index];
            let measures: u64 = chunk.iter().map(|part| u64::from(part.entry.measures)).sum();
            call.push_key(layout::stream(self.tag_of(sack), sack));
            call.push(sack.id.0);
            call.push(measures);
            call.push(layout::payload(chunk.iter().map(|part| (part.entry, batches[part.batch]))));
            *sacks += 1;
            of_call.extend_from_slice(chunk);
        }
        calls.into_iter().map(|(call, _, parts)| (call, parts)).unzip()
    }

    /// Updates the numbering after a group has rejected count `used` because it has, or will soon have, count
    /// `taken`.
    async fn catch_up(
        &self,
        used: SackCount,
        taken: SackCount,
        refused_since: &mut Option<Instant>,
    ) -> Result<()> {
        let root = self.refresh().await?;
        let since = *refused_since.get_or_insert_with(Instant::now);
        if root.numbering.count < taken {
            // A failover has lost the beginning of a split.
            self.carry_on(root.numbering.count).await
        } else if root.numbering.count != used {
            Ok(())
        } else if since.elapsed() > REFUSED_FOR_MAX {
            *refused_since = None;
            self.carry_on(used).await
        } else {
            tokio::time::sleep(REFUSED_PAUSE).await;
            Ok(())
        }
    }

    /// Whether each trip is one call, whose script checks the backlog's limit. Of several, some could be rejected after others
    /// were appended, so that a refused batch was there in part.
    fn is_one_call(&self, count: SackCount) -> bool {
        self.groups() == 1 && usize::from(count.get()) <= CALL_SACKS_MAX
    }

    async fn room_for(&self, batches: &[&Batch]) -> Result<()> {
        let own: u64 = batches.iter().map(|batch| batch.bytes.len() as u64).sum();
        let limit = self.options.backlog_bytes_max;
        let bytes = self.recent_backlog_bytes().await + own;
        if bytes > limit { Err(IncomingError::BacklogFull { bytes, limit }) } else { Ok(()) }
    }
}

/// The rejected parts of a round trip.
struct Left<'a> {
    /// The sack count of the groups that rejected them.
    count: Option<SackCount>,
    parts: Vec<TripEntry<'a>>,
}

fn parse(value: Value) -> Option<Answer> {
    let items: Vec<String> = redis::from_redis_value(value).ok()?;
    let number = items.get(1)?;
    match items[0].as_str() {
        "taken" => Some(Answer::Taken { position: number.parse().ok()? }),
        "closed" => Some(Answer::Closed { count: layout::parse_count(number)? }),
        "full" => Some(Answer::Full { bytes: number.parse().ok()? }),
        _ => None,
    }
}
