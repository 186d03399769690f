//! The chain of a shard's manifests: finding the newest, and adding one.
//!
//! A version is created where there is none, by one of those who try. Whoever has version `v` and finds no `v + 1` has the
//! newest, unless `v + 1` is so old that it was removed. Two rules rule that out:
//!
//! - Versions are removed by eras of [`ERA_VERSIONS`], the oldest first, of an era its first version before the others, and none
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

use super::{
    clock::Moment,
    manifest::{ERA_VERSIONS, Manifest},
    names,
    requests::Requests,
};
use crate::{aggregates::StoreError, objects::ObjectError};

/// For so long what was known to be the newest version is believed to have been followed by none that is removed already.
pub const CONFIRMED_MS: u64 = 5_000;
/// How many versions are looked for at once, at most.
const PROBES_MAX: u64 = 16;
/// How many versions beyond the hint are looked for at once, at first.
const PROBES_AT_FIRST: u64 = 4;
/// How many times a search may end at a version that turns out to be outdated.
const SEARCHES_MAX: usize = 3;

/// What this process knows of a shard.
pub struct Shard {
    pub id: u16,
    known: Mutex<Option<Known>>,
    /// Held while a version is being created.
    commit: tokio::sync::Mutex<()>,
    /// A version that this process tried to create, of which it has not heard; 0 for none.
    unsettled: Mutex<u64>,
    /// Garbage that is removed: the next version need not name it.
    pub removed: Mutex<HashSet<String>>,
    /// Whether somebody tidies up.
    pub tended: AtomicBool,
}

#[derive(Clone)]
struct Known {
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
            unsettled: Mutex::new(0),
            removed: Mutex::default(),
            tended: AtomicBool::new(false),
        }
    }

    /// The newest manifest that this process has seen.
    pub fn known(&self) -> Option<Arc<Manifest>> {
        self.known.lock().as_ref().map(|known| known.manifest.clone())
    }

    /// Has the next reader make sure that what is known is the newest.
    pub fn distrust(&self) {
        if let Some(known) = &mut *self.known.lock() {
            known.confirmed = None;
        }
    }

    /// Takes a manifest up, unless a newer one is known.
    fn learn(&self, manifest: Arc<Manifest>, confirmed: Option<Moment>) {
        let mut known = self.known.lock();
        let mut unsettled = self.unsettled.lock();
        if *unsettled <= manifest.version {
            *unsettled = 0;
        }
        match &mut *known {
            Some(known) if known.manifest.version > manifest.version => {}
            Some(known) if known.manifest.id == manifest.id => {
                known.confirmed = confirmed.max_by_running(known.confirmed);
            }
            _ => *known = Some(Known { manifest, confirmed }),
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
        if *shard.unsettled.lock() != 0 {
            // Who holds the lock is about to hear of it, and has not been answered: it need not be seen here.
            if let Ok(_lock) = shard.commit.try_lock() {
                self.settle(shard).await?;
            }
        }
        self.find_newest(shard).await
    }

    async fn find_newest(&self, shard: &Shard) -> Result<Arc<Manifest>, StoreError> {
        let began = self.now();
        let known = shard.known.lock().clone();
        if let Some(Known { manifest, confirmed }) = known {
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
            let place = self.place(&names::manifest(shard.id, version));
            return Err(StoreError::Damaged(format!(
                "{place}: what its shard consists of is not known; without this object it is what the version before says"
            )));
        }
        shard.learn(walked.newest.clone(), Some(began));
        Ok(walked.newest)
    }

    /// Where to begin to look: what the hint says, or where that is gone, the largest version that is listed.
    async fn start(&self, shard: &Shard, list: bool) -> Result<Option<Arc<Manifest>>, StoreError> {
        let version = if list {
            let names = self.list(&names::manifests(shard.id)).await?;
            names.iter().filter_map(|name| names::version_of(name)).max()
        } else {
            self.hint(shard).await?
        };
        match version {
            None => Ok(Some(Arc::new(Manifest::default()))),
            Some(version) => match self.manifest(shard, version).await? {
                Probe::Manifest(manifest) => Ok(Some(manifest)),
                Probe::Nothing | Probe::Damaged => Ok(None),
            },
        }
    }

    async fn hint(&self, shard: &Shard) -> Result<Option<u64>, StoreError> {
        let hint = self.get(&names::hint(shard.id)).await?;
        Ok(hint.and_then(|text| std::str::from_utf8(&text).ok()?.trim().parse().ok()))
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
            return Ok(self.hint(shard).await?.is_none());
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
        loop {
            let mut draft = manifest.next(Uuid::new_v4(), self.now().wall_ms);
            if change.apply(&mut draft)? == Effect::IsThere {
                return Ok(manifest);
            }
            let failure = match self.create(shard, &manifest, draft).await {
                Ok(Created::Ours(manifest)) => return Ok(manifest),
                Ok(Created::Anothers) => None,
                Err(error @ StoreError::Unavailable(_)) => Some(error),
                Err(error) => return Err(error),
            };
            manifest = match self.find_newest(shard).await {
                Ok(manifest) => manifest,
                Err(error) => return Err(failure.unwrap_or(error)),
            };
            // Later than this the chain may have forgotten that it once had the change. (Checked after the chain was read.)
            if self.now().since_ms(began) >= self.options.deadline_ms {
                let reason =
                    || StoreError::Unavailable(format!("{}: too many writers", self.objects.place()));
                return Err(failure.unwrap_or_else(reason));
            }
        }
    }

    /// Gives the version that this process tried to create to somebody. The commit lock is held.
    async fn settle(&self, shard: &Shard) -> Result<(), StoreError> {
        while *shard.unsettled.lock() != 0 {
            let manifest = self.find_newest(shard).await?;
            if *shard.unsettled.lock() == 0 {
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
        self.leave_out_removed(shard, &mut next);
        let name = names::manifest(shard.id, next.version);
        // Before the request, for the future may be dropped before the answer.
        *shard.unsettled.lock() = next.version;
        match self.create_object(&name, next.encode()).await {
            Ok(()) => {}
            Err(ObjectError::Exists(_)) => return Ok(Created::Anothers),
            Err(error @ ObjectError::Unavailable(_)) => return Err(self.failure(error)),
            Err(error) => {
                *shard.unsettled.lock() = 0;
                return Err(self.failure(error));
            }
        }
        let fresh = confirmed.is_some_and(|then| self.now().since_ms(then) < CONFIRMED_MS);
        if !fresh && !self.is_live(shard, manifest).await? {
            tracing::warn!(%name, "this process slept, and others went on without it");
            self.remove(std::slice::from_ref(&name)).await?;
            *shard.unsettled.lock() = 0;
            *shard.known.lock() = None;
            return Ok(Created::Anothers);
        }
        let next = Arc::new(next);
        shard.learn(next.clone(), Some(began));
        Ok(Created::Ours(next))
    }

    fn leave_out_removed(&self, shard: &Shard, next: &mut Manifest) {
        let mut removed = shard.removed.lock();
        next.garbage.retain(|garbage| !removed.contains(&garbage.name));
        if next.eras.len() > 2 && removed.contains(&names::manifest(shard.id, next.eras[0].first)) {
            next.eras.remove(0);
        }
        // What the newest version names no more need not be remembered, once it is known.
        if removed.len() > 10 * ERA_VERSIONS as usize {
            removed.clear();
        }
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
