//! Drivers: where measures wait (`incoming`), where aggregates are stored (`aggregates`), who owns which sack
//! (`coordination`).
//!
//! Each of these folders has the trait in its `mod.rs`; beside it are the backends, and what they share. Every driver
//! passes the suite in `conformance`. Drivers move bytes and never decode points. `objects` are object stores (Ceph,
//! S3, Swift, a shared file system); measures and aggregates have one layout on all of them.
//!
//! `backup`, `transfer` and `verify` work on whole stores.

pub mod aggregates;
pub mod backup;
pub mod clients;
pub mod conformance;
pub mod coordination;
pub mod data_dir;
pub mod disk;
mod error;
mod fence;
mod figure;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod incoming;
pub mod objects;
pub mod owner;
mod quarantine;
mod read_buffer;
pub mod reserve;
mod segments;
mod tasks;
pub mod transfer;
pub mod verify;

pub use error::{OpenError, stopping};
pub use figure::{Figure, FigureValue};
