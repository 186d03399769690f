//! The chain of a shard's manifests: finding the newest, and adding one.
//!
//! A version is created where there is none, by one of those who try. Whoever has version `v` and finds no `v + 1` has the
//! newest, unless `v + 1` is so old that it was removed. Two rules rule that out:
//!
//! - Versions are removed by eras of [`ERA_VERSIONS`](super::manifest::ERA_VERSIONS), the oldest first, of an era its first version before the others, and none
//!   of the last two. So if the first version of the era before `v`'s is there *after* `v + 1` was not, then `v + 1` has
//!   never been there: `v` is the newest. That one is known by its id; somebody who slept may have created its name again.
//! - An era is removed [`ObjectAggregatesOptions::retain_ms`] after its successor's successor began. So whoever knew that `v`
//!   was the newest less than [`CONFIRMED_MS`] ago, by its own two clocks, need not ask.
//!
//! The same holds for a writer that slept: it may create a version that was removed long ago, but looks for the guard after
//! it has, finds that it created nothing, and removes it. A writer whose call met a failure does not know whether its version
//! will be created yet, by a request that is still under way: the next call of this process that needs the shard gives that
//! version to somebody, if need be to nobody's change, before it goes on.
//!
//! `hint` says where to begin to look. It may be late, but some hint is there before the first version is removed.
//!
//! [`ObjectAggregatesOptions::retain_ms`]: super::ObjectAggregatesOptions::retain_ms

use std::{
    collections::HashSet,
    sync::{Arc, atomic::AtomicBool},
};

use futures_util::future::join_all;
use parking_lot::Mutex;
use uuid::Uuid;

use super::{clock::Moment, manifest::Manifest, names, requests::Requests};
use crate::{aggregates::StoreError, objects::ObjectError};

/// For so long no version that followed the newest known one can have been removed already.
pub const CONFIRMED_MS: u64 = 5_000;
/// How many versions are looked for at once, at most.
const PROBES_MAX: u64 = 16;
/// How many versions beyond the hint are looked for at once, at first.
const PROBES_AT_FIRST: u64 = 4;
/// How many times a search may end at a version that turns out to be outdated.
const SEARCHES_MAX: usize = 3;
/// How many times a change is tried while others add versions.
const COMMITS_MAX: usize = 100;

/// What this process knows of a shard.
pub struct Shard {
    pub id: u16,
    known: Mutex<Option<CachedManifest>>,
    /// Held while a version is being created.
    commit: tokio::sync::Mutex<()>,
    /// The version of a create request without an answer; 0 for none.
    in_doubt: Mutex<u64>,
    /// Held while runs are merged.
    pub merging: tokio::sync::Mutex<()>,
    /// Segments that have lost entries, so that they cannot be merged.
    pub damaged: Mutex<HashSet<String>>,
    /// The last hint that this process gave.
    pub hinted: Mutex<u64>,
    /// When this process looked last for what belongs to nobody.
    pub swept: Mutex<Option<Moment>>,
    /// Garbage and old manifests that are removed: the next version need not name them.
    pub removed: Mutex<HashSet<String>>,
    /// Whether its maintenance is running.
    pub is_maintained: AtomicBool,
}

#[derive(Clone)]
struct CachedManifest {
    manifest: Arc<Manifest>,
    /// When it was the newest.
    confirmed: Option<Moment>,
}

/// A change to a manifest.
pub trait Change: Send + Sync {
    /// Changes the next version's draft.
    fn apply(&self, draft: &mut Manifest) -> Result<Effect, StoreError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Changed,
    /// The version has it already.
    IsThere,
}

impl Shard {
    pub fn new(id: u16) -> Self {
        Self {
            id,
            known: Mutex::new(None),
            commit: tokio::sync::Mutex::new(()),
            in_doubt: Mutex::new(0),
            merging: tokio::sync::Mutex::new(()),
            damaged: Mutex::default(),
            hinted: Mutex::new(0),
            swept: Mutex::new(None),
            removed: Mutex::default(),
            is_maintained: AtomicBool::new(false),
        }
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

    /// Caches a manifest, unless a newer one is cached.
    fn learn(&self, manifest: Arc<Manifest>, confirmed: Option<Moment>) {
        let mut known = self.known.lock();
        let mut in_doubt = self.in_doubt.lock();
        if *in_doubt <= manifest.version {
            *in_doubt = 0;
        }
        match &mut *known {
            Some(known) if known.manifest.version > manifest.version => {}
            Some(known) if known.manifest.id == manifest.id => {
                known.confirmed = confirmed.max_by_running(known.confirmed);
            }
            _ => *known = Some(CachedManifest { manifest, confirmed }),
        }
    }
}

trait Later {
    fn max_by_running(self, other: Self) -> Self;
}

impl Later for Option<Moment> {
    fn max_by_running(self, other: Self) -> Self {
        [self, other].into_iter().flatten().max_by_key(|moment| moment.running_ms)
    }
}

/// What was found of a chain beyond a version.
struct Walked {
    newest: Arc<Manifest>,
    /// A later version that cannot be read.
    damaged: Option<u64>,
}

impl Requests {
    /// The newest manifest at some moment after the call began.
    pub async fn newest(&self, shard: &Shard) -> Result<Arc<Manifest>, StoreError> {
        if *shard.in_doubt.lock() != 0 {
            // The holder of the lock waits for the answer; nobody was told that the version exists, so this read may miss it.
            if let Ok(_lock) = shard.commit.try_lock() {
                self.settle(shard).await?;
            }
        }
        self.find_newest(shard).await
    }

    async fn find_newest(&self, shard: &Shard) -> Result<Arc<Manifest>, StoreError> {
        let began = self.now();
        let known = shard.known.lock().clone();
        if let Some(CachedManifest { manifest, confirmed }) = known {
            let walked = self.walk(shard, manifest, 1).await?;
            let fresh = confirmed.is_some_and(|then| self.now().since_ms(then) < CONFIRMED_MS);
            if fresh || self.is_live(shard, &walked.newest).await? {
                return self.found(shard, walked, began);
            }
        }
        for search in 0..SEARCHES_MAX {
            let began = self.now();
            let Some(start) = self.start(shard, search > 0).await? else { continue };
            let probes = if start.version == 0 { 1 } else { PROBES_AT_FIRST };
            let walked = self.walk(shard, start, probes).await?;
            if self.is_live(shard, &walked.newest).await? {
                return self.found(shard, walked, began);
            }
        }
        let place = self.place(&names::manifests(shard.id));
        Err(StoreError::Unavailable(format!("the newest of {place} could not be found")))
    }

    fn found(&self, shard: &Shard, walked: Walked, began: Moment) -> Result<Arc<Manifest>, StoreError> {
        if let Some(version) = walked.damaged {
            return Err(self.unknown(shard, version));
        }
        shard.learn(walked.newest.clone(), Some(began));
        Ok(walked.newest)
    }

    /// Where to begin to look: what the hint says, or where that is of no use, the largest version that is listed.
    async fn start(&self, shard: &Shard, list: bool) -> Result<Option<Arc<Manifest>>, StoreError> {
        let mut version = None;
        if !list && let Some(hint) = self.get(&names::hint(shard.id)).await? {
            let hint = std::str::from_utf8(&hint).ok().and_then(|text| text.trim().parse().ok());
            let Some(hint) = hint else { return Ok(None) };
            version = Some(hint);
        }
        // Also where there is no hint: it may have been lost.
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
        let place = self.place(&names::manifest(shard.id, version));
        StoreError::Damaged(format!(
            "{place}: what its shard consists of is not known; without this object it is what the version before says"
        ))
    }

    /// Looks for versions beyond one, `first` at once at first.
    async fn walk(&self, shard: &Shard, start: Arc<Manifest>, first: u64) -> Result<Walked, StoreError> {
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
            at += probes;
            probes = (probes * 4).min(PROBES_MAX);
        }
    }

    async fn manifest(&self, shard: &Shard, version: u64) -> Result<Probe, StoreError> {
        let name = names::manifest(shard.id, version);
        let Some(bytes) = self.get(&name).await? else { return Ok(Probe::Nothing) };
        match Manifest::decode(&bytes) {
            Some((manifest, sound)) if manifest.version == version => {
                if !sound {
                    self.report("copy of a manifest", &name, 0, &bytes);
                }
                Ok(Probe::Manifest(Arc::new(manifest)))
            }
            _ => {
                self.report("manifest", &name, 0, &bytes);
                Ok(Probe::Damaged)
            }
        }
    }

    /// Whether the version after this one cannot have been removed, from what is there now.
    async fn is_live(&self, shard: &Shard, manifest: &Manifest) -> Result<bool, StoreError> {
        let Some(guard) = manifest.guard() else {
            if self.get(&names::hint(shard.id)).await?.is_some() {
                return Ok(false);
            }
            // The hint may have been lost. Version 1 may have come meanwhile, even by this process.
            let names = self.list(&names::manifests(shard.id)).await?;
            return Ok(names.iter().all(|name| names::version_of(name) == Some(1)));
        };
        match self.manifest(shard, guard.first).await? {
            Probe::Nothing => Ok(false),
            Probe::Manifest(there) => Ok(there.id == guard.id),
            // It is there, and who would have damaged another's?
            Probe::Damaged => Ok(true),
        }
    }

    /// Adds a version with the change. `Ok` with the version that has it.
    pub async fn commit(&self, shard: &Shard, change: &dyn Change) -> Result<Arc<Manifest>, StoreError> {
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
            match self.create(shard, &manifest, draft).await {
                Ok(Created::Ours(manifest)) => return Ok(manifest),
                Ok(Created::Anothers) => {}
                Err(error @ StoreError::Unavailable(_)) => uncertain = Some(error),
                Err(error) => return Err(error),
            }
            manifest = match self.find_newest(shard).await {
                Ok(manifest) => manifest,
                Err(error) => return Err(uncertain.unwrap_or(error)),
            };
            // Later than this the chain may have forgotten that it had the change. (Asked after the chain was read.)
            if let Some(error) = uncertain.take_if(|_| self.now().since_ms(began) >= self.options.deadline_ms)
            {
                return Err(error);
            }
        }
        Err(StoreError::Unavailable(format!("{}: too many writers in one shard", self.objects.place())))
    }

    /// Gives the version that this process tried to create to somebody. The commit lock is held.
    async fn settle(&self, shard: &Shard) -> Result<(), StoreError> {
        while *shard.in_doubt.lock() != 0 {
            let manifest = self.find_newest(shard).await?;
            if *shard.in_doubt.lock() == 0 {
                break;
            }
            let draft = manifest.next(Uuid::new_v4(), self.now().wall_ms);
            self.create(shard, &manifest, draft).await?;
        }
        Ok(())
    }

    /// Tries to have `next` follow `manifest`. The commit lock is held.
    async fn create(
        &self,
        shard: &Shard,
        manifest: &Manifest,
        mut next: Manifest,
    ) -> Result<Created, StoreError> {
        let confirmed = shard.known.lock().as_ref().and_then(|known| known.confirmed);
        let began = self.now();
        leave_out_removed(shard, &mut next);
        let name = names::manifest(shard.id, next.version);
        // Before the request, for the future may be dropped before the answer.
        *shard.in_doubt.lock() = next.version;
        match self.create_object(&name, next.encode()).await {
            Ok(()) => {}
            Err(ObjectError::Exists(_)) => return Ok(Created::Anothers),
            Err(error @ ObjectError::Unavailable(_)) => return Err(self.failure(error)),
            Err(error) => {
                *shard.in_doubt.lock() = 0;
                return Err(self.failure(error));
            }
        }
        let fresh = confirmed.is_some_and(|then| self.now().since_ms(then) < CONFIRMED_MS);
        if !fresh && !self.is_live(shard, manifest).await? {
            tracing::warn!(%name, "this process slept, and others went on without it");
            self.remove(std::slice::from_ref(&name)).await?;
            *shard.in_doubt.lock() = 0;
            *shard.known.lock() = None;
            return Ok(Created::Anothers);
        }
        let next = Arc::new(next);
        shard.learn(next.clone(), Some(began));
        Ok(Created::Ours(next))
    }
}

/// What is removed need not be named any more; and once it is not, need not be remembered.
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
