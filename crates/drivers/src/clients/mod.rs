//! Connections to shared engines, for the drivers that lie on them: one folder for each engine.
//!
//! What is kept there, and how, the drivers know.

pub mod redis;
