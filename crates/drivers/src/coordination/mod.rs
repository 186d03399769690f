//! Coordination: membership, and leases on sacks.
//!
//! A process joins with a session, which it must renew. It may own sacks, each with a token; when its session
//! ends or expires, all its sacks are free. Tokens grow with each ownership, over all sacks, and serve as
//! [`Fence`](crate::fence::Fence): the coordinator alone cannot stop a suspended process from writing, but
//! the store can. Which sacks a process should own is decided elsewhere.

pub mod etcd;
pub mod memory;
pub mod redis;
pub mod sql;
pub mod tooz;

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use gnudi_model::{Fault, Sack};

/// A process's membership, from its `join` to its end; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub u64);

/// A process that is considered alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub session: Session,
    /// Host and process, such as `node1.4711`: unique.
    pub name: String,
    /// Information for display: a JSON object.
    pub about: String,
}

/// An owned sack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    pub sack: Sack,
    pub session: Session,
    pub token: u64,
}

/// The owners of sacks, with their tokens.
type Owners = HashMap<Sack, (Session, u64)>;

/// Those of the sacks that nobody owns, without duplicates.
fn free_of(sacks: &[Sack], owners: &Owners) -> Vec<Sack> {
    let mut free: Vec<Sack> = sacks.iter().filter(|sack| !owners.contains_key(sack)).copied().collect();
    free.sort_unstable();
    free.dedup();
    free
}

/// The session's token of each sack; `None` if it does not own it.
fn tokens_of(session: Session, sacks: &[Sack], owners: &Owners) -> Vec<Option<u64>> {
    let token = |sack| owners.get(sack).filter(|(owner, _)| *owner == session).map(|(_, token)| *token);
    sacks.iter().map(token).collect()
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoordinationError {
    /// The session expired: it was not renewed in time, and its sacks are free. Join again.
    #[error("the session is over: it was not renewed in time")]
    Expired,
    /// The coordinator does not respond, for now. The request may have taken effect.
    #[error("the coordinator does not answer: {0}")]
    Unavailable(String),
}

/// Uses the coordinator's clock: those of the processes may differ.
#[async_trait]
pub trait Coordinator: Send + Sync + 'static {
    /// A fault of this client itself, beyond single failed calls.
    fn fault(&self) -> Option<Fault> {
        None
    }

    /// Begins a session that expires unless renewed within `ttl`. Ends the session of a member with the same
    /// name: an earlier run of this process.
    async fn join(&self, name: &str, about: &str, ttl: Duration) -> Result<Session, CoordinationError>;

    /// Extends the session by `ttl`, and replaces its information.
    async fn renew(&self, session: Session, about: &str) -> Result<(), CoordinationError>;

    /// Ends the session and frees its sacks; no error if it has ended.
    async fn leave(&self, session: Session) -> Result<(), CoordinationError>;

    /// All members, by name.
    async fn members(&self) -> Result<Vec<Member>, CoordinationError>;

    /// Acquires those of the sacks that are free or already owned by the session; one result for each, in
    /// order: the token, or `None` if another owns it. The token is new, and higher than any before, unless
    /// the session already owned the sack. [`CoordinationError::Expired`] for an ended session. One round
    /// trip, however many sacks.
    async fn acquire(&self, session: Session, sacks: &[Sack]) -> Result<Vec<Option<u64>>, CoordinationError>;

    /// Frees those of the sacks that the session owns. One round trip, however many sacks.
    async fn release(&self, session: Session, sacks: &[Sack]) -> Result<(), CoordinationError>;

    /// All ownerships of live sessions, by sack.
    async fn ownerships(&self) -> Result<Vec<Ownership>, CoordinationError>;

    /// Makes later tokens higher than `past`: a store may hold fences from a coordinator that lost its data.
    async fn advance_tokens(&self, past: u64) -> Result<(), CoordinationError>;
}

/// Decides once, for all processes, which value a name has. For stores without exclusive creation.
#[async_trait]
pub trait Arbiter: Send + Sync + 'static {
    /// Sets the name's value unless it has one; returns its value. Durable.
    async fn claim(&self, name: &str, value: &str) -> Result<String, CoordinationError>;

    /// The names' values, in order. Sees every claim that was acknowledged before.
    async fn claimed(&self, names: &[String]) -> Result<Vec<Option<String>>, CoordinationError>;

    /// Removes the names' values.
    async fn unclaim(&self, names: &[String]) -> Result<(), CoordinationError>;
}
