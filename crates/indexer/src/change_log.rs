//! Changes of an index, for subscribers in this process that hold a complete copy in another form.
//!
//! A cache only invalidates; a complete copy must read changed items again. So changes are queued for each
//! subscription. They are committed before they are queued, so a later read of the index sees them.

use std::{
    mem,
    sync::{Arc, Weak},
};

use gnudi_model::MetricId;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::{Touched, Which};

/// Maximum queued ids of each kind; beyond it everything counts as changed.
const IDS_WAITING_MAX: usize = 250_000;

/// Changes since the last call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// New metrics. All: possibly any.
    pub created: Which,
    /// Metrics that were changed or deleted.
    pub metrics: Which,
    /// Resources whose fields or attributes were changed.
    pub resources: Which,
}

impl Changes {
    pub fn is_nothing(&self) -> bool {
        *self == Changes::default()
    }

    fn everything() -> Self {
        Changes { created: Which::All, metrics: Which::All, resources: Which::All }
    }

    pub fn merge(&mut self, other: Changes) {
        self.created.merge(other.created, IDS_WAITING_MAX);
        self.metrics.merge(other.metrics, IDS_WAITING_MAX);
        self.resources.merge(other.resources, IDS_WAITING_MAX);
    }
}

/// Queues changes for subscribers.
#[derive(Debug, Default)]
pub struct ChangeLog {
    subscriptions: Mutex<Vec<Weak<Mutex<PendingChanges>>>>,
}

#[derive(Debug, Default)]
struct PendingChanges {
    changes: Changes,
    /// Changes cannot be observed for now.
    is_shut: bool,
}

/// Receives changes.
#[derive(Debug)]
pub struct Subscription(Arc<Mutex<PendingChanges>>);

impl Subscription {
    /// Changes since the last call; everything, repeatedly, while changes of other processes cannot be observed.
    pub fn take(&self) -> Changes {
        let mut waiting = self.0.lock();
        let next = if waiting.is_shut { Changes::everything() } else { Changes::default() };
        mem::replace(&mut waiting.changes, next)
    }

    pub fn has_changes(&self) -> bool {
        !self.0.lock().changes.is_nothing()
    }

    /// Returns changes that could not be processed to the queue.
    pub fn give_back(&self, changes: Changes) {
        self.0.lock().changes.merge(changes);
    }
}

impl ChangeLog {
    /// Subscribes to changes from now on; read the index only afterwards.
    pub fn subscribe(&self) -> Subscription {
        let waiting = Arc::<Mutex<PendingChanges>>::default();
        self.subscriptions.lock().push(Arc::downgrade(&waiting));
        Subscription(waiting)
    }

    pub(crate) fn created(&self, ids: &[MetricId]) {
        self.note(|| Changes { created: these(ids), ..Changes::default() });
    }

    pub(crate) fn metrics(&self, ids: &[MetricId]) {
        self.note(|| Changes { metrics: these(ids), ..Changes::default() });
    }

    pub(crate) fn resources(&self, ids: &[Uuid]) {
        self.note(|| Changes { resources: Which::These(ids.to_vec()), ..Changes::default() });
    }

    pub(crate) fn touched(&self, touched: &Touched) {
        let Touched { created, metrics, attributes, .. } = touched;
        self.note(|| Changes {
            created: created.clone(),
            metrics: metrics.clone(),
            resources: attributes.clone(),
        });
    }

    /// While shut, everything may have changed.
    pub(crate) fn shut(&self, is_shut: bool) {
        self.each(|waiting| {
            waiting.changes = Changes::everything();
            waiting.is_shut = is_shut;
        });
    }

    fn note(&self, changes: impl Fn() -> Changes) {
        self.each(|waiting| waiting.changes.merge(changes()));
    }

    fn each(&self, change: impl Fn(&mut PendingChanges)) {
        self.subscriptions
            .lock()
            .retain(|waiting| waiting.upgrade().map(|waiting| change(&mut waiting.lock())).is_some());
    }
}

fn these(ids: &[MetricId]) -> Which {
    Which::These(ids.iter().map(|id| id.0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(range: std::ops::Range<u128>) -> Vec<MetricId> {
        range.map(|number| MetricId(Uuid::from_u128(number))).collect()
    }

    #[test]
    fn changes_wait_for_each_subscription() {
        let log = ChangeLog::default();
        log.created(&ids(0..1));
        let one = log.subscribe();
        log.created(&ids(1..3));
        let two = log.subscribe();
        log.metrics(&ids(5..6));
        assert!(one.has_changes() && two.has_changes());
        let taken = one.take();
        assert_eq!((taken.created, taken.metrics), (these(&ids(1..3)), these(&ids(5..6))));
        assert_eq!((two.take().created, one.take().is_nothing()), (Which::default(), true));
        drop(one);
        log.touched(&Touched::types());
        assert_eq!(two.take().resources, Which::All);
        assert_eq!(log.subscriptions.lock().len(), 1);
    }

    #[test]
    fn too_many_are_all() {
        let log = ChangeLog::default();
        let one = log.subscribe();
        for start in 0..IDS_WAITING_MAX as u128 / 1000 {
            log.created(&ids(start * 1000..(start + 1) * 1000));
        }
        let taken = one.take();
        assert!(matches!(&taken.created, Which::These(ids) if ids.len() == IDS_WAITING_MAX));
        one.give_back(taken);
        log.created(&ids(0..1));
        assert!(matches!(one.take().created, Which::These(_)), "known");
        log.created(&ids(0..IDS_WAITING_MAX as u128 + 1));
        assert_eq!(one.take().created, Which::All);
    }

    #[test]
    fn everything_may_have_changed_while_it_is_shut() {
        let log = ChangeLog::default();
        let one = log.subscribe();
        log.shut(true);
        assert_eq!((one.take(), one.take()), (Changes::everything(), Changes::everything()));
        log.shut(false);
        assert_eq!((one.take(), one.take()), (Changes::everything(), Changes::default()));
    }
}
