//! The effects of an engine's outage on a coordinator.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::{
    fmt::Debug,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use gnudi_drivers::{
    OpenError,
    coordination::{CoordinationError, Coordinator, Session},
};
use gnudi_model::{Sack, SackCount};

use crate::server::Server;

pub fn is_unavailable<T: Debug>(answer: &Result<T, CoordinationError>) {
    assert!(matches!(answer, Err(CoordinationError::Unavailable(why)) if !why.is_empty()), "{answer:?}");
}

/// The engine's clock was half an hour ahead, and is set right. `set_ahead` puts off the end of the first one's session.
pub async fn clock_goes_back(
    one: &dyn Coordinator,
    other: &dyn Coordinator,
    set_ahead: impl FnOnce(Session),
) {
    let sacks: Vec<Sack> = SackCount::DEFAULT.sacks().collect();
    let a = one.join("a", "{}", Duration::from_mins(10)).await.unwrap();
    let b = other.join("b", "{}", Duration::from_mins(10)).await.unwrap();
    let before = one.acquire(a, &sacks).await.unwrap();
    set_ahead(a);
    // The first process is gone.
    other.renew(b, "{}").await.unwrap();
    assert_eq!(other.members().await.unwrap().len(), 1);
    assert!(other.ownerships().await.unwrap().is_empty());
    let after = other.acquire(b, &sacks).await.unwrap();
    assert!(after.iter().min() > before.iter().max(), "{after:?} after {before:?}");
    assert_eq!(one.renew(a, "{}").await, Err(CoordinationError::Expired));
}

/// What a process held before the outage.
pub struct Held {
    pub session: Session,
    pub sacks: Vec<Sack>,
    pub tokens: Vec<Option<u64>>,
}

/// Calls to a hanging engine fail `within` this time and succeed once it goes on; calls to a dead one fail. It is
/// started again.
pub async fn outage<C: Coordinator>(
    one: &C,
    server: &mut Server,
    within: Duration,
    open: impl AsyncFn() -> Result<Arc<C>, OpenError>,
) -> Held {
    let sacks: Vec<Sack> = SackCount::DEFAULT.sacks().collect();
    let session = one.join("a", "{}", Duration::from_mins(10)).await.unwrap();
    let tokens = one.acquire(session, &sacks).await.unwrap();
    server.pause();
    let asked = Instant::now();
    join_all((0..10).map(|_| one.renew(session, "{}"))).await.iter().for_each(is_unavailable);
    assert!(asked.elapsed() < within, "{:?}", asked.elapsed());
    server.resume();
    one.renew(session, "{}").await.unwrap();
    assert_eq!(one.acquire(session, &sacks).await.unwrap(), tokens);
    server.stop();
    is_unavailable(&one.acquire(session, &sacks).await);
    assert!(matches!(open().await, Err(OpenError::Engine { .. })));
    server.start_again();
    Held { session, sacks, tokens }
}
