//! Requests to the object store, with limits, timeouts, and retries where that is safe.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{sync::Semaphore, time::Instant};

use super::{ObjectAggregatesOptions, cache::Cache, damage::Damage};
use crate::{
    aggregates::{Result, StoreError},
    objects::{
        ObjectError, Objects,
        clock::{Clock, Moment},
    },
};

/// Attempts of a request that is read-only or idempotent.
const TRIES: u32 = 3;
/// Timeout of a listing, its retries included. Ceph has no index of names: there it reads those of the whole pool.
const LISTING_DEADLINE: Duration = Duration::from_mins(10);

/// Shared by all calls of a store.
pub struct Requests {
    pub objects: Arc<dyn Objects>,
    pub options: ObjectAggregatesOptions,
    pub cache: Cache,
    pub counters: Counters,
    pub damage: Arc<Damage>,
    clock: Arc<dyn Clock>,
    running: Semaphore,
    /// Listings apart: they may take long, and other requests must not wait for them.
    listing: Semaphore,
    pub large_merges: Semaphore,
}

#[derive(Default)]
pub struct Counters {
    pub requests: AtomicU64,
    pub request_us: AtomicU64,
    pub written_bytes: AtomicU64,
    pub merged_bytes: AtomicU64,
    pub merges: AtomicU64,
}

impl Requests {
    pub fn new(objects: Arc<dyn Objects>, options: ObjectAggregatesOptions, clock: Arc<dyn Clock>) -> Self {
        Self {
            damage: Arc::new(Damage::new(objects.clone())),
            objects,
            cache: Cache::new(options.cache_bytes_max),
            running: Semaphore::new(options.requests_max),
            listing: Semaphore::new(options.requests_max),
            large_merges: Semaphore::new(options.large_merges_max.max(1)),
            options,
            clock,
            counters: Counters::default(),
        }
    }

    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    pub async fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.again(|| self.once(self.objects.get(name))).await
    }

    pub async fn get_range(&self, name: &str, start: u64, length: u64) -> Result<Option<Bytes>> {
        self.again(|| self.once(self.objects.get_range(name, start, length))).await
    }

    pub async fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let listing = self.again(|| self.with_room(&self.listing, self.objects.list(prefix)));
        let listed = tokio::time::timeout(LISTING_DEADLINE, listing).await;
        listed.unwrap_or_else(|_| Err(self.failure(late(LISTING_DEADLINE))))
    }

    pub async fn put(&self, name: &str, bytes: &Bytes) -> Result<()> {
        self.again(|| self.once(self.objects.put(name, bytes.clone()))).await
    }

    pub async fn remove(&self, names: &[String]) -> Result<()> {
        self.again(|| self.once(self.objects.delete(names))).await
    }

    /// Without retries: it may have taken effect although the result is [`ObjectError::Unavailable`].
    pub async fn create_object(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        self.once(self.objects.create(name, bytes)).await
    }

    async fn again<T, F: Future<Output = Result<T, ObjectError>>>(
        &self,
        request: impl Fn() -> F,
    ) -> Result<T> {
        let mut pause = Duration::from_millis(self.options.retry_pause_ms);
        for _ in 1..TRIES {
            match request().await {
                Err(ObjectError::Unavailable(_)) => tokio::time::sleep(pause).await,
                answer => return answer.map_err(|error| self.failure(error)),
            }
            pause *= 2;
        }
        request().await.map_err(|error| self.failure(error))
    }

    async fn once<T>(&self, request: impl Future<Output = Result<T, ObjectError>>) -> Result<T, ObjectError> {
        let deadline = Duration::from_millis(self.options.deadline_ms);
        // The time begins with the request.
        let in_time = async { tokio::time::timeout(deadline, request).await };
        self.with_room(&self.running, in_time).await.unwrap_or_else(|_| Err(late(deadline)))
    }

    /// Makes a request once there is room for it.
    async fn with_room<F: Future>(&self, room: &Semaphore, request: F) -> F::Output {
        let _running = room.acquire().await.expect("never closed");
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        let outcome = request.await;
        self.counters.request_us.fetch_add(began.elapsed().as_micros() as u64, Ordering::Relaxed);
        outcome
    }

    pub fn failure(&self, error: ObjectError) -> StoreError {
        let place = self.objects.place();
        match error {
            ObjectError::NoSpace(reason) => StoreError::NoSpace(format!("{place}: {reason}")),
            ObjectError::Unavailable(reason) => StoreError::Unavailable(format!("{place}: {reason}")),
            error @ (ObjectError::Refused(_) | ObjectError::Exists(_)) => {
                StoreError::Io(format!("{place}: {error}"))
            }
        }
    }
}

fn late(deadline: Duration) -> ObjectError {
    ObjectError::Unavailable(format!("no answer within {} s", deadline.as_secs_f32()))
}
