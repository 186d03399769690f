//! Prometheus' API: the way in, which is remote write, and the way out.
//!
//! `arguments` reads parameters, `catalogue` knows the series, `selected` reads their samples, `evaluation` answers queries, `failure` says
//! why there is no answer.
//!
//! `inflate` undoes the compression, `write_request` reads the message, `names` says which metric a series is. Whom the
//! metrics belong to, `routes::prometheus` decides.

pub mod arguments;
pub mod catalogue;
pub mod evaluation;
mod failure;
mod inflate;
pub mod names;
pub mod selected;
pub mod write_request;

pub use failure::Failure;
pub use inflate::{inflate, inflated_bytes};
pub use write_request::{NoWriteRequest, Sample, Series};
