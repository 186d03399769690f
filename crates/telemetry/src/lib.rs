//! From the cloud to the store, over HTTP like anybody else: agents that poll and that take notifications, with their
//! definitions, pipelines and publishers, and collectors that take what other programs send.
//!
//! `polling` asks hypervisors and services; `host` measures the machine that gnudi runs on; `statsd` takes values by UDP; `amqp1` takes what collectd publishes;
//! `delivery` posts what these three gather.

pub mod amqp1;
pub mod definitions;
pub mod delivery;
pub mod event;
pub mod events;
pub mod figures;
mod hash;
pub mod host;
pub mod located;
pub mod messaging;
pub mod meters;
pub mod notification;
pub mod pipeline;
pub mod polling;
pub mod publishers;
pub mod sample;
pub mod statsd;
pub mod time;
pub mod wire;
pub mod xml;
pub mod yaml;
