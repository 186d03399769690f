//! `/debug/flamegraph` of gnudi servers.

use std::time::Duration;

use crate::{Client, Result};

impl Client {
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
}
