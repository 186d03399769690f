//! What Prometheus' clients ask.

mod write;

pub use write::write;
