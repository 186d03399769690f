//! statsd: receives values over UDP, aggregates them between flushes, and posts them as measures.
//!
//! `message` parses datagrams (pure), `aggregator` aggregates (pure; time is an argument), `server` listens and posts.
//! Metrics are called `name|type` and belong to one resource, as in gnocchi-statsd.

mod aggregator;
mod message;
mod server;

pub use aggregator::{Aggregator, AggregatorLimits, ValueCounts};
pub use message::{MalformedLine, StatsdMessage, StatsdValue};
pub use server::{StatsdOptions, StatsdServer};
