//! The handlers of Prometheus' API. `write` and its variants store samples; the others are Prometheus' HTTP
//! API.

mod delete_series;
mod exemplars;
mod federate;
mod labels;
mod language;
mod metadata;
mod otlp;
mod query;
mod remote_read;
mod remote_write;
mod series;
mod status;
mod targets;
mod write;

pub use delete_series::{clean_tombstones, delete_series};
pub use exemplars::query_exemplars;
pub use federate::federate;
pub use labels::{label_values, labels};
pub use language::{format_query, parse_query};
pub use metadata::metadata;
pub use otlp::metrics as otlp_metrics;
pub use query::{query, query_range};
pub use remote_read::remote_read;
pub use remote_write::remote_write;
pub use series::series;
pub use status::{alerts, build_info, config, flags, rules, runtime_info, tsdb};
pub use targets::targets;
pub use write::write;

use crate::{arguments::Arguments, failure::Failure};
use gnudi_indexer::MetricScope;

use prelude::*;

/// The response of a handler to the request's arguments, with Prometheus' errors.
async fn respond(
    call: &Call<'_>,
    body: &mut RequestBody<'_>,
    work: impl AsyncFnOnce(Arguments) -> Result<Response, Failure>,
) -> Answer {
    let answered = async { work(Arguments::read(call, body).await?).await };
    Ok(answered.await.unwrap_or_else(|failure| failure.response()))
}

/// Whether a caller may see what a creator wrote.
fn sees_creator(seen: Option<&MetricScope>, creator: &str) -> bool {
    seen.is_none_or(|scope| scope.includes(creator, None, Some(creator)))
}

/// Common imports of handlers.
mod prelude {
    pub(crate) use gnudi_access::Rule;
    pub(crate) use gnudi_app::{Answer, ApiError, Result, json::Value};
    pub(crate) use gnudi_server::{RequestBody, Response, reply};

    pub(crate) use crate::api::Call;
}
