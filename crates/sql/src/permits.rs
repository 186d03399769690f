//! The limit of open connections. Searches, which may be slow, leave one to look-ups: otherwise these wait for them.

use std::sync::Arc;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

#[derive(Debug)]
pub(crate) struct Permits {
    connections: Arc<Semaphore>,
    searches: Arc<Semaphore>,
    connections_max: u32,
}

/// For one connection, and of a search also its part of what searches may use.
pub(crate) type Permit = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

impl Permits {
    /// With a single connection there is none to leave.
    pub fn new(connections_max: u32) -> Self {
        let connections_max = connections_max.max(1);
        let semaphore = |count: u32| Arc::new(Semaphore::new(count as usize));
        let searches = semaphore((connections_max - 1).max(1));
        Permits { connections: semaphore(connections_max), searches, connections_max }
    }

    pub async fn acquire(&self, is_search: bool) -> Result<Permit, AcquireError> {
        let of_search = if is_search { Some(self.searches.clone().acquire_owned().await?) } else { None };
        Ok((self.connections.clone().acquire_owned().await?, of_search))
    }

    /// Fails all waiting and later requests for a permit.
    pub fn close(&self) {
        self.searches.close();
        self.connections.close();
    }

    /// [`Permits::close`] once nobody has a permit.
    pub async fn close_when_free(&self) {
        let all = self.connections.acquire_many(self.connections_max).await;
        self.close();
        drop(all);
    }
}
