//! statsd: values by UDP, gathered for some seconds and posted as measures.
//!
//! `message` reads datagrams (pure, from bytes), `aggregator` gathers (pure; time is an argument), `server` listens and
//! posts. Metrics are called `name|type` and belong to one resource, as those of gnocchi-statsd.

mod aggregator;
mod message;
mod server;

pub use aggregator::{Aggregator, AggregatorLimits, Taken};
pub use message::{Malformed, Message, StatsdValue};
pub use server::{Server, ServerOptions};
