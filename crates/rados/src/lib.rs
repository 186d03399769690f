//! Safe bindings to librados, Ceph's client library, as far as gnudi needs them.
//!
//! The library is loaded on first use ([`Librados::load`]), so that gnudi builds and runs without Ceph. Operations are
//! submitted immediately and return a [`Pending`]: a future, which a thread may also wait for. Many operations of one
//! thread can be in flight; librados' own threads execute and complete them.
//!
//! The bindings transfer bytes. Interpretation, retries and batching are left to callers. There are no snapshots,
//! watches, locks, extended attributes or object classes.

#![expect(unsafe_code, reason = "calls into a C library; each block says why it holds")]
#![warn(clippy::undocumented_unsafe_blocks)]

mod cluster;
mod error;
mod flight;
mod library;
mod list;
mod pool;
mod read;
mod write;

pub use cluster::{Cluster, ConnectOptions};
pub use error::{Error, Result};
pub use flight::Pending;
pub use library::Librados;
pub use pool::Pool;
pub use read::{OmapPage, Stat};
pub use write::WriteOperation;
