//! Series as Prometheus and OpenTelemetry see them, pure: the labels of a metric and the index over them, the forms of requests and
//! answers. No I/O, no clock; who may see what, the API decides.

pub mod answer;
pub mod escaped;
pub mod index;
pub mod labels;
pub mod number;
pub mod times;
