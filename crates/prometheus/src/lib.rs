//! Prometheus' and OpenTelemetry's data formats: the labels of a metric, an index over labels, and the parsers and
//! encoders of requests and responses.
//!
//! No I/O and no clock. Access control is left to the API.

pub mod answer;
pub mod escaped;
pub mod index;
pub mod labels;
pub mod metadata;
pub mod number;
pub mod otlp;
mod protobuf;
pub mod remote_read;
pub mod remote_write;
pub mod times;

pub use protobuf::Malformed;
