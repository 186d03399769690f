//! `/debug/...`: diagnostics for operators.

mod flamegraph;

pub use flamegraph::flamegraph;

use super::prelude::*;

/// `GET /debug/cluster`: processes, sacks with their owners, and the backlog, as printed by `gnudi status`.
/// `metrics=true` also counts metrics.
pub async fn cluster(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let engine = call.app.engine();
    let status = if call.query().flag("metrics", false)? {
        engine.cluster_with_metrics().await?
    } else {
        engine.cluster().await?
    };
    Ok(reply::ok(status.to_json().into_bytes()))
}
