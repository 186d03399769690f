//! What Prometheus' clients ask.

mod otlp;
mod remote_write;
mod write;

pub use otlp::metrics as otlp_metrics;
pub use remote_write::remote_write;
pub use write::write;
