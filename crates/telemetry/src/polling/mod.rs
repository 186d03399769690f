//! The polling agent: asks hypervisors and services at intervals, and hands what they say on as samples.
//!
//! [`source`] says what is asked and how often, [`discovery`] of what, [`pollster`] how; [`agent`] runs it all. What a cycle
//! learns is shared by its pollsters ([`cycle`]); several agents share the resources ([`partition`]). [`names`] gives samples the
//! names of their users and projects.

pub mod agent;
pub mod central;
pub mod cloud;
pub mod compute;
pub mod cycle;
pub mod discovery;
pub mod dynamic;
pub mod figures;
mod group_expression;
pub mod names;
pub mod notifier;
pub mod outlet;
pub mod partition;
pub mod pollster;
pub mod resource;
pub mod source;
