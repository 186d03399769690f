//! Clients of shared engines, for the drivers: one folder per engine.
//!
//! The drivers define what is stored, and how.

pub mod redis;
