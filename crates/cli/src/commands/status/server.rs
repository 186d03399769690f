//! A server's own figures besides the cluster's status: version, rates, disk.
//!
//! Rates are the change of the counters at `/metrics` between two reports.

use std::time::{Duration, Instant};

use anyhow::Result;
use gnudi_client::Client;
use serde::Serialize;

/// Time between the two reads of a single report.
const RATE_SPAN: Duration = Duration::from_secs(1);

/// One server's figures; `None` if not available, as the disk with shared engines, or all of `/metrics` where
/// the server shows it at another address.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServerFigures {
    pub version: Option<String>,
    pub measures_taken_per_second: Option<f64>,
    pub measures_processed_per_second: Option<f64>,
    pub requests_per_second: Option<f64>,
    /// Waiting time of the sack that waits longest for a worker.
    pub oldest_waiting_seconds: Option<f64>,
    pub aggregates_bytes: Option<f64>,
    /// Merges of aggregates that wait for disk space: 1 or 0.
    pub merges_waiting: Option<f64>,
    pub disk_free_bytes: Option<f64>,
    pub memory_bytes: Option<f64>,
    /// Names of the processes with workers.
    pub processors: Vec<String>,
    /// Metrics in the backlog.
    pub metrics_waiting: u64,
}

/// The counters whose rates are shown.
const COUNTERS: [&str; 3] =
    ["gnudi_api_measures_total", "gnudi_metricd_measures_folded_total", "gnudi_api_requests_total"];

/// Reads one server repeatedly.
#[derive(Debug, Default)]
pub struct Observer {
    /// The counters at a moment.
    seen: Option<([Option<f64>; COUNTERS.len()], Instant)>,
    version: Option<String>,
}

impl Observer {
    /// The current figures. The first call takes a second, for the rates.
    pub async fn ask(&mut self, client: &Client) -> Result<ServerFigures> {
        if self.version.is_none() {
            self.version = client.version().await?;
        }
        let counters = |text: &str| COUNTERS.map(|name| sum(text, name));
        let (before, before_at) = if let Some(seen) = self.seen {
            seen
        } else {
            let seen = (counters(&figures(client).await?), Instant::now());
            tokio::time::sleep(RATE_SPAN).await;
            seen
        };
        let text = figures(client).await?;
        let status = client.status().await?;
        let (now, at) = (counters(&text), Instant::now());
        self.seen = Some((now, at));
        let seconds = (at - before_at).as_secs_f64();
        let [taken, processed, requests] = std::array::from_fn(|counter| {
            // A counter that went back belongs to a restarted process.
            let change = now[counter]? - before[counter]?;
            (change >= 0.0 && seconds > 0.0).then(|| change / seconds)
        });
        Ok(ServerFigures {
            version: self.version.clone(),
            measures_taken_per_second: taken,
            measures_processed_per_second: processed,
            requests_per_second: requests,
            oldest_waiting_seconds: sum(&text, "gnudi_metricd_oldest_waiting_seconds"),
            aggregates_bytes: sum(&text, "gnudi_aggregates_runs_bytes"),
            merges_waiting: sum(&text, "gnudi_aggregates_merge_waits"),
            disk_free_bytes: sum(&text, "gnudi_disk_free_bytes"),
            memory_bytes: sum(&text, "gnudi_process_resident_bytes"),
            processors: status.processors,
            metrics_waiting: status.backlog.metrics,
        })
    }
}

/// The server's `/metrics`; empty if they are at another address (`[api] metrics_listen`).
async fn figures(client: &Client) -> Result<String> {
    match client.figures().await {
        Err(error) if error.status() == Some(404) => Ok(String::new()),
        answer => Ok(answer?),
    }
}

/// The sum of a name's samples in Prometheus' text format over all labels; `None` without samples.
fn sum(text: &str, name: &str) -> Option<f64> {
    let samples = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        // The value is the last word: the server writes no timestamps.
        let value = rest.starts_with([' ', '{']).then(|| rest.rsplit(' ').next())?;
        value?.parse::<f64>().ok()
    });
    samples.reduce(|sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_added_up() {
        let text = "# HELP a_total x\na_total{b=\"c d\"} 1\na_total{b=\"e\"} 2.5\na_total_more 7\na 9\n";
        assert_eq!(sum(text, "a_total"), Some(3.5));
        assert_eq!(sum(text, "a"), Some(9.0));
        assert_eq!(sum(text, "b"), None);
    }
}
