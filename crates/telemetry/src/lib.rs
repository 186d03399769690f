//! Collects telemetry of a cloud and posts it to the store over HTTP: polling and notification agents with definitions,
//! pipelines and publishers, and collectors for other programs' data.
//!
//! `polling` polls hypervisors and services; `host` measures this machine; `statsd` receives values over UDP; `amqp1`
//! receives what collectd publishes; `delivery` posts what the last three gather.

pub mod amqp1;
pub mod definitions;
pub mod delivery;
pub mod event;
pub mod events;
pub mod figures;
mod hash;
mod hex;
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
#[cfg(test)]
mod test_server;
pub mod time;
pub mod wire;
pub mod xml;
pub mod yaml;
