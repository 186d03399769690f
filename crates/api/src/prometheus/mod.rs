//! Prometheus' API: the way in, which is remote write, and the way out.
//!
//! `arguments` reads parameters, `catalogue` knows the series, `selected` reads their samples, `evaluation` answers queries, `failure` says
//! why there is no answer.
//!
//! `inflate` undoes the compression, `write_request` reads the message, `names` says which metric a series is. Whom the
//! metrics belong to, `routes::prometheus` decides.

pub(crate) mod arguments;
pub(crate) mod catalogue;
pub(crate) mod evaluation;
mod failure;
mod inflate;
pub mod names;
pub(crate) mod selected;
pub mod write_request;

pub(crate) use failure::Failure;
pub use inflate::{inflate, inflated_bytes};
pub use write_request::{NoWriteRequest, Sample, Series};
