//! The coordination suite, for every driver that needs no engine.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use gnudi_drivers::{
    conformance::{CoordinationSetup, arbiter, coordination, log_registry},
    coordination::{
        Coordinator,
        memory::{MemoryArbiter, MemoryCoordinator},
    },
    incoming::registry::MemoryLogRegistry,
};

/// The clock moves only when the suite lets time pass.
async fn setup() -> CoordinationSetup {
    let now_ms = Arc::new(AtomicU64::new(0));
    let clock = now_ms.clone();
    let coordinator: Arc<dyn Coordinator> =
        Arc::new(MemoryCoordinator::new(move || Duration::from_millis(clock.load(Ordering::Relaxed))));
    CoordinationSetup {
        processes: vec![coordinator.clone(), coordinator],
        ttl: Duration::from_millis(10),
        pass: Box::new(move |time| {
            now_ms.fetch_add(time.as_millis() as u64, Ordering::Relaxed);
            Box::pin(std::future::ready(()))
        }),
        ends_late_by: Duration::ZERO,
    }
}

#[tokio::test]
async fn memory_keeps_the_rules() {
    coordination(setup).await;
    arbiter(async || {
        let arbiter = Arc::new(MemoryArbiter::default());
        [arbiter.clone(), arbiter]
    })
    .await;
    let registry = Arc::new(MemoryLogRegistry::default());
    log_registry([registry.clone(), registry]).await;
}
