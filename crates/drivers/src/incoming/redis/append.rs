//! Appends: batches that wait go together, the parts of a sack as one entry.
//!
//! Each lane takes the queued batches, sends them in one round trip, and answers; so the more callers there are, the more go in one trip.
//! What a group refuses since the count of sacks was doubled is grouped anew and sent again.

use std::{collections::HashMap, sync::Arc, time::Duration};

use gnudi_model::{Sack, SackCount};
use redis::Value;
use tokio::{
    sync::{Mutex, mpsc, oneshot},
    time::Instant,
};

use super::{Store, layout};
use crate::{
    clients::redis::{Call, Confirm},
    incoming::{Batch, Entry, IncomingError},
};

/// How many connections appends use.
pub(super) const LANES: usize = 2;
/// What one trip takes at most, so that it stays short.
const TRIP_BYTES_MAX: usize = 4 << 20;
const TRIP_BATCHES_MAX: usize = 256;
/// How many sacks one call of the script takes: it must not keep others waiting.
const CALL_SACKS_MAX: usize = 512;
/// How many batches may wait for a lane; further callers wait to hand theirs over.
pub(super) const QUEUE_BATCHES_MAX: usize = 1024;
/// While a split moves from the old sacks to the new, which takes a trip or two.
const REFUSED_PAUSE: Duration = Duration::from_millis(1);
/// Whoever splits takes this long at most, or it has died: then others finish it.
const REFUSED_FOR_MAX: Duration = Duration::from_millis(100);

pub(super) struct Queued {
    pub(super) batch: Batch,
    pub(super) answer: oneshot::Sender<Result<(), IncomingError>>,
}

/// An entry of one of the batches of a trip.
#[derive(Clone, Copy)]
struct TripEntry<'a> {
    batch: usize,
    entry: &'a Entry,
}

/// What a group said to a call.
enum Answer {
    Taken,
    Closed { count: SackCount },
    Full { bytes: u64 },
}

/// Takes queued batches until the driver is dropped.
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
            queued
        };
        let (batches, answers): (Vec<Batch>, Vec<_>) =
            queued.into_iter().map(|queued| (queued.batch, queued.answer)).unzip();
        let results = store.take(lane, &batches).await;
        for (answer, result) in answers.into_iter().zip(results) {
            // Whoever waited may have gone.
            answer.send(result).ok();
        }
    }
}

impl Store {
    /// Appends batches; one answer for each.
    async fn take(&self, lane: usize, batches: &[Batch]) -> Vec<Result<(), IncomingError>> {
        let refs: Vec<&Batch> = batches.iter().collect();
        let together = self.take_together(lane, &refs).await;
        let is_full =
            |result: &Result<(), IncomingError>| matches!(result, Err(IncomingError::BacklogFull { .. }));
        if batches.len() == 1 || !together.iter().any(is_full) {
            return together;
        }
        // Some may fit. On one server nothing of them was taken; in a cluster some parts may have been, and come twice.
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

    async fn take_together(&self, lane: usize, batches: &[&Batch]) -> Vec<Result<(), IncomingError>> {
        let mut results = vec![Ok(()); batches.len()];
        if self.groups() > 1
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
            if Instant::now() >= deadline {
                let error = IncomingError::Unavailable("a split of the sacks does not end".to_owned());
                for part in parts {
                    results[part.batch] = Err(error.clone());
                }
                return results;
            }
            if let Err(error) = self.catch_up(used, taken, &mut refused_since).await {
                for part in parts {
                    results[part.batch] = Err(error.clone());
                }
                return results;
            }
        }
    }

    /// One trip; returns what was refused by groups that take appends by another count.
    async fn round<'a>(
        &self,
        lane: usize,
        count: SackCount,
        batches: &[&Batch],
        mut parts: Vec<TripEntry<'a>>,
        results: &mut [Result<(), IncomingError>],
    ) -> Left<'a> {
        parts.sort_by_key(|part| count.sack_of(part.entry.metric));
        let (calls, of_calls) = self.calls(count, batches, &parts);
        let answers = self.client.call(lane, Confirm::Replicas, calls).await;
        let mut left = Left { count: None, parts: Vec::new() };
        for (answer, parts) in answers.into_iter().zip(of_calls) {
            let error = match answer.map(parse) {
                Ok(Some(Answer::Taken)) => continue,
                Ok(Some(Answer::Closed { count })) => {
                    left.count = Some(count);
                    left.parts.extend(parts);
                    continue;
                }
                Ok(Some(Answer::Full { bytes })) => {
                    IncomingError::BacklogFull { bytes, limit: self.options.backlog_bytes_max }
                }
                Ok(None) => {
                    IncomingError::Unavailable(format!("{} answered something else", self.client.place()))
                }
                Err(error) => error.into(),
            };
            for part in parts {
                results[part.batch] = Err(error.clone());
            }
        }
        // In the order of the requests again.
        left.parts.sort_by_key(|part| (part.batch, part.entry.start));
        left
    }

    /// The calls for parts that are sorted by sack, and which parts each of them takes.
    fn calls<'a>(
        &self,
        count: SackCount,
        batches: &[&Batch],
        parts: &[TripEntry<'a>],
    ) -> (Vec<Call>, Vec<Vec<TripEntry<'a>>>) {
        // The limit is that of one group where there is no other.
        let limit =
            if self.groups() == 1 { self.options.backlog_bytes_max.to_string() } else { String::new() };
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
                    let call = Call::script(&self.scripts.append, &self.tags[usize::from(group)]);
                    let call = call
                        .key(self.tags[usize::from(group)].key(":m"))
                        .key(self.tags[usize::from(group)].key(":z"));
                    let call = call.arg(count.get()).arg(&limit).only_once().with_run();
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

    /// A group has refused appends by the count `used`, since it takes those by `taken`, now or in a moment.
    async fn catch_up(
        &self,
        used: SackCount,
        taken: SackCount,
        refused_since: &mut Option<Instant>,
    ) -> Result<(), IncomingError> {
        let root = self.refresh().await?;
        let since = *refused_since.get_or_insert_with(Instant::now);
        if root.numbering.count < taken {
            // A failover has lost the beginning of a split.
            self.adopt(taken).await
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

    async fn room_for(&self, batches: &[&Batch]) -> Result<(), IncomingError> {
        let own: u64 = batches.iter().map(|batch| batch.bytes.len() as u64).sum();
        let limit = self.options.backlog_bytes_max;
        let bytes = self.recent_backlog().await?.bytes + own;
        if bytes > limit { Err(IncomingError::BacklogFull { bytes, limit }) } else { Ok(()) }
    }
}

/// What is left of a trip.
struct Left<'a> {
    /// The count by which the groups that refused take appends.
    count: Option<SackCount>,
    parts: Vec<TripEntry<'a>>,
}

fn parse(value: Value) -> Option<Answer> {
    let items: Vec<String> = redis::from_redis_value(value).ok()?;
    let number = items.get(1)?;
    match items[0].as_str() {
        "taken" => Some(Answer::Taken),
        "closed" => Some(Answer::Closed { count: layout::parse_count(number)? }),
        "full" => Some(Answer::Full { bytes: number.parse().ok()? }),
        _ => None,
    }
}
