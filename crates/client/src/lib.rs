//! A typed client of Gnocchi's REST API over HTTP/1.1 and HTTPS: one method a call, typed answers, typed errors.
//!
//! Files mirror the URLs they call. It deliberately does not retry, cache or batch by itself (callers know what may be
//! sent twice, and when).

pub mod archive_policy;
mod client;
mod error;
pub mod measures;
pub mod metric;
mod points;
mod profile;
pub mod resource;
mod special;
mod status;
pub mod uri;

pub use archive_policy::{ArchivePolicy, ArchivePolicySpec, DefinitionItem, DefinitionSpec, RawSpec};
pub use client::{AssertedIdentity, Client, ClientOptions, JsonPage, message_of};
pub use error::{ClientError, Refused};
pub use gnudi_http::{Trust, basic_authorization};
pub use measures::{MeasuresFilter, Point};
pub use metric::{Metric, MetricFilter, MetricSpec};
pub use resource::{NamedMeasures, Resource, ResourceTypeSpec, ResourcesBatch, StringAttribute};
pub use status::{Backlog, Status};
