//! Excludes a second import into the same shared stores, by a lease that a task renews. An embedded store has the
//! lock of its directory instead.

use std::{
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use gnudi_drivers::coordination::{CoordinationError, Coordinator, Session};
use gnudi_model::{Sack, SackCount, SackId};
use tokio::{
    sync::Mutex,
    task::JoinHandle,
    time::{Instant, sleep},
};
use uuid::Uuid;

/// A killed import holds off the next one for this long.
const TTL: Duration = Duration::from_secs(15);
const RENEWAL: Duration = Duration::from_secs(3);
/// Pause between attempts to take the lease of another import.
const PAUSE: Duration = Duration::from_secs(1);

/// Sacks are what coordinators lease. This one only a cluster with the largest count has.
const LEASE: Sack = Sack { count: SackCount(NonZeroU16::MAX), id: SackId(u16::MAX - 1) };

/// An import has no figures to tell.
const ABOUT: &str = "{}";

pub struct ImportLock {
    lease: Arc<Mutex<Lease>>,
    is_lost: Arc<AtomicBool>,
    renewal: JoinHandle<()>,
}

impl ImportLock {
    /// Waits for the lease of a killed import to expire. `None` if another import is running.
    pub async fn take(coordinator: Arc<dyn Coordinator>) -> Result<Option<Self>, CoordinationError> {
        let name = format!("import.{}", Uuid::new_v4().simple());
        let session = coordinator.join(&name, ABOUT, TTL).await?;
        let mut lease = Lease { coordinator, name, session };
        let deadline = Instant::now() + TTL + RENEWAL;
        while !lease.hold().await? {
            if Instant::now() >= deadline {
                lease.leave().await;
                return Ok(None);
            }
            sleep(PAUSE).await;
        }
        let (lease, is_lost) = (Arc::new(Mutex::new(lease)), Arc::new(AtomicBool::new(false)));
        let renewal = tokio::spawn(renew(Arc::clone(&lease), Arc::clone(&is_lost)));
        Ok(Some(Self { lease, is_lost, renewal }))
    }

    /// Whether another import may have begun: this process was suspended, or did not reach the coordinator.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Relaxed)
    }

    pub async fn release(self) {
        self.renewal.abort();
        self.lease.lock().await.leave().await;
    }
}

async fn renew(lease: Arc<Mutex<Lease>>, is_lost: Arc<AtomicBool>) {
    loop {
        sleep(RENEWAL).await;
        // An error passes: while the coordinator does not answer, no other import begins either.
        if let Ok(false) = lease.lock().await.hold().await {
            is_lost.store(true, Relaxed);
        }
    }
}

struct Lease {
    coordinator: Arc<dyn Coordinator>,
    name: String,
    session: Session,
}

impl Lease {
    /// Renews the lease, or takes it again after its end; whether this import has it.
    async fn hold(&mut self) -> Result<bool, CoordinationError> {
        match self.coordinator.renew(self.session, ABOUT).await {
            Err(CoordinationError::Expired) => {
                self.session = self.coordinator.join(&self.name, ABOUT, TTL).await?;
            }
            renewed => renewed?,
        }
        let tokens = self.coordinator.acquire(self.session, &[LEASE]).await?;
        Ok(tokens.into_iter().flatten().next().is_some())
    }

    /// If it fails, the session expires.
    async fn leave(&self) {
        let _ = self.coordinator.leave(self.session).await;
    }
}

#[cfg(test)]
mod tests {
    use gnudi_drivers::coordination::memory::MemoryCoordinator;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_import_runs_at_a_time() {
        let start = Instant::now();
        let coordinator: Arc<dyn Coordinator> = Arc::new(MemoryCoordinator::new(move || start.elapsed()));
        let take = || ImportLock::take(Arc::clone(&coordinator));
        let first = take().await.unwrap().unwrap();
        assert!(take().await.unwrap().is_none(), "the first one renews its lease");
        assert!(!first.is_lost());
        // As if it were killed or suspended.
        first.renewal.abort();
        let second = take().await.unwrap().unwrap();
        assert!(!first.lease.lock().await.hold().await.unwrap());
        first.lease.lock().await.leave().await;
        second.release().await;
        assert!(coordinator.members().await.unwrap().is_empty());
        let before = Instant::now();
        let third = take().await.unwrap().unwrap();
        assert_eq!(before.elapsed(), Duration::ZERO, "the second one has released it");
        // A pause beyond its lease, without another import meanwhile.
        tokio::time::advance(2 * TTL).await;
        sleep(2 * RENEWAL).await;
        assert!(!third.is_lost());
    }
}
