//! What moving aggregates to another store needs beyond [`AggregateStore`]: a persistent state, and a listing
//! of the metrics in a store.

use async_trait::async_trait;
use gnudi_model::MetricId;
use uuid::Uuid;

use super::{AggregateStore, Result};
use crate::OpenError;

/// State of a shared store, kept in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreState {
    /// Processes read and write it.
    #[default]
    InUse,
    /// The target of an unfinished move.
    Filling,
    /// The source of a move: no longer written.
    Closed,
}

impl StoreState {
    /// The stored name. Stores that are older than this feature have none.
    pub(crate) fn name(self) -> &'static str {
        match self {
            StoreState::InUse => "in_use",
            StoreState::Filling => "filling",
            StoreState::Closed => "closed",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        [StoreState::InUse, StoreState::Filling, StoreState::Closed]
            .into_iter()
            .find(|state| state.name() == name)
    }
}

/// The purpose of opening a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Normal use by a process of the cluster. Creates a missing store; refuses one that is not in use.
    Use,
    /// Likewise, by a cluster that has a store: it must exist.
    UseKnown,
    /// As a move's source; it must exist.
    MoveFrom,
    /// As a move's target; created if missing.
    MoveTo,
}

impl Access {
    /// The state of a store created for this purpose; `None` if it must exist.
    pub(crate) fn new_state(self) -> Option<StoreState> {
        match self {
            Access::Use => Some(StoreState::InUse),
            Access::UseKnown | Access::MoveFrom => None,
            Access::MoveTo => Some(StoreState::Filling),
        }
    }

    /// Why a place without a store cannot be opened for this purpose.
    pub(crate) fn missing(self, place: String) -> OpenError {
        if self == Access::UseKnown {
            OpenError::OtherStore {
                place,
                fault: "holds no aggregates, and this cluster has a store of them",
            }
        } else {
            OpenError::Empty { place }
        }
    }

    /// Whether a store in this state may be opened.
    pub(crate) fn check(self, state: StoreState, place: impl FnOnce() -> String) -> Result<(), OpenError> {
        let is_use = matches!(self, Access::Use | Access::UseKnown);
        match state {
            StoreState::Filling if is_use => Err(OpenError::Filling { place: place() }),
            StoreState::Closed if is_use => Err(OpenError::Closed { place: place() }),
            _ => Ok(()),
        }
    }
}

/// A shared store that can be a move's source or target.
#[async_trait]
pub trait Movable: AggregateStore {
    /// For messages.
    fn place(&self) -> String;

    /// Tells it from other stores of the cluster. A store without one gets one, which it keeps.
    async fn identity(&self) -> Result<Uuid>;

    /// Reads the current state from the store.
    async fn state(&self) -> Result<StoreState>;

    /// Durable once it returns. Processes that have the store open do not notice: the fence stops them.
    async fn set_state(&self, state: StoreState) -> Result<()>;

    /// The metrics that have a head, unordered.
    async fn list_metrics(&self) -> Result<Vec<MetricId>>;
}
