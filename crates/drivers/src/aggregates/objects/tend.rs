//! Tidying up after writes, in the background, one task for a shard at most.

use std::sync::{Arc, atomic::Ordering};

use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::{chain::Shard, requests::Requests};

/// The background tasks of a store.
#[derive(Default)]
pub struct Tending(Mutex<JoinSet<()>>);

impl Tending {
    pub async fn after_write(&self, requests: &Arc<Requests>, shard: &Arc<Shard>) {
        if !shard.tended.swap(true, Ordering::AcqRel) {
            let (requests, shard) = (requests.clone(), shard.clone());
            let mut tasks = self.0.lock();
            while tasks.try_join_next().is_some() {}
            tasks.spawn(async move {
                drop(requests);
                shard.tended.store(false, Ordering::Release);
            });
        }
    }

    pub async fn settle(&self) {
        loop {
            let mut tasks = std::mem::take(&mut *self.0.lock());
            if tasks.is_empty() {
                return;
            }
            while tasks.join_next().await.is_some() {}
        }
    }
}
