//! librados, Ceph's client library, as far as gnudi uses it, behind a safe face.
//!
//! The library is loaded when it is first needed ([`Librados::load`]), so that gnudi is built and runs without Ceph.
//! Each operation is submitted at once and answers a [`Pending`]: a future, on which a thread may also just wait. Many are in
//! flight from one thread that way; librados's own threads carry them and complete them.
//!
//! It moves bytes. What they mean, retries and batches are its callers' work. There are no snapshots, watches, locks,
//! extended attributes or object classes.

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
