//! The load generator: drives any server that speaks Gnocchi's API, says what it measured, and what it could reach itself.
//!
//! `gnudi benchmark` are gnocchiclient's benchmarks on it. Starting and comparing servers is the job of the program
//! `gnudi-benchmark`, in `bin/`, which is built on this library.

pub mod bordered;
pub mod commands;
pub mod complaint;
pub mod context;
pub mod findings;
pub mod format;
pub mod histogram;
pub mod load;
pub mod noop;
mod phase;
mod progress;
pub mod random;
mod subject;
pub mod target;
pub mod timeline;

pub use commands::Benchmark;
