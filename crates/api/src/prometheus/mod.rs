//! Prometheus' way in: remote write, version 1.0.
//!
//! `inflate` undoes the compression, `write_request` reads the message, `names` says which metric a series is. Whom the
//! metrics belong to, `routes::prometheus` decides. `catalogue` finds series by their labels.

pub mod catalogue;
mod inflate;
pub mod names;
pub mod write_request;

pub use inflate::{inflate, inflated_bytes};
pub use write_request::{NoWriteRequest, Sample, Series};
