//! `/debug/...`: what the server tells about itself to whoever runs it.

mod flamegraph;

pub use flamegraph::flamegraph;

use super::prelude::*;

/// `GET /debug/cluster`: processes, sacks with their owners, and the backlog: what `gnudi status` prints. `metrics=true` has the
/// metrics counted, too.
pub async fn cluster(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let engine = call.app.engine();
    let status = if call.query().flag("metrics", false)? {
        engine.cluster_with_metrics().await?
    } else {
        engine.cluster().await?
    };
    Ok(reply::ok(status.to_json().into_bytes()))
}
