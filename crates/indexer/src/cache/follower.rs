//! Follows what other processes change in an index that they share, and has the caches forget it.

use std::{sync::Arc, time::Duration};

use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout_at},
};

use super::{
    CachedIndexer, ends::EndCache, metrics::MetricCache, policies::PolicyCache,
    resource_table::ResourceCache, types::TypeCache,
};
use crate::{Feed, FeedEntry, Indexer, IndexerError, Touched, Which};

/// How the caches of several processes are kept right.
#[derive(Clone, Copy, Debug)]
pub struct FollowOptions {
    /// How long after a look at the feed comes the next (`[indexer] changes_poll_ms`).
    pub poll_interval: Duration,
    /// A cache that has not seen the feed for so long is not used until it has (`[indexer] changes_unseen_max_ms`).
    pub unseen_max: Duration,
}

impl Default for FollowOptions {
    fn default() -> Self {
        FollowOptions { poll_interval: Duration::from_millis(100), unseen_max: Duration::from_secs(10) }
    }
}

/// Ends with this.
#[derive(Debug)]
pub(super) struct Follower(JoinHandle<()>);

impl Follower {
    pub(super) fn has_ended(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<I: Indexer + Feed> CachedIndexer<I> {
    /// Follows the changes of other processes from now on, where the index is one that is shared. Forgets what is in memory.
    pub async fn follow(&self, options: FollowOptions) -> Result<(), IndexerError> {
        if !self.index.is_shared() {
            return Ok(());
        }
        let caches = Caches {
            metrics: self.metrics.clone(),
            policies: self.policies.clone(),
            resources: self.resources.clone(),
            ends: self.ends.clone(),
            types: self.types.clone(),
        };
        let asked = Instant::now();
        let seen = self.index.latest().await?;
        caches.forget(&Touched::everything());
        let task = tokio::spawn(follow(self.index.clone(), caches, options, Place { seen, at: asked }));
        *self.follower.lock() = Some(Follower(task));
        Ok(())
    }
}

struct Caches {
    metrics: Arc<MetricCache>,
    policies: Arc<PolicyCache>,
    resources: Arc<ResourceCache>,
    ends: Arc<EndCache>,
    types: Arc<TypeCache>,
}

impl Caches {
    fn forget(&self, touched: &Touched) {
        match &touched.metrics {
            Which::All => self.metrics.invalidate_all(),
            Which::These(ids) => {
                let ids: Vec<_> = ids.iter().copied().map(gnudi_model::MetricId).collect();
                self.metrics.invalidate(&ids);
            }
        }
        match &touched.resources {
            Which::All => {
                self.resources.invalidate_all();
                self.ends.0.invalidate_all();
            }
            Which::These(ids) => {
                self.resources.invalidate(ids.iter().copied());
                self.ends.invalidate(ids.iter().copied());
            }
        }
        if touched.policies {
            self.policies.invalidate_all();
        }
        if touched.types {
            self.types.invalidate_all();
        }
    }

    fn shut(&self, is_shut: bool) {
        self.metrics.shut(is_shut);
        self.policies.shut(is_shut);
        self.resources.shut(is_shut);
        self.ends.0.shut(is_shut);
        self.types.shut(is_shut);
    }
}

/// How far the feed was read.
struct Place {
    /// The latest entry that was seen.
    seen: i64,
    /// When that was asked for: all that was committed before is known.
    at: Instant,
}

async fn follow<I: Feed>(index: Arc<I>, caches: Caches, options: FollowOptions, mut place: Place) {
    let mut is_shut = false;
    loop {
        sleep(options.poll_interval).await;
        let asked = Instant::now();
        // While the caches are in use, no look may take longer than they may be.
        let since = if is_shut { asked } else { place.at };
        let looked = timeout_at(since + options.unseen_max, look(&*index, &caches, place.seen)).await;
        match looked {
            Ok(Ok(seen)) => {
                place = Place { seen, at: asked };
                if is_shut {
                    tracing::info!("changes of other processes are seen again");
                    caches.shut(false);
                    is_shut = false;
                }
                continue;
            }
            Ok(Err(error)) => tracing::debug!(%error, "changes of other processes are not seen"),
            Err(_) => tracing::debug!("changes of other processes are not seen in time"),
        }
        if !is_shut && place.at.elapsed() >= options.unseen_max {
            tracing::warn!(
                "no changes of other processes were seen for too long: the index's cache is not used"
            );
            caches.shut(true);
            is_shut = true;
        }
    }
}

/// Forgets what was changed since an entry was seen; returns the latest one.
async fn look<I: Feed>(index: &I, caches: &Caches, mut seen: i64) -> Result<i64, IndexerError> {
    loop {
        let entries = index.entries_from(seen).await?;
        // The entry that was seen comes first, and each number is one more than the one before, unless some were removed, or
        // the database was set back.
        let is_whole = entries.iter().map(|entry| entry.number).eq(seen..seen + entries.len() as i64);
        if entries.is_empty() || !is_whole {
            let latest = index.latest().await?;
            caches.forget(&Touched::everything());
            return Ok(latest);
        }
        let news: Vec<&FeedEntry> = entries.iter().skip(1).collect();
        let Some(last) = news.last() else { return Ok(seen) };
        for entry in &news {
            // One's own were forgotten before they were answered.
            if !entry.is_own {
                caches.forget(&entry.touched);
            }
        }
        seen = last.number;
    }
}
