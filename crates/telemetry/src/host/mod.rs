//! This machine's own figures: processor, load, memory, disks, network, read from `/proc` and posted every few seconds.
//!
//! `reading` parses (pure, from text), `collector` reads, remembers metric ids and posts. Metrics carry the names that
//! Ceilometer gives to the meters of hosts (`hardware.*`), with the device's name behind where there is one.

mod collector;
mod reading;

pub use collector::{Collector, CollectorOptions};
pub use reading::{Counters, Reading};
