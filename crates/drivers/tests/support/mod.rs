//! Shared by the tests of the durable drivers.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod aggregate_items;
pub mod local;
pub mod log_of_objects;
pub mod proxy;
pub mod random;
pub mod registry;
pub mod sim_disk;
pub mod sim_inode;
pub mod wait;
