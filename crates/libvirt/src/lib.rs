//! Safe bindings to libvirt, as far as gnudi needs them to read domains.
//!
//! The library is loaded on first use ([`Libvirt::load`]), so that gnudi builds and runs without it. Connections are
//! read-only. All calls block, some for as long as a hypervisor hangs: call them on threads of their own.
//!
//! The bindings return libvirt's data. Interpretation, retries and timeouts are left to callers; nothing is ever
//! modified.

#![expect(unsafe_code, reason = "calls into a C library; each block says why it holds")]
#![warn(clippy::undocumented_unsafe_blocks)]

mod connection;
mod domain;
mod error;
mod library;
mod statistics;

pub use connection::Connection;
pub use domain::{BlockInfo, BlockStatistics, Domain, DomainInfo, InterfaceStatistics, MemoryStatistics};
pub use error::{Error, Result};
pub use library::Libvirt;
pub use statistics::Statistics;
