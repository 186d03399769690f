//! Figures of this machine: processor, load, memory, disks, network, read from `/proc` and posted at intervals.
//!
//! `reading` parses (pure), `collector` reads, caches metric ids and posts. Metrics have the names of Ceilometer's host
//! meters (`hardware.*`), followed by the device name if there is one.

mod collector;
mod reading;

pub use collector::{Collector, CollectorOptions};
pub use reading::{Counters, Reading};
