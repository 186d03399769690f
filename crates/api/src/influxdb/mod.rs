//! InfluxDB's way in: its line protocol and the one query that creates a database.
//!
//! `line` reads lines, `query` the query; what a line is in terms of resources and metrics, `routes::influxdb` decides.

pub mod line;
pub mod query;

pub use line::{Line, Precision};
