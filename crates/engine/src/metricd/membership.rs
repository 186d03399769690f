//! This process's membership: joins, renews in time, and tracks by its own clock how long its leases are
//! valid.
//!
//! Owns nothing: see `ownership`.

use std::{sync::Arc, time::Duration};

use gnudi_drivers::coordination::{CoordinationError, Coordinator, Session};
use tokio::time::{Instant, timeout};

use crate::outage::Outage;

/// A lease counts as valid for this part of its duration after the last renewal, so that clocks may differ in
/// speed.
const VALID_PART: f64 = 0.8;
/// Renewals within a lease's duration.
const RENEWALS: u32 = 3;

pub(crate) struct Membership {
    pub coordinator: Arc<dyn Coordinator>,
    pub name: String,
    pub lease: Duration,
    pub outage: Outage,
    life: Option<Life>,
}

/// A session, and the time just before its last successful renewal.
#[derive(Clone, Copy, Debug)]
struct Life {
    session: Session,
    renewed: Instant,
}

/// The result of keeping the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It continues.
    Same(Session),
    /// It is new: all earlier ownerships are lost.
    New(Session),
}

impl Membership {
    pub fn new(coordinator: Arc<dyn Coordinator>, name: String, lease: Duration) -> Self {
        Membership { coordinator, name, lease, outage: Outage::new("the coordinator"), life: None }
    }

    /// The interval between renewals.
    pub fn renewal_delay(&self) -> Duration {
        self.lease / RENEWALS
    }

    /// The end of the leases' validity.
    pub fn valid_until(&self) -> Option<Instant> {
        self.life.map(|life| life.renewed + self.lease.mul_f64(VALID_PART))
    }

    /// How long until the session must be renewed; zero without a session.
    pub fn due_in(&self) -> Duration {
        let due = self.life.map(|life| life.renewed + self.renewal_delay());
        due.map_or(Duration::ZERO, |due| due.saturating_duration_since(Instant::now()))
    }

    /// Drops the session: the next [`Membership::keep`] begins another.
    pub fn forget(&mut self) {
        self.life = None;
    }

    /// Renews the session if due, or begins one.
    pub async fn keep(&mut self, about: &str) -> Result<Kept, CoordinationError> {
        if self.valid_until().is_some_and(|until| Instant::now() >= until) {
            tracing::warn!("the lease could not be renewed in time: all sacks are released");
            self.forget();
        }
        if let Some(Life { session, .. }) = self.life {
            let renewed = Instant::now();
            match self.within(self.coordinator.renew(session, about)).await {
                Err(CoordinationError::Expired) => {
                    tracing::warn!("the lease was not renewed in time: all sacks are lost");
                    self.forget();
                }
                answer => {
                    answer?;
                    self.life = Some(Life { session, renewed });
                    return Ok(Kept::Same(session));
                }
            }
        }
        let renewed = Instant::now();
        let session = self.within(self.coordinator.join(&self.name, about, self.lease)).await?;
        self.life = Some(Life { session, renewed });
        Ok(Kept::New(session))
    }

    /// Ends the session, so that others need not wait for its expiry.
    pub async fn leave(&mut self) {
        if let Some(Life { session, .. }) = self.life.take()
            && let Err(error) = self.within(self.coordinator.leave(session)).await
        {
            tracing::warn!(%error, "the session at the coordinator could not be ended");
        }
    }

    /// Applies a timeout of one renewal interval.
    pub async fn within<T>(
        &self,
        call: impl Future<Output = Result<T, CoordinationError>>,
    ) -> Result<T, CoordinationError> {
        let limit = self.renewal_delay();
        let late = |_| CoordinationError::Unavailable(format!("no answer for {} s", limit.as_secs_f64()));
        timeout(limit, call).await.map_err(late)?
    }
}
