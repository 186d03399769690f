//! Background maintenance after writes, at most one task per shard: the hint, old manifests, merges, expired
//! garbage, and, rarely, orphaned tables.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

use parking_lot::Mutex;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{
    chain::{Change, Effect, Shard},
    manifest::{Garbage, Manifest},
    names,
    requests::Requests,
};
use crate::{aggregates::Result, objects::clock::Moment};

/// A new hint is written this many versions after the last one.
const HINT_VERSIONS: u64 = 8;

/// The background tasks of a store.
#[derive(Default)]
pub struct Maintenance(Mutex<JoinSet<()>>);

impl Maintenance {
    /// Starts the shard's maintenance unless it is running. Blocks the writer while the shard has far too many new runs.
    pub async fn after_write(&self, requests: &Arc<Requests>, shard: &Arc<Shard>) {
        if let Some(running) = Running::begin(shard) {
            let requests = requests.clone();
            let mut tasks = self.0.lock();
            // Reap finished tasks.
            while tasks.try_join_next().is_some() {}
            tasks.spawn(async move { requests.maintain_all(running).await });
        }
        let too_many =
            || shard.known().is_some_and(|known| known.runs.new.len() >= 2 * requests.options.runs_max);
        while too_many() && requests.merge(shard).await.is_ok_and(|merged| merged) {}
    }

    /// Waits until no task is running.
    pub async fn wait_idle(&self) {
        loop {
            let mut tasks = std::mem::take(&mut *self.0.lock());
            if tasks.is_empty() {
                return;
            }
            while tasks.join_next().await.is_some() {}
        }
    }
}

/// A shard's maintenance: it has ended once this is dropped, also by a panic.
struct Running(Arc<Shard>);

impl Running {
    /// `None` if it is running.
    fn begin(shard: &Arc<Shard>) -> Option<Self> {
        (!shard.is_maintained.swap(true, Ordering::AcqRel)).then(|| Running(shard.clone()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // With the versions of writers that have seen it run.
        self.0.is_maintained.swap(false, Ordering::AcqRel);
    }
}

/// The garbage and the outdated eras of a shard, each with the time by the monotonic clock at which this process first knew
/// it. The times in a manifest are of other machines: by a clock that is ahead they would be over too early.
#[derive(Default)]
pub struct Superseded(HashMap<String, u64>);

impl Superseded {
    /// Adds what is new in the manifest, and forgets what it no longer lists.
    fn note(&mut self, shard: u16, manifest: &Manifest, now: Moment) {
        let eras = manifest.outdated().iter().map(|era| names::manifest(shard, era.first));
        let names = manifest.garbage.iter().map(|garbage| garbage.name.clone()).chain(eras);
        let since = |name: &String| self.0.get(name).copied().unwrap_or(now.running_ms);
        self.0 = names.map(|name| (name.clone(), since(&name))).collect();
    }

    fn is_known_for(&self, name: &str, ms: u64, now: Moment) -> bool {
        self.0.get(name).is_some_and(|since| now.running_ms.saturating_sub(*since) >= ms)
    }
}

/// Records a search for orphans, and forbids adding tables that it may remove.
struct Swept {
    at_ms: u64,
    /// Tables written before may not be added any more.
    floor_ms: u64,
}

impl Change for Swept {
    fn apply(&self, draft: &mut Manifest) -> Result<Effect> {
        draft.swept_ms = self.at_ms;
        draft.floor_ms = draft.floor_ms.max(self.floor_ms);
        Ok(Effect::Changed)
    }
}

impl Requests {
    /// Also what was written between the last look and the end: that write has started nothing.
    async fn maintain_all(&self, mut running: Running) {
        let shard = running.0.clone();
        loop {
            let seen = match self.maintain(&shard).await {
                Ok(seen) => seen,
                Err(error) => {
                    tracing::warn!(shard = shard.id, "maintenance is retried after the next write: {error}");
                    return;
                }
            };
            drop(running);
            if shard.known().map(|manifest| manifest.id) == seen {
                return;
            }
            let Some(again) = Running::begin(&shard) else { return };
            running = again;
        }
    }

    /// Repeats until no new version has been added meanwhile. Returns the last one.
    async fn maintain(&self, shard: &Shard) -> Result<Option<Uuid>> {
        let mut seen = None;
        while let Some(manifest) = shard.known()
            && seen != Some(manifest.id)
        {
            seen = Some(manifest.id);
            if manifest.version >= *shard.hinted.lock() + HINT_VERSIONS {
                self.put_hint(shard, &manifest).await?;
            }
            shard.superseded.lock().note(shard.id, &manifest, self.now());
            self.remove_outdated(shard, &manifest).await?;
            self.remove_garbage(shard, &manifest).await?;
            while self.merge(shard).await? {}
            self.sweep_if_due(shard).await?;
        }
        Ok(seen)
    }

    async fn put_hint(&self, shard: &Shard, manifest: &Manifest) -> Result<()> {
        self.put(&names::hint(shard.id), &manifest.version.to_string().into()).await?;
        *shard.hinted.lock() = manifest.version;
        Ok(())
    }

    /// Removes the oldest era if its time has come: the first version before the others, because it marks the era, see
    /// `chain`.
    async fn remove_outdated(&self, shard: &Shard, manifest: &Manifest) -> Result<()> {
        let Some(era) = manifest.outdated().first() else { return Ok(()) };
        let (first, end) = (names::manifest(shard.id, era.first), manifest.eras[1].first);
        let is_due = shard.superseded.lock().is_known_for(&first, self.options.retain_ms, self.now());
        if !is_due || shard.removed.lock().contains(&first) {
            return Ok(());
        }
        self.put_hint(shard, manifest).await?;
        self.remove(std::slice::from_ref(&first)).await?;
        // The sweep removes those that are left.
        let with_tables = manifest.versions_with_tables();
        let rest = (era.first + 1..end).filter(|version| !with_tables.contains(version));
        let rest: Vec<String> = rest.map(|version| names::manifest(shard.id, version)).collect();
        self.remove(&rest).await?;
        shard.removed.lock().insert(first);
        Ok(())
    }

    async fn remove_garbage(&self, shard: &Shard, manifest: &Manifest) -> Result<()> {
        let now = self.now();
        let garbage: Vec<&Garbage> = {
            let (superseded, removed) = (shard.superseded.lock(), shard.removed.lock());
            let is_due = |name: &str| superseded.is_known_for(name, self.options.grace_ms, now);
            let garbage = manifest.garbage.iter().filter(|garbage| is_due(&garbage.name));
            garbage.filter(|garbage| !removed.contains(&garbage.name)).collect()
        };
        // A table in a manifest's object goes with that.
        let own_objects = garbage.iter().filter(|garbage| garbage.version.is_none());
        let names: Vec<String> = own_objects.map(|garbage| garbage.name.clone()).collect();
        if !names.is_empty() {
            self.remove(&names).await?;
        }
        shard.removed.lock().extend(garbage.into_iter().map(|garbage| garbage.name.clone()));
        Ok(())
    }

    /// The manifest records the last search: a process may live for less than the time between two. One that fails is
    /// repeated by this process after that time, or by the next one.
    async fn sweep_if_due(&self, shard: &Shard) -> Result<()> {
        let (now, interval_ms) = (self.now(), self.options.sweep_ms);
        let Some(known) = shard.known() else { return Ok(()) };
        // A time far ahead is of a machine with a wrong clock.
        if known.swept_ms.abs_diff(now.wall_ms) < interval_ms {
            return Ok(());
        }
        {
            let mut swept = shard.swept.lock();
            if swept.is_some_and(|swept| now.since_ms(swept) < interval_ms) {
                return Ok(());
            }
            *swept = Some(now);
        }
        self.sweep(shard, now.wall_ms).await
    }

    /// Removes tables that no manifest names and that are older than the time between two searches: their writers failed
    /// before the commit. Also removes manifests of removed eras: those that were created again by suspended writers, and
    /// those that held tables in use.
    async fn sweep(&self, shard: &Shard, at_ms: u64) -> Result<()> {
        let (tables, manifests) = (names::tables(shard.id), names::manifests(shard.id));
        let (tables, versions) = tokio::try_join!(self.list(&tables), self.list(&manifests))?;
        let Some(known) = shard.known() else { return Ok(()) };
        let oldest_ms = at_ms.saturating_sub(self.options.sweep_ms);
        let old = |name: &String| names::written_ms(name).is_some_and(|at| at < oldest_ms);
        let mut nobodys: Vec<String> =
            tables.into_iter().filter(|name| old(name) && !known.knows(name)).collect();
        // A suspended writer of one of them sees the floor when it commits. Not higher: if this machine's clock is ahead,
        // all tables that others are writing would be refused.
        let floor_ms = nobodys.iter().filter_map(|name| names::written_ms(name)).max().map_or(0, |at| at + 1);
        let manifest = self.commit(shard, &Swept { at_ms, floor_ms }).await?;
        nobodys.retain(|name| !manifest.knows(name));
        let is_unused = known.unused_versions();
        nobodys.extend(versions.into_iter().filter(|name| names::version_of(name).is_some_and(&is_unused)));
        if !nobodys.is_empty() {
            tracing::info!(shard = shard.id, objects = nobodys.len(), "removing orphaned objects");
            self.remove(&nobodys).await?;
        }
        Ok(())
    }
}
