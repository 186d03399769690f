//! Acquisitions and releases without an answer, which take effect after later requests about the same sacks.

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use gnudi_drivers::coordination::{
    CoordinationError, Coordinator, Member, Ownership, Session, memory::MemoryCoordinator,
};
use gnudi_engine::{Engine, Metricd};
use gnudi_model::Sack;
use parking_lot::Mutex;
use support::{
    Cluster, options,
    wait::{found, until},
};

/// Long enough for a session to outlive a slow machine.
const LEASE: Duration = Duration::from_secs(2);
const SACKS: u16 = 16;

/// Requests of one kind: kept while that is set, or passed on.
#[derive(Default)]
struct Requests {
    are_kept: AtomicBool,
    last_kept: Mutex<Option<(Session, Vec<Sack>)>>,
}

impl Requests {
    /// An error if the request is kept.
    fn take(&self, session: Session, sacks: &[Sack]) -> Result<(), CoordinationError> {
        if self.are_kept.load(Ordering::SeqCst) {
            *self.last_kept.lock() = Some((session, sacks.to_vec()));
            return Err(CoordinationError::Unavailable("the request is late".to_owned()));
        }
        Ok(())
    }

    fn keep(&self, are_kept: bool) {
        self.are_kept.store(are_kept, Ordering::SeqCst);
    }

    /// Waits for a request that is kept.
    async fn kept(&self, what: &str) -> (Session, Vec<Sack>) {
        found(what, async || self.last_kept.lock().clone()).await
    }
}

/// A process's coordinator.
struct Late {
    inner: Arc<MemoryCoordinator>,
    acquisitions: Requests,
    releases: Requests,
}

#[async_trait]
impl Coordinator for Late {
    async fn join(&self, name: &str, about: &str, ttl: Duration) -> Result<Session, CoordinationError> {
        self.inner.join(name, about, ttl).await
    }

    async fn renew(&self, session: Session, about: &str) -> Result<(), CoordinationError> {
        self.inner.renew(session, about).await
    }

    async fn leave(&self, session: Session) -> Result<(), CoordinationError> {
        self.inner.leave(session).await
    }

    async fn members(&self) -> Result<Vec<Member>, CoordinationError> {
        self.inner.members().await
    }

    async fn acquire(&self, session: Session, sacks: &[Sack]) -> Result<Vec<Option<u64>>, CoordinationError> {
        self.acquisitions.take(session, sacks)?;
        self.inner.acquire(session, sacks).await
    }

    async fn release(&self, session: Session, sacks: &[Sack]) -> Result<(), CoordinationError> {
        self.releases.take(session, sacks)?;
        self.inner.release(session, sacks).await
    }

    async fn ownerships(&self) -> Result<Vec<Ownership>, CoordinationError> {
        self.inner.ownerships().await
    }

    async fn advance_tokens(&self, past: u64) -> Result<(), CoordinationError> {
        self.inner.advance_tokens(past).await
    }
}

/// Starts a process whose acquisitions are kept or not at first; returns it with its engine and its coordinator.
fn start(cluster: &Cluster, name: &str, are_kept: bool) -> (Metricd, Arc<Engine>, Arc<Late>) {
    let (acquisitions, releases) = Default::default();
    let late = Arc::new(Late { inner: cluster.coordinator.clone(), acquisitions, releases });
    late.acquisitions.keep(are_kept);
    let engine = cluster.engine_on(cluster.incoming.clone(), cluster.store.clone(), late.clone());
    (Metricd::start(engine.clone(), &options(name, LEASE)), engine, late)
}

#[tokio::test]
async fn sacks_that_are_acquired_late_are_released_again() {
    let cluster = Cluster::new(1, SACKS).await;
    let owned = async || cluster.coordinator.ownerships().await.unwrap();
    let (one, _, of_one) = start(&cluster, "one", true);
    let (session, all) = of_one.acquisitions.kept("an acquisition").await;
    of_one.acquisitions.keep(false);
    until("one has all sacks", async || owned().await.len() == usize::from(SACKS)).await;

    let (two, _, of_two) = start(&cluster, "two", true);
    of_two.acquisitions.kept("two asks for its share").await;
    assert_eq!(all.len(), usize::from(SACKS));
    cluster.coordinator.acquire(session, &all).await.expect("the session lives");
    assert_eq!(owned().await.len(), usize::from(SACKS));

    of_two.acquisitions.keep(false);
    until("two has its share", async || owned().await.iter().any(|owned| owned.session != session)).await;
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn sacks_that_are_released_late_are_acquired_again() {
    let cluster = Cluster::new(1, SACKS).await;
    let owned = async || cluster.coordinator.ownerships().await.unwrap();
    let (one, engine, of_one) = start(&cluster, "one", false);
    until("one has all sacks", async || engine.owned().len() == usize::from(SACKS)).await;

    of_one.releases.keep(true);
    let (two, ..) = start(&cluster, "two", false);
    let (session, share) = of_one.releases.kept("one gives two its share").await;
    two.stop().await;
    until("one goes on alone", async || engine.owned().len() == usize::from(SACKS)).await;

    of_one.releases.keep(false);
    cluster.coordinator.release(session, &share).await.unwrap();
    until("one has all sacks again", async || {
        let (owned, opened) = (owned().await, engine.owned());
        owned.len() == usize::from(SACKS)
            && owned.iter().all(|owned| opened.iter().any(|fence| fence.token == owned.token))
    })
    .await;
    one.stop().await;
}
