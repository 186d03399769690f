//! `/v1/status`, and what gnudi servers tell of themselves.

use std::time::Duration;

use serde::Deserialize;

use crate::{Client, Result};

/// The backlog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Backlog {
    pub metrics: u64,
    pub measures: u64,
}

/// The state of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub backlog: Backlog,
    /// The names of the workers.
    pub processors: Vec<String>,
}

#[derive(Deserialize)]
struct StatusBody {
    storage: StorageBody,
    #[serde(default)]
    metricd: MetricdBody,
}

#[derive(Deserialize)]
struct StorageBody {
    summary: Backlog,
}

#[derive(Default, Deserialize)]
struct MetricdBody {
    /// Null if the coordinator does not know.
    processors: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct RootBody {
    gnudi: Option<String>,
}

#[expect(clippy::unnecessary_wraps, reason = "readers of answers may fail")]
fn text(body: &[u8]) -> Result<String, String> {
    Ok(String::from_utf8_lossy(body).into_owned())
}

impl Client {
    /// `/debug/cluster` of gnudi servers, as JSON: processes, sacks with their owners, the backlog, and the number of
    /// metrics. Administrators only.
    pub async fn cluster(&self) -> Result<String> {
        self.get_with("/debug/cluster?metrics=true".to_owned(), text).await
    }

    /// A flame graph (SVG) of the server's processor time in the next `duration` (whole seconds), from `frequency_hz`
    /// samples per second of processor time. Administrators only. The call takes longer than `duration`; the client's
    /// timeout must allow for it.
    pub async fn flamegraph(&self, duration: Duration, frequency_hz: u16) -> Result<String> {
        let seconds = duration.as_secs();
        let path = format!("/debug/flamegraph?seconds={seconds}&frequency={frequency_hz}");
        self.get_with(path, |body| {
            let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
            if text.contains("<svg") { Ok(text.to_owned()) } else { Err("no SVG".to_owned()) }
        })
        .await
    }

    /// `/metrics`: the metrics of the responding process, in Prometheus' text format.
    pub async fn figures(&self) -> Result<String> {
        self.get_with("/metrics".to_owned(), text).await
    }

    /// The server's version; `None`: it is not a gnudi.
    pub async fn version(&self) -> Result<Option<String>> {
        let root: RootBody = self.get("/".to_owned()).await?;
        Ok(root.gnudi)
    }

    /// The totals of the backlog, and the workers (`details=false`: the backlog by metric can be long).
    pub async fn status(&self) -> Result<Status> {
        let body: StatusBody = self.get("/v1/status?details=false".to_owned()).await?;
        Ok(Status { backlog: body.storage.summary, processors: body.metricd.processors.unwrap_or_default() })
    }
}
