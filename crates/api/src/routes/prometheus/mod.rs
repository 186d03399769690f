//! `/v1/prometheus`: where Prometheus writes to.

mod write;

pub use write::write;
