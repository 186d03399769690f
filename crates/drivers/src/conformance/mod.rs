//! Conformance suites: the rules that every driver must follow.
//!
//! Each suite takes a function that makes a new, empty driver, and panics with the broken rule. Rules of
//! durable drivers only (restarts, damage, full disks) are tested beside each of them.

mod aggregates;
mod coordination;
mod damaged_aggregates;
mod incoming;
mod log_registry;
mod movable;
mod objects;
mod shared_incoming;

pub use aggregates::aggregates;
pub use coordination::{CoordinationSetup, arbiter, coordination};
pub use damaged_aggregates::{Damageable, damaged_aggregates, hurt};
pub use incoming::{IncomingSetup, incoming};
pub use log_registry::log_registry;
pub use movable::{MovableSetup, movable};
pub use objects::objects;
pub use shared_incoming::shared_incoming;
