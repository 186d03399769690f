//! The load generator: drives any server with Gnocchi's API, and reports what it measured and its own limit.
//!
//! `gnudi benchmark` is gnocchiclient's benchmarks on top of it. Starting and comparing servers is left to the program
//! `gnudi-benchmark`, in `bin/`, which uses this library.

pub mod commands;
pub mod context;
pub mod findings;
pub mod format;
pub mod histogram;
pub mod load;
pub mod noop;
mod phase;
pub mod progress;
mod subject;
pub mod target;

pub use commands::Benchmark;
