//! Who is there, and who owns which sack.
//!
//! A process joins with a session that it must renew. It may own sacks, each with a token; when its session ends or is not
//! renewed in time, whatever it owned is free. Tokens grow from ownership to ownership, over all sacks, and serve as
//! [`Fence`](crate::fence::Fence): the coordinator alone cannot keep a process that was asleep from writing, the store that it writes to
//! can. Which sacks a process should own is not known here.

pub mod etcd;
pub mod memory;
pub mod redis;
pub mod sql;
pub mod tooz;

use std::time::Duration;

use async_trait::async_trait;
use gnudi_model::Sack;

/// A process's membership, from its `join` to its end; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub u64);

/// A process that is alive, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub session: Session,
    /// The host and the process, such as `node1.4711`: unique.
    pub name: String,
    /// What the process says of itself, for others to show: a JSON object.
    pub about: String,
}

/// A sack that somebody owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    pub sack: Sack,
    pub session: Session,
    pub token: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoordinationError {
    /// The session is over: it was not renewed in time, and its sacks are free. Join again.
    #[error("the session is over: it was not renewed in time")]
    Expired,
    /// The coordinator does not answer, for now. Whether it has done what it was asked is not known.
    #[error("the coordinator does not answer: {0}")]
    Unavailable(String),
}

/// Time is the coordinator's own: the clocks of the processes may differ.
#[async_trait]
pub trait Coordinator: Send + Sync + 'static {
    /// Begins a session that ends unless it is renewed within `ttl`. A member of the same name that is still there is another
    /// life of this process: its session ends.
    async fn join(&self, name: &str, about: &str, ttl: Duration) -> Result<Session, CoordinationError>;

    /// Keeps the session for another `ttl`, and replaces what it says of itself.
    async fn renew(&self, session: Session, about: &str) -> Result<(), CoordinationError>;

    /// Ends the session and frees its sacks; no error where it is over.
    async fn leave(&self, session: Session) -> Result<(), CoordinationError>;

    /// Who is there, by name.
    async fn members(&self) -> Result<Vec<Member>, CoordinationError>;

    /// Takes those of the sacks that nobody owns who is alive, or that the session owns already; one answer for each, in order: its
    /// token, or `None` where another owns it. The token is new, and higher than any before, unless the session has owned the sack all
    /// the time. [`CoordinationError::Expired`] for a session that is over. One trip, however many sacks.
    async fn acquire(&self, session: Session, sacks: &[Sack]) -> Result<Vec<Option<u64>>, CoordinationError>;

    /// Frees those of the sacks that the session owns. One trip, however many sacks.
    async fn release(&self, session: Session, sacks: &[Sack]) -> Result<(), CoordinationError>;

    /// All that is owned by somebody who is alive, by sack.
    async fn ownerships(&self) -> Result<Vec<Ownership>, CoordinationError>;

    /// Has later tokens be higher than this one: a store may remember tokens of a coordinator whose data is gone.
    async fn advance_tokens(&self, past: u64) -> Result<(), CoordinationError>;
}

/// Decides, once and for all processes, what a name stands for. For stores that cannot create an object only where there
/// is none.
#[async_trait]
pub trait Arbiter: Send + Sync + 'static {
    /// Has the name stand for the value, unless it stands for another already; returns what it stands for. Durable.
    async fn claim(&self, name: &str, value: &str) -> Result<String, CoordinationError>;

    /// What the names stand for, in order. Sees every claim that was answered before.
    async fn claimed(&self, names: &[String]) -> Result<Vec<Option<String>>, CoordinationError>;

    /// Has the names stand for nothing.
    async fn unclaim(&self, names: &[String]) -> Result<(), CoordinationError>;
}
