//! Writes: all changes of a call to a shard become one table and one manifest version, which are one object unless the
//! table is large.

use std::{collections::BTreeMap, sync::atomic::Ordering};

use bytes::Bytes;
use gnudi_model::{MetricId, SackCount};

use super::{
    GRACE_MS_MIN,
    chain::{Change, Effect, Shard},
    manifest::{Manifest, Run, TableObject},
    names,
    requests::Requests,
};
use crate::{
    aggregates::{
        MetricWrite, Result, StoreError,
        key::Key,
        table::{Builder, entry::Kind},
    },
    fence::Fence,
    objects::clock::Moment,
};

/// The changes of a call to a shard.
pub type Entries = BTreeMap<Key, (Kind, Bytes)>;

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
    let deletion = Key::deletion(metric);
    entries.extract_if(deletion..=Key::last_of(metric), |_, _| true).for_each(drop);
    entries.insert(deletion, (Kind::Tombstone, Bytes::new()));
}

/// A run that a write adds.
struct Added<'a> {
    requests: &'a Requests,
    fence: Fence,
    run: Run,
    /// Of its only table, if that is not written yet.
    table: Option<Bytes>,
    /// Before the first attempt to add it.
    began: Moment,
}

impl Change for Added<'_> {
    fn apply(&self, draft: &mut Manifest) -> Result<Effect> {
        if self.run.tables.iter().all(|table| draft.knows(&table.name)) {
            return Ok(Effect::IsThere);
        }
        if let Some(held) = draft.held(self.fence) {
            return Err(StoreError::refused(self.fence, held));
        }
        check_floor(&self.run, draft.floor_ms)?;
        // If this process was suspended after it had added the run, the tables may have been merged since, and removed
        // after the grace time. A table in a manifest is written again with it.
        let age_ms = self.requests.now().since_ms(self.began);
        let grace_ms = self.requests.options.grace_ms.min(GRACE_MS_MIN);
        if self.table.is_none() && age_ms > grace_ms / 2 {
            return Err(too_old());
        }
        let mut run = self.run.clone();
        if self.table.is_some() && !draft.begins_era() {
            run.tables[0].version = Some(draft.version);
        }
        draft.runs.new.push(run);
        Ok(Effect::Changed)
    }

    fn table(&self) -> Option<(&str, &Bytes)> {
        self.table.as_ref().map(|bytes| (self.run.tables[0].name.as_str(), bytes))
    }
}

/// Tables named before the floor may have been removed as orphans.
pub fn check_floor(run: &Run, floor_ms: u64) -> Result<()> {
    let is_old = |table: &TableObject| names::written_ms(&table.name).is_none_or(|at| at < floor_ms);
    if run.tables.iter().any(is_old) { Err(too_old()) } else { Ok(()) }
}

fn too_old() -> StoreError {
    StoreError::Unavailable("a table was written so long ago that it may have been removed".to_owned())
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
        // A known fence saves writing the table; a newer one is detected at the commit.
        if let Some(held) = shard.known().and_then(|manifest| manifest.held(fence)) {
            return Err(StoreError::refused(fence, held));
        }
        let mut writer = RunWriter::new(self, shard);
        for (key, (kind, value)) in &entries {
            writer.push(*key, *kind, value).await?;
        }
        let (run, table) = writer.finish_for_manifest().await?;
        self.counters.written_bytes.fetch_add(run.bytes(), Ordering::Relaxed);
        let began = self.now();
        self.commit(shard, &Added { requests: self, fence, run, table, began }).await.map(drop)
    }
}

/// Writes a run, table by table.
pub struct RunWriter<'a> {
    requests: &'a Requests,
    shard: &'a Shard,
    builder: Builder,
    tables: Vec<TableObject>,
}

impl<'a> RunWriter<'a> {
    pub fn new(requests: &'a Requests, shard: &'a Shard) -> Self {
        Self { requests, shard, builder: Builder::default(), tables: Vec::new() }
    }

    /// Adds an entry; entries must come in order.
    pub async fn push(&mut self, key: Key, kind: Kind, value: &[u8]) -> Result<()> {
        // A deletion and its metric's head are in one table: a search that finds the deletion ends there.
        let last = self.builder.bounds().map(|(_, last)| last);
        let is_full = self.builder.length() >= self.requests.options.table_bytes_max;
        if is_full && !(key.is_head() && last == Some(Key::deletion(key.metric()))) {
            self.end_table().await?;
        }
        self.builder.push(key, kind, value);
        Ok(())
    }

    async fn end_table(&mut self) -> Result<()> {
        let builder = std::mem::take(&mut self.builder);
        if builder.bounds().is_some() {
            let (object, bytes) = self.requests.build_table(self.shard, builder);
            self.requests.put(&object.name, &bytes).await?;
            self.tables.push(object);
        }
        Ok(())
    }

    /// The run, which may have no tables.
    pub async fn finish(mut self) -> Result<Run> {
        self.end_table().await?;
        Ok(Run { tables: self.tables })
    }

    /// The run, and the bytes of its only table if that is not written because a manifest's object can hold it.
    async fn finish_for_manifest(self) -> Result<(Run, Option<Bytes>)> {
        let is_small = self.builder.length() <= self.requests.options.in_manifest_bytes_max;
        if !self.tables.is_empty() || !is_small || self.builder.bounds().is_none() {
            return Ok((self.finish().await?, None));
        }
        let (object, bytes) = self.requests.build_table(self.shard, self.builder);
        Ok((Run { tables: vec![object] }, Some(bytes)))
    }
}

/// The shard of a metric. A sack lies in one shard if the number of sacks is a multiple of that of shards.
pub fn shard_of(shards: SackCount, metric: MetricId) -> usize {
    usize::from(shards.sack_of(metric).0)
}
