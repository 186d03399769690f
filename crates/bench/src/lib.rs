//! The benchmark, `gnudi benchmark`: a load generator that drives any server which speaks Gnocchi's API, the peers to compare
//! with, and reports.
//!
//! A run starts each server with an empty store, gives all of them the same work, and prints what they made of it beside
//! what the generator itself can do (the peer `limit`). It measures, and asserts nothing about speed; it does check
//! that measures which were counted as processed are really there.

mod backlog;
mod body;
mod commands;
mod context;
mod disk;
mod experiments;
mod findings;
mod format;
mod histogram;
mod load;
mod machine;
mod measurement;
mod noop;
mod page;
mod peers;
mod phase;
mod plot;
mod process;
mod progress;
mod rados;
mod results;
mod rows;
mod subject;
mod table;
mod target;
mod timeline;
mod versions;

pub use commands::Benchmark;
