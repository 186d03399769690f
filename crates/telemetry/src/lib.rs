//! Collects measures and posts them to the store, over HTTP like anybody else.
//!
//! `host` measures the machine that gnudi runs on.

pub mod host;
