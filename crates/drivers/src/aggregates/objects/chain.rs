//! The chain of a shard's manifests: finds the newest, and appends.
//!
//! A version is created only if absent, so one of several writers succeeds. If `v` exists and `v + 1` does
//! not, `v` is the newest, unless `v + 1` was removed for its age. Two rules exclude that:
//!
//! - Versions are removed by eras of [`ERA_VERSIONS`](super::manifest::ERA_VERSIONS), the oldest first, of an
//!   era its first version before the others, and none of the last two. (Of the others those with tables in use stay
//!   longer.) So if the first version of the era before `v`'s exists *after* `v + 1` was found absent, `v + 1` never
//!   existed: `v` is the newest. The id identifies that first version: a suspended writer may have created its name
//!   again.
//! - A process removes an era once it has known its second successor for [`ObjectAggregatesOptions::retain_ms`]. So one
//!   that saw `v` as the newest less than [`CONFIRMED_MS`] ago, by its own two clocks, need not check.
//!
//! The same holds for a writer that was suspended: it may create a version that was removed long ago. It
//! checks the guard afterwards. If the guard is gone, others have written meanwhile. They may have continued
//! from its version; it removes the version only if the newest one shows that nobody needs it. A writer whose
//! request failed does not know whether its version will still be created by the request under way: the next
//! call of this process for the shard creates that version, if need be without a change, before it continues. Only a
//! read, which needs no outcome, goes on after a part of its time: a store may serve reads and accept no writes.
//!
//! `hint` gives the version to start the search at. It may be outdated, but a hint exists before the first version is
//! removed. So if a shard has no hint *after* version 1 was found absent, it is empty. A lost hint must not make
//! it look empty: a search that finds no hint lists the versions, once. Shards do not share that listing here: one
//! that began earlier may lack versions that were created since. Where each listing reads the names of the whole
//! pool, the store of objects shares slow ones ([`crate::objects`]): shards searched together wait for one.
//!
//! A search may be cut off by its caller's timeout. The next one goes on from the newest version that it has found
//! (`reached`), so that callers which retry get to the end of a long chain. Nothing else relies on that version: it may
//! have been created again long after its removal.
//!
//! [`ObjectAggregatesOptions::retain_ms`]: super::ObjectAggregatesOptions::retain_ms

use std::{
    collections::HashSet,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::join_all;
use parking_lot::Mutex;
use uuid::Uuid;

use super::{
    maintenance::Superseded,
    manifest::{Decoded, Manifest},
    names,
    requests::Requests,
};
use crate::{
    aggregates::{Result, StoreError},
    fence::Fence,
    objects::{ObjectError, clock::Moment},
};

/// Within this time no successor of the newest known version can have been removed.
pub const CONFIRMED_MS: u64 = 5_000;
/// Most versions probed at once.
const PROBES_MAX: u64 = 16;
/// Versions beyond the hint that are probed at once at first.
const PROBES_AT_FIRST: u64 = 4;
/// Most searches that may end at an outdated version.
const SEARCHES_MAX: usize = 3;
/// Most attempts of a change while others add versions.
const COMMITS_MAX: usize = 100;

/// A shard's state in this process.
#[derive(Default)]
pub struct Shard {
    pub id: u16,
    known: Mutex<Option<CachedManifest>>,
    /// The newest manifest that a search has found, until one ends.
    reached: Mutex<Option<Arc<Manifest>>>,
    /// Locked while a version is being created.
    commit: tokio::sync::Mutex<()>,
    /// The version of a create request with unknown outcome; 0 for none.
    in_doubt: Mutex<u64>,
    /// Locked while runs are merged.
    pub merging: tokio::sync::Mutex<()>,
    /// Tables with lost entries, which cannot be merged.
    pub damaged: Mutex<HashSet<String>>,
    /// The last hint that this process wrote.
    pub hinted: Mutex<u64>,
    /// When this process last began to search for orphans.
    pub swept: Mutex<Option<Moment>>,
    /// What is removed after a time.
    pub superseded: Mutex<Superseded>,
    /// Removed garbage and old manifests: the next version omits them.
    pub removed: Mutex<HashSet<String>>,
    /// Whether maintenance is running.
    pub is_maintained: AtomicBool,
}

#[derive(Clone)]
struct CachedManifest {
    manifest: Arc<Manifest>,
    /// When it was known to be the newest.
    confirmed: Option<Moment>,
}

/// A change to a manifest.
pub trait Change: Send + Sync {
    /// Edits the draft of the next version.
    fn apply(&self, draft: &mut Manifest) -> Result<Effect>;

    /// The name and the bytes of a table that the change adds, which is written with the version.
    fn table(&self) -> Option<(&str, &Bytes)> {
        None
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Changed,
    /// The current version has the change already.
    IsThere,
}

impl Shard {
    pub fn new(id: u16) -> Self {
        Self { id, ..Self::default() }
    }

    /// The newest manifest that this process has seen.
    pub fn known(&self) -> Option<Arc<Manifest>> {
        self.known.lock().as_ref().map(|known| known.manifest.clone())
    }

    /// Makes the next reader check that the cached manifest is the newest.
    pub fn invalidate(&self) {
        if let Some(known) = &mut *self.known.lock() {
            known.confirmed = None;
        }
    }

    /// The manifest to search from, and when the newest known one was confirmed.
    fn search_start(&self) -> Option<(Arc<Manifest>, Option<Moment>)> {
        let known = self.known.lock().clone();
        let confirmed = known.as_ref().and_then(|known| known.confirmed);
        let both = [known.map(|known| known.manifest), self.reached.lock().clone()];
        let newest = both.into_iter().flatten().max_by_key(|manifest| manifest.version)?;
        Some((newest, confirmed))
    }

    /// Records how far a search has come.
    fn reach(&self, manifest: &Arc<Manifest>) {
        let mut reached = self.reached.lock();
        if reached.as_ref().map_or(0, |reached| reached.version) < manifest.version {
            *reached = Some(manifest.clone());
        }
    }

    /// Caches a manifest, unless a newer one is cached.
    fn learn(&self, manifest: Arc<Manifest>, confirmed: Option<Moment>) {
        // Under both locks: a thread that reads that no version is in doubt also reads the manifest that resolved it.
        let mut known = self.known.lock();
        let mut in_doubt = self.in_doubt.lock();
        if *in_doubt <= manifest.version {
            *in_doubt = 0;
        }
        match &mut *known {
            Some(known) if known.manifest.version > manifest.version => {}
            Some(known) if known.manifest.id == manifest.id => {
                let both = [confirmed, known.confirmed].into_iter().flatten();
                known.confirmed = both.max_by_key(|moment| moment.running_ms);
            }
            _ => *known = Some(CachedManifest { manifest, confirmed }),
        }
    }
}

/// The result of walking the chain.
struct Walked {
    newest: Arc<Manifest>,
    /// A later version that cannot be read.
    damaged: Option<u64>,
}

impl Requests {
    /// The newest manifest at some moment after the call began.
    pub async fn newest(&self, shard: &Shard) -> Result<Arc<Manifest>> {
        if *shard.in_doubt.lock() != 0 {
            // The lock's holder awaits the outcome; the version is not acknowledged yet, so this read may
            // miss it.
            if let Ok(_lock) = shard.commit.try_lock() {
                // Nor does it need the outcome: a full cluster, or one without a quorum for writes, gives none.
                let limit = Duration::from_millis(self.options.deadline_ms / 4);
                let _ = tokio::time::timeout(limit, self.settle(shard)).await;
            }
        }
        self.find_newest(shard).await
    }

    /// A manifest with all writes to the fence's sack, if this process has raised the fence.
    pub async fn owned(&self, shard: &Shard, fence: Fence) -> Result<Option<Arc<Manifest>>> {
        // Unlike other readers a writer waits for the outcome of its last write: if that took effect later, the
        // writer's heads would be older than its blocks, to which it would add late points again.
        if *shard.in_doubt.lock() != 0 {
            let _lock = shard.commit.lock().await;
            self.settle(shard).await?;
        }
        Ok(shard.known().filter(|manifest| manifest.fences.contains(&fence.into())))
    }

    async fn find_newest(&self, shard: &Shard) -> Result<Arc<Manifest>> {
        let began = self.now();
        if let Some((start, confirmed)) = shard.search_start() {
            let walked = self.walk(shard, start, 1).await?;
            let fresh = confirmed.is_some_and(|then| self.now().since_ms(then) < CONFIRMED_MS);
            if fresh || self.is_live(shard, &walked.newest, false).await? {
                return self.found(shard, walked, began);
            }
            *shard.reached.lock() = None;
        }
        for search in 0..SEARCHES_MAX {
            let Some(start) = self.start(shard, search > 0).await? else { continue };
            // Not before: a listing may take long.
            let began = self.now();
            shard.reach(&start);
            let seems_empty = start.version == 0;
            let probes = if seems_empty { 1 } else { PROBES_AT_FIRST };
            let walked = self.walk(shard, start, probes).await?;
            if self.is_live(shard, &walked.newest, seems_empty).await? {
                return self.found(shard, walked, began);
            }
            *shard.reached.lock() = None;
        }
        let place = self.damage.place(&names::manifests(shard.id));
        Err(StoreError::Unavailable(format!("the newest of {place} could not be found")))
    }

    fn found(&self, shard: &Shard, walked: Walked, began: Moment) -> Result<Arc<Manifest>> {
        if let Some(version) = walked.damaged {
            return Err(self.unknown(shard, version));
        }
        shard.learn(walked.newest.clone(), Some(began));
        *shard.reached.lock() = None;
        Ok(walked.newest)
    }

    /// The manifest to start from: the hint's, or if that is useless, that of the highest version listed. Version 0
    /// if none is listed.
    async fn start(&self, shard: &Shard, list: bool) -> Result<Option<Arc<Manifest>>> {
        let mut version = None;
        if !list && let Some(hint) = self.get(&names::hint(shard.id)).await? {
            let hint = std::str::from_utf8(&hint).ok().and_then(|text| text.trim().parse().ok());
            let Some(hint) = hint else { return Ok(None) };
            version = Some(hint);
        }
        // Also without a hint: it may have been lost.
        if version.is_none() {
            let names = self.list(&names::manifests(shard.id)).await?;
            version = names.iter().filter_map(|name| names::version_of(name)).max();
        }
        match version {
            None => Ok(Some(Arc::new(Manifest::default()))),
            Some(version) => match self.manifest(shard, version).await? {
                Probe::Manifest(manifest) => Ok(Some(manifest)),
                Probe::Nothing => Ok(None),
                Probe::Damaged => Err(self.unknown(shard, version)),
            },
        }
    }

    fn unknown(&self, shard: &Shard, version: u64) -> StoreError {
        let place = self.damage.place(&names::manifest(shard.id, version));
        StoreError::Damaged(format!(
            "{place}: the contents of its shard are unknown; removing this object returns the shard to the version before"
        ))
    }

    /// Walks the chain from `start`, probing `first` versions at once at first.
    async fn walk(&self, shard: &Shard, start: Arc<Manifest>, first: u64) -> Result<Walked> {
        let (mut newest, mut damaged, mut at, mut probes) = (start.clone(), None, start.version, first);
        loop {
            let versions = at + 1..=at + probes;
            let found = join_all(versions.clone().map(|version| self.manifest(shard, version))).await;
            let mut last = Probe::Nothing;
            for (version, probe) in versions.zip(found) {
                last = probe?;
                match &last {
                    Probe::Nothing => {}
                    Probe::Manifest(manifest) => (newest, damaged) = (manifest.clone(), None),
                    Probe::Damaged => damaged = Some(version),
                }
            }
            if matches!(last, Probe::Nothing) {
                return Ok(Walked { newest, damaged });
            }
            shard.reach(&newest);
            at += probes;
            probes = (probes * 4).min(PROBES_MAX);
        }
    }

    async fn manifest(&self, shard: &Shard, version: u64) -> Result<Probe> {
        let name = names::manifest(shard.id, version);
        let Some(bytes) = self.get(&name).await? else { return Ok(Probe::Nothing) };
        match Manifest::decode(&bytes) {
            Some(Decoded { manifest, is_sound, table_bytes }) if manifest.version == version => {
                let (table, copies) = bytes.split_at(table_bytes);
                if !is_sound {
                    self.damage.report("copy of a manifest", &name, table_bytes as u64, copies);
                }
                self.cache_table(&manifest, table);
                Ok(Probe::Manifest(Arc::new(manifest)))
            }
            _ => {
                self.damage.report("manifest", &name, 0, &bytes);
                Ok(Probe::Damaged)
            }
        }
    }

    /// Whether the version after this one cannot have been removed yet. `is_listed`: this search has listed the
    /// versions, and there were none.
    async fn is_live(&self, shard: &Shard, manifest: &Manifest, is_listed: bool) -> Result<bool> {
        // Version 1 is its own guard: a suspended writer may have created it again.
        if manifest.version <= 1 && self.get(&names::hint(shard.id)).await?.is_some() {
            return Ok(false);
        }
        let Some(guard) = manifest.guard() else {
            if is_listed {
                return Ok(true);
            }
            // The hint may have been lost. Version 1 may have been created meanwhile, even by this process.
            let names = self.list(&names::manifests(shard.id)).await?;
            return Ok(names.iter().all(|name| names::version_of(name) == Some(1)));
        };
        match self.manifest(shard, guard.first).await? {
            Probe::Nothing => Ok(false),
            Probe::Manifest(there) => Ok(there.id == guard.id),
            // It exists; another manifest of its name would not be damaged.
            Probe::Damaged => Ok(true),
        }
    }

    /// Adds a version with the change. `Ok` with the version that has it.
    pub async fn commit(&self, shard: &Shard, change: &dyn Change) -> Result<Arc<Manifest>> {
        let _lock = shard.commit.lock().await;
        self.settle(shard).await?;
        let began = self.now();
        let known = shard.known();
        let mut manifest = match known {
            Some(manifest) => manifest,
            None => self.find_newest(shard).await?,
        };
        let mut uncertain = None;
        for _ in 0..COMMITS_MAX {
            let mut draft = manifest.next(Uuid::new_v4(), self.now().wall_ms);
            if change.apply(&mut draft)? == Effect::IsThere {
                return Ok(manifest);
            }
            let mut table = change.table();
            if let Some((name, bytes)) = table.take_if(|_| draft.begins_era()) {
                self.put(name, bytes).await?;
            }
            let table: &[u8] = table.map_or(&[], |(_, bytes)| bytes);
            match self.create(shard, &manifest, draft, table).await {
                Ok(Created::Ours(manifest)) => return Ok(manifest),
                Ok(Created::Anothers) => {}
                Err(error @ StoreError::Unavailable(_)) => uncertain = Some(error),
                Err(error) => return Err(error),
            }
            manifest = match self.find_newest(shard).await {
                Ok(manifest) => manifest,
                Err(error) => return Err(uncertain.unwrap_or(error)),
            };
            // After this time the chain may no longer show that it had the change. (Checked after reading the
            // chain.)
            if let Some(error) = uncertain.take_if(|_| self.now().since_ms(began) >= self.options.deadline_ms)
            {
                return Err(error);
            }
        }
        Err(StoreError::Unavailable(format!("{}: too many writers in one shard", self.objects.place())))
    }

    /// Resolves the version in doubt by creating it. The commit lock must be held.
    async fn settle(&self, shard: &Shard) -> Result<()> {
        while *shard.in_doubt.lock() != 0 {
            let manifest = self.find_newest(shard).await?;
            if *shard.in_doubt.lock() == 0 {
                break;
            }
            let draft = manifest.next(Uuid::new_v4(), self.now().wall_ms);
            self.create(shard, &manifest, draft, &[]).await?;
        }
        Ok(())
    }

    /// Tries to create `next`, with the table that it holds, as the successor of `manifest`. The commit lock must be
    /// held.
    async fn create(
        &self,
        shard: &Shard,
        manifest: &Manifest,
        mut next: Manifest,
        table: &[u8],
    ) -> Result<Created> {
        // Of this manifest: a reader may have learned a newer one since the caller read it, and its successor may have been
        // removed by now.
        let confirmed = {
            let known = shard.known.lock();
            known.as_ref().filter(|known| known.manifest.id == manifest.id).and_then(|known| known.confirmed)
        };
        let began = self.now();
        leave_out_removed(shard, &mut next);
        let name = names::manifest(shard.id, next.version);
        // Before the request, since this future may be dropped before the response.
        let doubt = std::mem::replace(&mut *shard.in_doubt.lock(), next.version);
        match self.create_object(&name, next.encode(table)).await {
            Ok(()) => {}
            Err(ObjectError::Exists(_)) => return Ok(Created::Anothers),
            Err(error @ ObjectError::Unavailable(_)) => return Err(self.failure(error)),
            Err(error) => {
                // An earlier request for this version may still be under way.
                *shard.in_doubt.lock() = doubt;
                return Err(self.failure(error));
            }
        }
        let fresh = confirmed.is_some_and(|then| self.now().since_ms(then) < CONFIRMED_MS);
        if !fresh && !self.is_live(shard, manifest, false).await? {
            self.remove_if_late(shard, next.version).await?;
            return Ok(Created::Anothers);
        }
        let next = Arc::new(next);
        shard.learn(next.clone(), Some(began));
        Ok(Created::Ours(next))
    }

    /// Removes a version that this process has created, unless others have continued from it. The process was
    /// suspended before or after the creation.
    async fn remove_if_late(&self, shard: &Shard, version: u64) -> Result<()> {
        // The search must not begin at the version.
        *shard.known.lock() = None;
        *shard.reached.lock() = None;
        let newest = self.find_newest(shard).await?;
        if newest.unused_versions()(version) {
            let name = names::manifest(shard.id, version);
            tracing::warn!(%name, "this process was suspended while others wrote: its version is removed");
            self.remove(&[name]).await?;
        }
        Ok(())
    }
}

/// Omits removed names from the next version, and then forgets them.
fn leave_out_removed(shard: &Shard, next: &mut Manifest) {
    let mut removed = shard.removed.lock();
    let oldest = next.eras.first().map(|era| names::manifest(shard.id, era.first));
    removed.retain(|name| {
        oldest.as_ref() == Some(name) || next.garbage.iter().any(|garbage| garbage.name == *name)
    });
    next.garbage.retain(|garbage| !removed.contains(&garbage.name));
    if oldest.is_some_and(|oldest| removed.contains(&oldest)) {
        next.eras.remove(0);
    }
}

enum Probe {
    Nothing,
    Manifest(Arc<Manifest>),
    Damaged,
}

enum Created {
    Ours(Arc<Manifest>),
    Anothers,
}
