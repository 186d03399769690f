//! Series as Prometheus and OpenTelemetry see them, pure: the labels of a metric and the index over them, the forms of requests and
//! answers. No I/O, no clock; who may see what, the API decides.

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
