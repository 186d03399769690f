//! Excludes a second import into the same shared stores, by a lease that a task renews. An embedded store has the
//! lock of its directory instead.
//!
//! An import looks at its lease before and after each round: a round that has begun goes on. So two imports write at a time
//! if one alone does not reach the coordinator for longer than the lease, during a long round.

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
    sync::{Mutex, watch},
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
    /// When the last renewal that succeeded was begun.
    renewed: watch::Receiver<Instant>,
    renewal: JoinHandle<()>,
}

impl ImportLock {
    /// Waits for the lease of a killed import to expire. `None` if another import is running.
    pub async fn take(coordinator: Arc<dyn Coordinator>) -> Result<Option<Self>, CoordinationError> {
        let name = format!("import.{}", Uuid::new_v4().simple());
        let session = coordinator.join(&name, ABOUT, TTL).await?;
        let mut lease = Lease { coordinator, name, session };
        let deadline = Instant::now() + TTL + RENEWAL;
        let mut asked = Instant::now();
        while !lease.hold().await? {
            if Instant::now() >= deadline {
                lease.leave().await;
                return Ok(None);
            }
            sleep(PAUSE).await;
            asked = Instant::now();
        }
        let (renews, renewed) = watch::channel(asked);
        let (lease, is_lost) = (Arc::new(Mutex::new(lease)), Arc::new(AtomicBool::new(false)));
        let renewal = tokio::spawn(renew(Arc::clone(&lease), Arc::clone(&is_lost), renews));
        Ok(Some(Self { lease, is_lost, renewed, renewal }))
    }

    /// Whether another import has begun: this process was suspended, or did not reach the coordinator.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Relaxed)
    }

    /// Whether another import may have begun, since the coordinator has not answered this one for the length of the lease.
    pub fn is_in_doubt(&self) -> bool {
        self.renewed.borrow().elapsed() >= TTL
    }

    pub async fn release(self) {
        self.renewal.abort();
        self.lease.lock().await.leave().await;
    }
}

async fn renew(lease: Arc<Mutex<Lease>>, is_lost: Arc<AtomicBool>, renews: watch::Sender<Instant>) {
    loop {
        sleep(RENEWAL).await;
        let asked = Instant::now();
        match lease.lock().await.hold().await {
            Ok(true) => {
                renews.send_replace(asked);
            }
            Ok(false) => is_lost.store(true, Relaxed),
            // See `is_in_doubt`: it may be this process alone that does not reach the coordinator.
            Err(_) => {}
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
        assert!(first.is_in_doubt() && !second.is_in_doubt());
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
        assert!(!third.is_lost() && !third.is_in_doubt());
    }
}
