//! Collects measures and posts them to the store, over HTTP like anybody else.
//!
//! `host` measures the machine that gnudi runs on; `statsd` takes values by UDP; `amqp1` takes what collectd publishes;
//! `delivery` posts what both of them gather.

pub mod amqp1;
pub mod delivery;
pub mod host;
pub mod statsd;
