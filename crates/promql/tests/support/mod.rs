//! Tests as data, in the format of Prometheus' `promqltest`: `file` reads it, `run` evaluates and compares.

pub mod file;
pub mod run;
