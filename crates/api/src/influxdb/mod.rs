//! InfluxDB's write API: the line protocol, and the query that creates a database.
//!
//! `line` parses lines, `query` the query; `routes::influxdb` maps them to resources and metrics.

pub mod line;
pub mod query;

pub use line::{Line, Precision};
