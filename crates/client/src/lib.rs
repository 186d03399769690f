//! A typed client of Gnocchi's REST API over HTTP/1.1 and HTTPS: one method per call, typed responses, typed errors.
//!
//! Files mirror the URLs that they call. It deliberately does not retry, cache or batch: callers know what may be
//! repeated, and when.

pub mod archive_policy;
mod client;
mod error;
pub mod measures;
pub mod metric;
mod non_finite;
mod points;
pub mod resource;
mod status;
pub mod uri;

pub use archive_policy::{ArchivePolicy, ArchivePolicySpec, DefinitionItem, DefinitionSpec, RawSpec};
pub use client::{AssertedIdentity, Client, ClientOptions, JsonPage, message_of};
pub use error::{ClientError, Refused, Result};
pub use gnudi_http::{ClientIdentity, Trust, basic_authorization, with_causes};
pub use measures::{MeasuresFilter, Point};
pub use metric::{Metric, MetricFilter, MetricSpec};
pub use resource::{NamedMeasures, Resource, ResourceTypeSpec, ResourcesBatch, StringAttribute};
pub use status::{Backlog, Status};
