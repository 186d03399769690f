//! What moving aggregates to another store needs beyond [`AggregateStore`]: a persistent state, and a listing
//! of the metrics in a store.

use async_trait::async_trait;
use gnudi_model::MetricId;

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
            Access::MoveFrom => None,
            Access::MoveTo => Some(StoreState::Filling),
        }
    }

    /// Whether a store in this state may be opened.
    pub(crate) fn check(self, state: StoreState, place: impl FnOnce() -> String) -> Result<(), OpenError> {
        match state {
            StoreState::Filling if self == Access::Use => Err(OpenError::Filling { place: place() }),
            StoreState::Closed if self == Access::Use => Err(OpenError::Closed { place: place() }),
            _ => Ok(()),
        }
    }
}

/// A shared store that can be a move's source or target.
#[async_trait]
pub trait Movable: AggregateStore {
    /// For messages.
    fn place(&self) -> String;

    /// Reads the current state from the store.
    async fn state(&self) -> Result<StoreState>;

    /// Durable once it returns. Processes that have the store open do not notice: the fence stops them.
    async fn set_state(&self, state: StoreState) -> Result<()>;

    /// The metrics that have a head, unordered.
    async fn list_metrics(&self) -> Result<Vec<MetricId>>;
}
