//! Writes: all changes of a call to a shard become one segment (several if large) and one manifest version.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::future::try_join_all;
use gnudi_model::{MetricId, SackCount};
use uuid::Uuid;

use super::{
    cache::Held,
    chain::{Change, Effect, Shard},
    manifest::{Manifest, Run, SegmentEntry},
    names,
    requests::Requests,
    segment::{self, Entries, Index, stored_bytes},
};
use crate::{
    aggregates::{MetricWrite, Result, StoreError, entry::Kind, key::Key},
    fence::Fence,
};

/// New segments up to this size are cached whole: they will be merged soon.
pub const KEPT_BYTES_MAX: usize = 1 << 20;

/// Adds a pass's changes.
pub fn enter(entries: &mut Entries, write: &MetricWrite) {
    for key in &write.expired {
        entries.insert(Key::block(key), (Kind::Tombstone, Bytes::new()));
    }
    for (key, bytes) in &write.blocks {
        entries.insert(Key::block(key), (Kind::Value, bytes.clone()));
    }
    entries.insert(Key::head(write.metric), (Kind::Value, write.head.clone()));
}

/// Adds the deletion of a metric.
pub fn enter_deletion(entries: &mut Entries, metric: MetricId) {
    let of_metric: Vec<Key> =
        entries.range(Key::deletion(metric)..=Key::last_of(metric)).map(|(key, _)| *key).collect();
    for key in of_metric {
        entries.remove(&key);
    }
    entries.insert(Key::deletion(metric), (Kind::Value, Bytes::new()));
}

/// A run that a write adds.
struct Added {
    fence: Fence,
    run: Run,
}

impl Change for Added {
    fn apply(&self, draft: &mut Manifest) -> Result<Effect> {
        if self.run.parts.iter().all(|part| draft.knows(&part.name)) {
            return Ok(Effect::IsThere);
        }
        if let Some(held) = draft.held(self.fence) {
            return Err(StoreError::refused(self.fence, held));
        }
        check_floor(&self.run.parts, draft)?;
        draft.runs.push(self.run.clone());
        Ok(Effect::Changed)
    }
}

/// Segments written before the floor may have been removed as orphans.
pub fn check_floor(parts: &[SegmentEntry], draft: &Manifest) -> Result<()> {
    let too_old = parts.iter().any(|part| names::written_ms(&part.name).is_none_or(|at| at < draft.floor_ms));
    if too_old {
        return Err(StoreError::Unavailable(
            "this process was suspended between a segment and its manifest".to_owned(),
        ));
    }
    Ok(())
}

/// The change that raises a fence.
struct RaisedFence(Fence);

impl Change for RaisedFence {
    fn apply(&self, draft: &mut Manifest) -> Result<Effect> {
        let Self(fence) = *self;
        if let Some(held) = draft.held(fence) {
            return Err(StoreError::refused(fence, held));
        }
        if draft.fences.contains(&fence.into()) {
            return Ok(Effect::IsThere);
        }
        draft.raise(fence);
        Ok(Effect::Changed)
    }
}

impl Requests {
    pub async fn raise(&self, shard: &Shard, fence: Fence) -> Result<()> {
        // Only the newest version shows whether it was raised already.
        self.newest(shard).await?;
        self.commit(shard, &RaisedFence(fence)).await.map(drop)
    }

    /// Writes entries as the newest run of a shard.
    pub async fn add_run(&self, shard: &Shard, fence: Fence, entries: Entries) -> Result<()> {
        // A known fence saves writing the segment; a newer one is detected at the commit.
        if let Some(held) = shard.known().and_then(|manifest| manifest.held(fence)) {
            return Err(StoreError::refused(fence, held));
        }
        let split = self.split(entries);
        let parts =
            try_join_all(split.iter().map(|entries| self.put_segment(shard, entries, KEPT_BYTES_MAX)))
                .await?;
        self.count_written(&parts);
        self.commit(shard, &Added { fence, run: Run { parts } }).await.map(drop)
    }

    fn count_written(&self, parts: &[SegmentEntry]) {
        let bytes = parts.iter().map(|part| part.bytes).sum();
        self.counters.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Splits entries so that segments do not exceed their maximum size by much.
    fn split(&self, entries: Entries) -> Vec<Entries> {
        let (mut split, mut bytes) = (vec![Entries::new()], 0);
        for (key, value) in entries {
            if bytes >= self.options.segment_bytes_max {
                split.push(Entries::new());
                bytes = 0;
            }
            bytes += stored_bytes(value.1.len()) as u64;
            split.last_mut().expect("there is one").insert(key, value);
        }
        split
    }

    /// Writes a segment; no manifest names it yet.
    pub async fn put_segment(
        &self,
        shard: &Shard,
        entries: &Entries,
        kept_max: usize,
    ) -> Result<SegmentEntry> {
        let name = names::segment(shard.id, self.now().wall_ms, Uuid::new_v4());
        let (part, bytes) = segment::encode(name, entries);
        self.put(&part.name, &bytes).await?;
        let front = match bytes.len() {
            // The whole segment.
            length if length <= kept_max => bytes.clone(),
            _ => Bytes::copy_from_slice(&bytes[..part.heads_end as usize]),
        };
        let rows = Bytes::copy_from_slice(&bytes[part.index_start as usize..]);
        let index = Index::parse(&part, rows).map(Into::into);
        self.cache.add(&part.name, Held { index, front: Some(front) });
        Ok(part)
    }
}

/// The shard of a metric. A sack lies in one shard if the number of sacks is a multiple of that of shards.
pub fn shard_of(shards: SackCount, metric: MetricId) -> usize {
    usize::from(shards.sack_of(metric).0)
}
