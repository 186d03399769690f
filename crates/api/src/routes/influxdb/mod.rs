//! `/v1/influxdb`: what clients of InfluxDB 1 call to write. A database is a resource type, a tag names the resource.

mod ping;
mod query;
mod write;

pub use ping::ping;
pub use query::query;
pub use write::write;
