//! Writes: a pass is split into calls of bounded size; each checks the fences and is applied as a whole.

use std::sync::atomic::Ordering;

use gnudi_model::{MetricId, Sack};
use redis::Value;

use super::{RedisAggregates, layout, read::fail, store_error};
use crate::{
    aggregates::{Fence, MetricWrite, Result, StoreError},
    clients::redis::{Call, ClientError, Confirm, Script, Tag},
};

/// Number of connections for writes.
pub(super) const LANES: usize = 2;
/// Limits of one call, so that it does not block other clients.
const CALL_WRITES_MAX: usize = 500;
const CALL_BYTES_MAX: usize = 512 << 10;
const CALL_DELETIONS_MAX: usize = 500;

impl RedisAggregates {
    /// A connection for writes, in turn.
    pub(super) fn write_lane(&self) -> usize {
        1 + self.next_lane.fetch_add(1, Ordering::Relaxed) % LANES
    }

    pub(super) fn fenced_call(script: &Script, tag: &Tag, fence: Fence) -> Call {
        Call::script(script, tag)
            .key(tag.key(":f"))
            .key(tag.key(":c"))
            .arg(fence.sack.count.get())
            .arg(fence.sack.id.0)
            .arg(fence.token.to_string())
    }

    /// The shards with metrics of a sack.
    fn shards_of(&self, sack: Sack) -> impl Iterator<Item = &Tag> {
        let shards = self.shards().sacks().zip(&self.tags);
        shards.filter(move |(shard, _)| shard.intersects(sack)).map(|(_, tag)| tag)
    }

    pub(super) async fn raise_all(&self, fence: Fence) -> Result<()> {
        let calls = self.shards_of(fence.sack).map(|tag| Self::fenced_call(&self.scripts.raise, tag, fence));
        let answers = self.client.call(self.write_lane(), Confirm::Replicas, calls.collect()).await;
        answers.into_iter().try_for_each(|answer| verdict(fence, answer))?;
        // The writes of earlier leases are refused.
        self.in_doubt.lock().retain(|(sack, token)| *sack != fence.sack || *token == fence.token);
        Ok(())
    }

    pub(super) async fn in_doubt_until_known(
        &self,
        fence: Fence,
        change: impl Future<Output = Vec<Result<()>>> + Send,
    ) -> Vec<Result<()>> {
        let lease = (fence.sack, fence.token);
        // Before the calls, since this future may be dropped before their answers.
        let was_in_doubt = !self.in_doubt.lock().insert(lease);
        let results = change.await;
        let is_known = |result: &Result<()>| result.as_ref().err().is_none_or(StoreError::is_refusal);
        if !was_in_doubt && results.iter().all(is_known) {
            self.in_doubt.lock().remove(&lease);
        }
        results
    }

    pub(super) async fn write_each(&self, fence: Fence, writes: &[MetricWrite]) -> Vec<Result<()>> {
        // Calls of one write may be applied in any order.
        let number = self.next_write.fetch_add(1, Ordering::Relaxed);
        let mut calls = Vec::new();
        let mut of_calls: Vec<Vec<usize>> = Vec::new();
        for (shard, indexes) in self.by_shard(writes, |write| write.metric, usize::MAX) {
            let tag = &self.tags[shard];
            let mut bytes = 0;
            let mut open: Option<(Call, Vec<usize>)> = None;
            for index in indexes {
                if let Some((call, full)) =
                    open.take_if(|(_, taken)| taken.len() >= CALL_WRITES_MAX || bytes >= CALL_BYTES_MAX)
                {
                    bytes = 0;
                    calls.push(call);
                    of_calls.push(full);
                }
                let (call, taken) = open.get_or_insert_with(|| {
                    let call = Self::fenced_call(&self.scripts.write, tag, fence).arg(number);
                    (call.key(tag.key(":w")).key(tag.key(":h")), Vec::new())
                });
                bytes += push(call, tag, &writes[index]);
                taken.push(index);
            }
            if let Some((call, taken)) = open {
                calls.push(call);
                of_calls.push(taken);
            }
        }
        self.answers(fence, writes.len(), calls, &of_calls).await
    }

    pub(super) async fn delete_each(&self, fence: Fence, metrics: &[MetricId]) -> Vec<Result<()>> {
        let number = self.next_write.fetch_add(1, Ordering::Relaxed);
        let pieces = self.by_shard(metrics, |metric| *metric, CALL_DELETIONS_MAX);
        let call = |(shard, indexes): &(usize, Vec<usize>)| {
            let tag = &self.tags[*shard];
            let call = Self::fenced_call(&self.scripts.delete, tag, fence).arg(number);
            let mut call = call.key(tag.key(":w")).key(tag.key(":h"));
            for index in indexes {
                call.push_key(layout::index_key(tag, metrics[*index]));
                call.push_key(layout::blocks_key(tag, metrics[*index]));
                call.push(metrics[*index].0.as_bytes());
            }
            call
        };
        let calls = pieces.iter().map(call).collect();
        let of_calls: Vec<Vec<usize>> = pieces.into_iter().map(|(_, indexes)| indexes).collect();
        self.answers(fence, metrics.len(), calls, &of_calls).await
    }

    async fn answers(
        &self,
        fence: Fence,
        count: usize,
        calls: Vec<Call>,
        of_calls: &[Vec<usize>],
    ) -> Vec<Result<()>> {
        let mut results = vec![Ok(()); count];
        // The measures are acknowledged next, perhaps in another store or on another node: a failover that lost their heads
        // would lose them.
        let answers = self.client.call(self.write_lane(), Confirm::Replicas, calls).await;
        for (answer, indexes) in answers.into_iter().zip(of_calls) {
            if let Err(error) = verdict(fence, answer) {
                fail(&mut results, indexes, &error);
            }
        }
        results
    }
}

/// Adds a metric's changes to a call; returns their size in bytes, about.
fn push(call: &mut Call, tag: &Tag, write: &MetricWrite) -> usize {
    call.push(write.metric.0.as_bytes());
    call.push(layout::sealed(&write.head));
    call.push(write.blocks.len());
    if !write.blocks.is_empty() || !write.expired.is_empty() {
        call.push_key(layout::index_key(tag, write.metric));
        call.push_key(layout::blocks_key(tag, write.metric));
    }
    let mut bytes = write.head.len();
    for (key, block) in &write.blocks {
        call.push(layout::name(key));
        call.push(layout::sealed(block));
        bytes += block.len();
    }
    call.push(write.expired.len());
    for key in &write.expired {
        call.push(layout::name(key));
    }
    bytes
}

/// A script with fences returns the fencing token, `late`, or an empty string.
pub(super) fn verdict(fence: Fence, answer: Result<Value, ClientError>) -> Result<()> {
    let held: String = redis::from_redis_value(answer.map_err(store_error)?)
        .map_err(|error| StoreError::Io(error.to_string()))?;
    if held.is_empty() {
        return Ok(());
    }
    if held == "late" {
        return Err(StoreError::Unavailable("a later write of this process was applied before".to_owned()));
    }
    let held = held.parse().map_err(|_| StoreError::Io(format!("invalid token {held}")))?;
    Err(StoreError::refused(fence, held))
}
