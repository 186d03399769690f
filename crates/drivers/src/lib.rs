//! Drivers: where measures wait (`incoming`), where aggregates lie (`aggregates`).
//!
//! Each folder's `mod.rs` is the trait; each other file or folder is one backend. A driver exists once the suite in
//! `conformance` passes on it. Drivers move bytes and never decode points.

pub mod aggregates;
pub mod conformance;
pub mod data_dir;
pub mod disk;
mod error;
pub mod incoming;
mod quarantine;
mod segments;

pub use error::OpenError;
