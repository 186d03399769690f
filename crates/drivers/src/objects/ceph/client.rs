//! A client of the cluster, which is replaced once the cluster has blocklisted it.
//!
//! A cluster refuses whatever a blocklisted client sends, for an hour by default, and the client never recovers by itself.
//! The cluster takes a new client in the same process for a different one. Blocklists exist to stop the writes of processes
//! that were replaced; here fences do that, so a new client is safe. If the whole address is blocklisted, new clients are
//! refused, too.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use gnudi_rados::Error;
use parking_lot::Mutex;

/// Minimum time between the beginnings of two replacements, for the case that new clients are refused, too.
pub(super) const PAUSE: Duration = Duration::from_secs(5);
/// Interval of checking whether the former client is still in use.
const LOOK_DELAY: Duration = Duration::from_millis(10);

/// Opens a client; blocks.
type Opener<P> = Box<dyn Fn() -> Result<P, String> + Send + Sync>;

/// The clients of a store, one at a time. `P` is the type of a client.
pub(super) struct Clients<P> {
    place: String,
    pause: Duration,
    open: Opener<P>,
    current: Mutex<Current<P>>,
}

struct Current<P> {
    client: Arc<P>,
    number: u64,
    is_opening: bool,
    /// When the last replacement began.
    began: Option<Instant>,
}

/// An error, and the number of the client that got it.
pub(super) struct Failed {
    pub error: Error,
    pub client: u64,
}

impl<P: Send + Sync + 'static> Clients<P> {
    /// Opens the first one; blocks. `place` is for the log, `pause` the minimum time between two replacements.
    pub(super) fn open(
        place: String,
        pause: Duration,
        open: impl Fn() -> Result<P, String> + Send + Sync + 'static,
    ) -> Result<Arc<Self>, String> {
        let client = Arc::new(open()?);
        let current = Mutex::new(Current { client, number: 0, is_opening: false, began: None });
        Ok(Arc::new(Clients { place, pause, open: Box::new(open), current }))
    }

    /// The current client and its number. Dropping the last reference blocks, so keep it only where that may, or while an
    /// operation is submitted.
    pub(super) fn current(&self) -> (Arc<P>, u64) {
        let current = self.current.lock();
        (Arc::clone(&current.client), current.number)
    }

    /// Begins to replace a refused client, unless that has been done, is being done, or was tried just now. Must be called
    /// within a Tokio runtime.
    pub(super) fn replace(self: &Arc<Self>, refused: u64) {
        {
            let mut current = self.current.lock();
            let is_early = current.began.is_some_and(|began| began.elapsed() < self.pause);
            if current.number != refused || current.is_opening || is_early {
                return;
            }
            current.is_opening = true;
            current.began = Some(Instant::now());
        }
        tracing::warn!("{}: the cluster has blocklisted this client: opening another one", self.place);
        let clients = Arc::clone(self);
        tokio::task::spawn_blocking(move || clients.open_next());
    }

    /// Blocks.
    fn open_next(&self) {
        let opened = (self.open)();
        let former = {
            let mut current = self.current.lock();
            current.is_opening = false;
            match opened {
                Ok(client) => {
                    current.number += 1;
                    std::mem::replace(&mut current.client, Arc::new(client))
                }
                // The next refused operation tries again.
                Err(reason) => {
                    drop(current);
                    tracing::warn!("{}: no other client can be opened: {reason}", self.place);
                    return;
                }
            }
        };
        tracing::info!("{}: another client is open", self.place);
        // Dropping the last reference waits for operations and closes connections: do it on this thread, not on one that
        // serves requests.
        while Arc::strong_count(&former) > 1 {
            std::thread::sleep(LOOK_DELAY);
        }
        drop(former);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Clients that count how many are opened and closed; some cannot be opened.
    #[derive(Clone, Default)]
    struct Cluster {
        tried: Arc<AtomicU32>,
        closed: Arc<AtomicU32>,
    }

    struct Client(Arc<AtomicU32>);

    impl Drop for Client {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Cluster {
        /// The one with the number `missing` cannot be opened.
        fn clients(&self, pause: Duration, missing: u32) -> Arc<Clients<Client>> {
            let cluster = self.clone();
            let open = move || {
                if cluster.tried.fetch_add(1, Ordering::SeqCst) == missing {
                    return Err("the cluster is down".to_owned());
                }
                Ok(Client(cluster.closed.clone()))
            };
            Clients::open("ceph".to_owned(), pause, open).unwrap()
        }

        fn tried(&self) -> u32 {
            self.tried.load(Ordering::SeqCst)
        }

        async fn wait_closed(&self, count: u32) {
            while self.closed.load(Ordering::SeqCst) < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    async fn wait_for_number(clients: &Clients<Client>, number: u64) {
        while clients.current().1 < number {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_refused_client_is_replaced_once_and_closed_when_nobody_uses_it() {
        let cluster = Cluster::default();
        let clients = cluster.clients(Duration::ZERO, u32::MAX);
        let (used, number) = clients.current();
        // All requests of the time are refused.
        for _ in 0..20 {
            clients.replace(number);
        }
        wait_for_number(&clients, 1).await;
        clients.replace(number);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!((cluster.tried(), cluster.closed.load(Ordering::SeqCst)), (2, 0));
        drop(used);
        cluster.wait_closed(1).await;
        clients.replace(1);
        wait_for_number(&clients, 2).await;
        cluster.wait_closed(2).await;
    }

    #[tokio::test]
    async fn a_client_that_cannot_be_opened_is_tried_again_and_not_all_the_time() {
        let cluster = Cluster::default();
        let pause = Duration::from_millis(200);
        let clients = cluster.clients(pause, 1);
        let start = Instant::now();
        clients.replace(0);
        while cluster.tried() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        while clients.current().1 == 0 {
            clients.replace(0);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(cluster.tried(), 3);
        assert!(start.elapsed() >= pause, "{:?}", start.elapsed());
        cluster.wait_closed(1).await;
    }
}
