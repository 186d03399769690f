//! Reads: any number of heads or ranges in one round trip.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use gnudi_model::MetricId;
use redis::Value;

use super::{RedisAggregates, layout, store_error, write::verdict};
use crate::{
    aggregates::{BlockRange, Blocks, Fence, Result, StoreError},
    clients::redis::{Call, ClientError, Confirm},
};

pub(super) const LANE: usize = 0;
/// Limits of one call, so that it does not block other clients.
const CALL_HEADS_MAX: usize = 500;
const CALL_RANGES_MAX: usize = 64;
/// About how many bytes of blocks one call reads; the rest takes further round trips.
const CALL_BYTES_MAX: usize = 4 << 20;

/// A range being read.
struct Reading {
    index: usize,
    /// The name of the last block read.
    after: Vec<u8>,
}

/// A range's result of one call.
struct RangeRead {
    complete: bool,
    /// Names, each followed by its bytes if requested.
    values: Vec<Bytes>,
}

impl RedisAggregates {
    /// The indexes of items by shard, in pieces of at most `max`.
    pub(super) fn by_shard<T>(
        &self,
        items: &[T],
        metric: impl Fn(&T) -> MetricId,
        max: usize,
    ) -> Vec<(usize, Vec<usize>)> {
        let mut of_shards: Vec<Vec<usize>> = vec![Vec::new(); self.tags.len()];
        for (index, item) in items.iter().enumerate() {
            of_shards[self.shard_of(metric(item))].push(index);
        }
        let pieces = of_shards
            .iter()
            .enumerate()
            .flat_map(|(shard, indexes)| indexes.chunks(max).map(move |piece| (shard, piece.to_vec())));
        pieces.collect()
    }

    /// With a fence: for a pass of its holder, of whose writes one may still be under way. It is refused from then on:
    /// otherwise it could be among the blocks that the pass reads, but not among these heads.
    pub(super) async fn heads(
        &self,
        holder: Option<Fence>,
        metrics: &[MetricId],
    ) -> Vec<Result<Option<Bytes>>> {
        let holder = holder.map(|fence| (fence, self.next_write.fetch_add(1, Ordering::Relaxed)));
        let pieces = self.by_shard(metrics, |metric| *metric, CALL_HEADS_MAX);
        let call = |(shard, indexes): &(usize, Vec<usize>)| {
            let tag = &self.tags[*shard];
            let mut call = match holder {
                Some((fence, number)) => Self::fenced_call(&self.scripts.own_heads, tag, fence)
                    .key(tag.key(":w"))
                    .key(tag.key(":h"))
                    .arg(number),
                None => Call::command("HMGET", tag).key(tag.key(":h")),
            };
            for index in indexes {
                call.push(metrics[*index].0.as_bytes());
            }
            call
        };
        // The pass may find that a write in doubt has applied its measures, and acknowledge them.
        let (lane, confirm) =
            if holder.is_some() { (self.write_lane(), Confirm::Replicas) } else { (LANE, Confirm::Master) };
        let answers = self.client.call(lane, confirm, pieces.iter().map(call).collect()).await;
        let mut heads: Vec<Result<Option<Bytes>>> = vec![Ok(None); metrics.len()];
        for ((_, indexes), answer) in pieces.iter().zip(answers) {
            let values = match (holder, answer) {
                (_, Err(error)) => Err(store_error(error)),
                (Some((fence, _)), Ok(value)) if !matches!(value, Value::Array(_)) => {
                    Err(verdict(fence, Ok(value)).err().unwrap_or_else(|| self.nonsense()))
                }
                (_, Ok(value)) => bulk_strings(value, indexes.len()).ok_or_else(|| self.nonsense()),
            };
            match values {
                Ok(values) => {
                    for (index, value) in indexes.iter().zip(values) {
                        heads[*index] = self.head(metrics[*index], value).await;
                    }
                }
                Err(error) => fail(&mut heads, indexes, &error),
            }
        }
        heads
    }

    async fn head(&self, metric: MetricId, value: Option<Bytes>) -> Result<Option<Bytes>> {
        let Some(value) = value else { return Ok(None) };
        if let Some(head) = layout::opened(&value) {
            return Ok(Some(head));
        }
        self.set_aside(metric, &[], &value).await;
        Err(StoreError::Damaged(self.damaged_place("the head", metric)))
    }

    fn damaged_place(&self, what: &str, metric: MetricId) -> String {
        format!("{what} of {metric} in {}", self.client.place())
    }

    /// The blocks of ranges; without their bytes if `names_only`.
    pub(super) async fn ranges(&self, ranges: &[BlockRange], names_only: bool) -> Vec<Result<Blocks>> {
        let mut results: Vec<Result<Blocks>> = vec![Ok(Blocks::default()); ranges.len()];
        let all = 0..ranges.len();
        let mut reading: Vec<Reading> = all.map(|index| Reading { index, after: Vec::new() }).collect();
        while !reading.is_empty() {
            let pieces = self.by_shard(&reading, |reading| ranges[reading.index].metric, CALL_RANGES_MAX);
            let call = |(shard, piece): &(usize, Vec<usize>)| {
                self.range_call(*shard, piece, &reading, ranges, names_only)
            };
            let answers = self.client.call(LANE, Confirm::Master, pieces.iter().map(call).collect()).await;
            let mut left = Vec::new();
            for ((_, piece), answer) in pieces.iter().zip(answers) {
                let found = answer.map_err(store_error).and_then(|value| {
                    RangeRead::parse(value)
                        .filter(|found| found.len() == piece.len())
                        .ok_or_else(|| self.nonsense())
                });
                match found {
                    Err(error) => {
                        let indexes: Vec<usize> = piece.iter().map(|at| reading[*at].index).collect();
                        fail(&mut results, &indexes, &error);
                    }
                    Ok(found) => {
                        for (at, found) in piece.iter().zip(found) {
                            let index = reading[*at].index;
                            let after =
                                self.take(ranges[index], found, names_only, &mut results[index]).await;
                            left.extend(after.map(|after| Reading {
                                index,
                                // If nothing fitted, continue from the same place.
                                after: if after.is_empty() { reading[*at].after.clone() } else { after },
                            }));
                        }
                    }
                }
            }
            reading = left;
        }
        results
    }

    fn range_call(
        &self,
        shard: usize,
        piece: &[usize],
        reading: &[Reading],
        ranges: &[BlockRange],
        names_only: bool,
    ) -> Call {
        let tag = &self.tags[shard];
        let mut call = Call::script(&self.scripts.read, tag)
            .arg(if names_only { "names" } else { "blocks" })
            .arg(CALL_BYTES_MAX);
        for Reading { index, after } in piece.iter().map(|at| &reading[*at]) {
            let BlockRange { metric, granularity, from, to } = ranges[*index];
            call.push_key(layout::index_key(tag, metric));
            call.push_key(layout::blocks_key(tag, metric));
            call.push(&layout::time(gnudi_model::Timestamp(granularity.0))[..]);
            call.push(&layout::time(from)[..]);
            call.push(&layout::time(to)[..]);
            call.push(&after[..]);
        }
        call
    }

    /// Adds the result for a range; returns where to continue if it is incomplete.
    async fn take(
        &self,
        range: BlockRange,
        found: RangeRead,
        names_only: bool,
        result: &mut Result<Blocks>,
    ) -> Option<Vec<u8>> {
        let mut last = Vec::new();
        for item in found.values.chunks_exact(if names_only { 1 } else { 2 }) {
            last = item[0].to_vec();
            let Some(key) = layout::block(range.metric, &item[0]) else { continue };
            if key.last < range.from || key.first > range.to {
                continue;
            }
            let bytes = if names_only { Some(Bytes::new()) } else { layout::opened(&item[1]) };
            if bytes.is_none() {
                self.set_aside(range.metric, &item[0], &item[1]).await;
            }
            match (result.as_mut(), bytes) {
                (Ok(blocks), Some(bytes)) => blocks.whole.push((key, bytes)),
                (Ok(blocks), None) => blocks.damaged.push(self.damaged_place("a block", range.metric)),
                (Err(_), _) => {}
            }
        }
        (!found.complete).then_some(last)
    }

    /// Reports damage, once, and copies the value. The original stays until it is overwritten.
    async fn set_aside(&self, metric: MetricId, name: &[u8], value: &Bytes) {
        let aside = [metric.0.as_bytes(), name].concat();
        if !self.damaged.insert(aside.clone()) {
            return;
        }
        let tag = &self.tags[self.shard_of(metric)];
        let what = if name.is_empty() { "head" } else { "block" };
        tracing::error!(%metric, bytes = value.len(), "a {what} is damaged: a copy is in {}:damaged now", tag.name);
        let call = Call::script(&self.scripts.set_aside, tag);
        let call = if name.is_empty() {
            call.key(tag.key(":h")).key(tag.key(":damaged")).arg(metric.0.as_bytes())
        } else {
            call.key(layout::blocks_key(tag, metric)).key(tag.key(":damaged")).arg(name)
        };
        let call = call.arg(aside).arg(value.as_ref());
        if let Err(error) = self.client.call(LANE, Confirm::Master, vec![call]).await.remove(0) {
            tracing::warn!(%metric, %error, "the damaged {what} could not be set aside");
        }
    }

    pub(super) fn nonsense(&self) -> StoreError {
        store_error(ClientError::Refused(format!("{} returned an unexpected response", self.client.place())))
    }
}

/// Sets one error for several items.
pub(super) fn fail<T>(results: &mut [Result<T>], indexes: &[usize], error: &StoreError) {
    for index in indexes {
        results[*index] = Err(error.clone());
    }
}

impl RangeRead {
    fn parse(value: Value) -> Option<Vec<RangeRead>> {
        let Value::Array(ranges) = value else { return None };
        let found = ranges.into_iter().map(|range| {
            let Value::Array(items) = range else { return None };
            let mut items = items.into_iter();
            let Value::Int(complete) = items.next()? else { return None };
            let values = items.map(|item| match item {
                Value::BulkString(bytes) => Some(Bytes::from(bytes)),
                _ => None,
            });
            Some(RangeRead { complete: complete == 1, values: values.collect::<Option<_>>()? })
        });
        found.collect()
    }
}

/// The values of a response with exactly `count`.
fn bulk_strings(value: Value, count: usize) -> Option<Vec<Option<Bytes>>> {
    let Value::Array(items) = value else { return None };
    let values = items.into_iter().map(|item| match item {
        Value::BulkString(bytes) => Some(Some(Bytes::from(bytes))),
        Value::Nil => Some(None),
        _ => None,
    });
    values.collect::<Option<Vec<_>>>().filter(|values| values.len() == count)
}
