//! libvirt, as far as gnudi asks hypervisors about their domains, behind a safe face.
//!
//! The library is loaded when it is first needed ([`Libvirt::load`]), so that gnudi is built and runs without it. Connections
//! are read-only. All calls block, some for as long as a hypervisor hangs: they belong on threads of their own.
//!
//! It tells what libvirt tells. What the figures mean, retries and deadlines are its callers' work; nothing is ever changed.

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
