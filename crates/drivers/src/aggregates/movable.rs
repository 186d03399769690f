//! What a move of the aggregates to another store needs beyond [`AggregateStore`]: a state that outlives processes, and a listing of
//! the metrics that a store has.

use async_trait::async_trait;
use gnudi_model::MetricId;

use super::{AggregateStore, StoreError};
use crate::OpenError;

/// What a shared store is to its cluster. Kept in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreState {
    /// Processes read and write it.
    #[default]
    InUse,
    /// A move fills it; it is not complete.
    Filling,
    /// It was moved away from: nobody writes it any more.
    Closed,
}

impl StoreState {
    /// As it is stored. Stores that were made before there were moves have none.
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

/// For what a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// By a process of the cluster. The store is made where there is none; one that is not in use is refused.
    Use,
    /// To be moved away from: there must be one.
    MoveFrom,
    /// To be moved to: made where there is none.
    MoveTo,
}

impl Access {
    /// The state of a store that is made for it; `None` where none is to be made.
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

/// A shared store that can be moved from and to.
#[async_trait]
pub trait Movable: AggregateStore {
    /// For messages.
    fn place(&self) -> String;

    /// As the store has it now.
    async fn state(&self) -> Result<StoreState, StoreError>;

    /// Durable once it returns. Processes that have the store open do not learn of it: the fence stops them.
    async fn set_state(&self, state: StoreState) -> Result<(), StoreError>;

    /// The metrics that have a head, in no order.
    async fn list_metrics(&self) -> Result<Vec<MetricId>, StoreError>;
}
