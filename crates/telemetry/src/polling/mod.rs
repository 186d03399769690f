//! The polling agent: polls hypervisors and services at intervals, and publishes what they report as samples.
//!
//! [`source`] parses the polling file, [`discovery`] finds resources, [`pollster`] measures them; [`agent`] runs all of
//! it. The pollsters of a round share a cache ([`cycle`]); several agents share the resources ([`partition`]).
//! [`names`] adds user and project names to samples. [`command`] runs commands; [`exporter`] and [`heartbeat`] show
//! what was polled, and when.

pub mod agent;
pub mod central;
pub mod cloud;
mod command;
pub mod compute;
pub mod cycle;
pub mod discovery;
pub mod dynamic;
pub mod exporter;
mod group_expression;
pub mod heartbeat;
pub mod ipmi;
pub mod names;
pub mod notifier;
pub mod outlet;
pub mod partition;
pub mod pollster;
pub mod resource;
pub mod source;
