//! The polling agent: asks hypervisors and services at intervals, and hands what they say on as samples.
//!
//! [`source`] says what is asked and how often, [`discovery`] of what, [`pollster`] how; [`agent`] runs it all. What a cycle
//! learns is shared by its pollsters ([`cycle`]); several agents share the resources ([`partition`]). [`names`] gives samples the
//! names of their users and projects. [`command`] runs the commands that some
//! pollsters need; [`exporter`] and [`heartbeat`] show what was polled, and when.

pub mod agent;
pub mod central;
pub mod cloud;
mod command;
pub mod compute;
pub mod cycle;
pub mod discovery;
pub mod dynamic;
pub mod exporter;
pub mod figures;
mod group_expression;
pub mod heartbeat;
pub mod ipmi;
pub mod local_node;
pub mod names;
pub mod notifier;
pub mod outlet;
pub mod partition;
pub mod pollster;
pub mod resource;
pub mod source;
