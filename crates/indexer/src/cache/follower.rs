//! Polls an index shared with other processes for their changes, and invalidates the caches.

use std::{mem, sync::Arc, time::Duration};

use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout_at},
};

use super::{CachedIndexer, caches::Caches};
use crate::{FeedEntry, Result, SqlIndexer, Touched};

/// How the caches of several processes are kept coherent.
#[derive(Clone, Copy, Debug)]
pub struct FollowOptions {
    /// Interval of polling the feed (`[indexer] changes_poll_ms`).
    pub poll_interval: Duration,
    /// A cache is not used if polling has failed for this long (`[indexer] changes_unseen_max_ms`).
    pub unseen_max: Duration,
}

impl FollowOptions {
    /// How long a cache that is used may lack a change: a poll that fails just before `unseen_max` has passed is followed by
    /// one more, which shuts the cache.
    pub fn lag_max(&self) -> Duration {
        self.unseen_max + self.poll_interval
    }
}

/// Stops when dropped.
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

impl CachedIndexer<SqlIndexer> {
    /// Starts to follow the changes of other processes, if the index is shared. Clears the caches.
    pub async fn follow(&self, options: FollowOptions) -> Result<()> {
        if !self.index.is_shared() {
            return Ok(());
        }
        let asked = Instant::now();
        let seen = self.index.latest().await?;
        self.caches.invalidate(&Touched::everything());
        let place = FeedPosition { seen, at: asked };
        let task = tokio::spawn(follow(self.index.clone(), self.caches.clone(), options, place));
        *self.follower.lock() = Some(Follower(task));
        Ok(())
    }
}

/// A position in the feed.
struct FeedPosition {
    /// The last entry read.
    seen: FeedEntry,
    /// When it was requested: everything committed before is known.
    at: Instant,
}

async fn follow(
    index: Arc<SqlIndexer>,
    caches: Arc<Caches>,
    options: FollowOptions,
    mut place: FeedPosition,
) {
    let (mut is_shut, mut has_failed) = (false, false);
    loop {
        sleep(options.poll_interval).await;
        let asked = Instant::now();
        // While the caches are in use, a poll may not take longer than they may go without.
        let since = if is_shut { asked } else { place.at };
        let looked = timeout_at(since + options.unseen_max, poll(&index, &caches, &place.seen)).await;
        match looked {
            Ok(Ok(seen)) => {
                place = FeedPosition { seen, at: asked };
                if mem::take(&mut has_failed) {
                    // Another primary may answer now. What was read of transactions that it lacks is in no entry,
                    // if they were lost before a poll saw them.
                    forget(&index, &caches);
                }
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
        has_failed = true;
        if !is_shut && place.at.elapsed() >= options.unseen_max {
            tracing::warn!(
                "no changes of other processes were seen for too long: the index's cache is not used"
            );
            caches.shut(true);
            is_shut = true;
        }
    }
}

/// Invalidates everything, after committed changes may have been lost.
fn forget(index: &SqlIndexer, caches: &Caches) {
    index.forget_types();
    caches.invalidate(&Touched::everything());
}

/// Invalidates everything changed since an entry; returns the latest one.
async fn poll(index: &SqlIndexer, caches: &Caches, seen: &FeedEntry) -> Result<FeedEntry> {
    let mut seen = seen.clone();
    loop {
        let mut entries = index.entries_from(seen.number).await?;
        // The known entry comes first. Numbers are contiguous, unless entries were removed, or the database was
        // restored. If a replica without the latest transactions becomes the primary, their numbers are used again.
        let numbers = seen.number..seen.number + entries.len() as i64;
        let is_whole = entries.iter().map(|entry| entry.number).eq(numbers);
        if entries.first() != Some(&seen) || !is_whole {
            let latest = index.latest().await?;
            forget(index, caches);
            return Ok(latest);
        }
        for entry in &entries[1..] {
            // Our own changes, too: one that was committed after its caller had got no answer in time was invalidated
            // too early.
            caches.invalidate(&entry.touched);
        }
        match entries.pop() {
            Some(last) if last.number > seen.number => seen = last,
            _ => return Ok(seen),
        }
    }
}
