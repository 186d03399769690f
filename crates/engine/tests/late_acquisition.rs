//! An acquisition without an answer, which takes effect after its sacks were released.

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
use gnudi_engine::Metricd;
use gnudi_model::Sack;
use parking_lot::Mutex;
use support::{Cluster, options, wait::until};

/// Long enough for a session to outlive a slow machine.
const LEASE: Duration = Duration::from_secs(2);
const SACKS: u16 = 16;

/// A process's coordinator, which at first keeps acquisitions instead of passing them on.
struct Late {
    inner: Arc<MemoryCoordinator>,
    keeps: AtomicBool,
    kept: Mutex<Option<(Session, Vec<Sack>)>>,
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
        if self.keeps.load(Ordering::SeqCst) {
            *self.kept.lock() = Some((session, sacks.to_vec()));
            return Err(CoordinationError::Unavailable("the request is late".to_owned()));
        }
        self.inner.acquire(session, sacks).await
    }

    async fn release(&self, session: Session, sacks: &[Sack]) -> Result<(), CoordinationError> {
        self.inner.release(session, sacks).await
    }

    async fn ownerships(&self) -> Result<Vec<Ownership>, CoordinationError> {
        self.inner.ownerships().await
    }

    async fn advance_tokens(&self, past: u64) -> Result<(), CoordinationError> {
        self.inner.advance_tokens(past).await
    }
}

/// Starts a process; returns it with its coordinator.
fn start(cluster: &Cluster, name: &str) -> (Metricd, Arc<Late>) {
    let coordinator = Arc::new(Late {
        inner: cluster.coordinator.clone(),
        keeps: AtomicBool::new(true),
        kept: Mutex::default(),
    });
    let engine = cluster.engine_on(cluster.incoming.clone(), cluster.store.clone(), coordinator.clone());
    (Metricd::start(engine, &options(name, LEASE)), coordinator)
}

#[tokio::test]
async fn sacks_that_are_acquired_late_are_released_again() {
    let cluster = Cluster::new(1, SACKS).await;
    let owned = async || cluster.coordinator.ownerships().await.unwrap();
    let (one, of_one) = start(&cluster, "one");
    until("an acquisition is under way", async || of_one.kept.lock().is_some()).await;
    of_one.keeps.store(false, Ordering::SeqCst);
    until("one has all sacks", async || owned().await.len() == usize::from(SACKS)).await;

    let (two, of_two) = start(&cluster, "two");
    until("two asks for its share", async || of_two.kept.lock().is_some()).await;
    let (session, all) = of_one.kept.lock().take().expect("it was kept");
    assert_eq!(all.len(), usize::from(SACKS));
    cluster.coordinator.acquire(session, &all).await.expect("the session lives");
    assert_eq!(owned().await.len(), usize::from(SACKS));

    of_two.keeps.store(false, Ordering::SeqCst);
    until("two has its share", async || owned().await.iter().any(|owned| owned.session != session)).await;
    one.stop().await;
    two.stop().await;
}
