//! Tests as data, in the format of Prometheus' `promqltest`: `file` reads it, `run` evaluates and compares.

#![allow(dead_code, reason = "each test uses a part")]

pub mod file;
pub mod run;
