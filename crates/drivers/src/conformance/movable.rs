//! The rules of [`Movable`], for a store that outlives its processes.

use std::sync::Arc;

use async_trait::async_trait;
use gnudi_model::MetricId;

use super::aggregates::{apply, head, metric, write};
use crate::{
    OpenError,
    aggregates::{Access, AggregateStore, Fence, Movable, StoreError, StoreState},
};

/// A place for a store, initially empty.
#[async_trait]
pub trait MovableSetup: Send + Sync {
    type Store: Movable;

    async fn open(&self, access: Access) -> Result<Arc<Self::Store>, OpenError>;
}

/// Runs all tests on a driver; each call of `make` must give an empty place.
pub async fn movable<P: MovableSetup>(make: impl AsyncFn() -> P) {
    states_are_kept(&make().await).await;
    metrics_are_listed(&make().await).await;
    stores_have_identities(&make().await, &make().await).await;
}

async fn states_are_kept(place: &impl MovableSetup) {
    for _ in 0..2 {
        assert!(
            matches!(place.open(Access::MoveFrom).await, Err(OpenError::Empty { .. })),
            "nothing to move"
        );
    }
    let store = place.open(Access::MoveTo).await.unwrap();
    assert_eq!(store.state().await.unwrap(), StoreState::Filling);
    assert!(matches!(place.open(Access::Use).await, Err(OpenError::Filling { .. })));
    assert_eq!(place.open(Access::MoveTo).await.unwrap().state().await.unwrap(), StoreState::Filling);
    store.set_state(StoreState::InUse).await.unwrap();
    let user = place.open(Access::Use).await.unwrap();
    assert_eq!(user.state().await.unwrap(), StoreState::InUse);
    assert_eq!(place.open(Access::MoveTo).await.unwrap().state().await.unwrap(), StoreState::InUse);
    store.set_state(StoreState::Closed).await.unwrap();
    assert_eq!(user.state().await.unwrap(), StoreState::Closed);
    assert!(matches!(place.open(Access::Use).await, Err(OpenError::Closed { .. })));
    place.open(Access::MoveFrom).await.unwrap();
}

async fn metrics_are_listed(place: &impl MovableSetup) {
    let store = place.open(Access::Use).await.unwrap();
    let listed = async || {
        let mut metrics: Vec<MetricId> = store.list_metrics().await.unwrap();
        metrics.sort_unstable();
        metrics
    };
    assert!(listed().await.is_empty());
    apply(&*store, (1..=9).map(|id| write(id, "head", &[])).collect()).await;
    for deleted in store.delete(Fence::EVERYTHING, &[metric(2), metric(5), metric(9)]).await {
        deleted.unwrap();
    }
    apply(&*store, vec![write(9, "again", &[])]).await;
    assert_eq!(listed().await, [1, 3, 4, 6, 7, 8, 9].map(metric));
}

async fn stores_have_identities(place: &impl MovableSetup, other: &impl MovableSetup) {
    // What must exist is not made.
    for _ in 0..2 {
        assert!(matches!(place.open(Access::UseKnown).await, Err(OpenError::OtherStore { .. })));
    }
    let store = place.open(Access::Use).await.unwrap();
    let identity = store.identity().await.unwrap();
    assert_eq!(store.identity().await.unwrap(), identity);
    let again = place.open(Access::UseKnown).await.unwrap();
    assert_eq!(again.identity().await.unwrap(), identity);
    assert_ne!(other.open(Access::Use).await.unwrap().identity().await.unwrap(), identity);
    store.set_state(StoreState::Closed).await.unwrap();
    assert_eq!(store.identity().await.unwrap(), identity);
    assert!(matches!(place.open(Access::UseKnown).await, Err(OpenError::Closed { .. })));
}

/// For any store: once closed, it refuses all writes.
pub(super) async fn a_closed_store_takes_nothing(store: &dyn AggregateStore) {
    let later = Fence { token: 1_000_000, ..Fence::EVERYTHING };
    apply(store, vec![write(1, "before", &[])]).await;
    for _ in 0..2 {
        store.raise(Fence::CLOSING).await.unwrap();
    }
    assert!(matches!(store.raise(later).await, Err(StoreError::Closed)));
    for fence in [Fence::EVERYTHING, later] {
        let written = store.write(fence, vec![write(1, "after", &[])]).await.remove(0);
        assert!(matches!(written, Err(StoreError::Closed)), "{written:?}");
        let deleted = store.delete(fence, &[metric(1)]).await.remove(0);
        assert!(matches!(deleted, Err(StoreError::Closed)), "{deleted:?}");
    }
    assert_eq!(head(store, 1).await.as_deref(), Some("before"));
}
