//! A server's own figures besides the cluster's status: version, rates, disk.
//!
//! Rates are the change of the counters at `/metrics` between two reports.

use std::time::{Duration, Instant};

use anyhow::Result;
use gnudi_client::Client;
use serde::Serialize;

/// Time between the two reads of a single report.
const RATE_SPAN: Duration = Duration::from_secs(1);

/// One server's figures; `None` if not available, as the disk with shared engines.
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

/// Counters at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counters {
    at: Instant,
    taken: Option<f64>,
    processed: Option<f64>,
    requests: Option<f64>,
}

/// Reads one server repeatedly.
#[derive(Debug, Default)]
pub struct Observer {
    seen: Option<Counters>,
    version: Option<String>,
}

impl Observer {
    /// The current figures. The first call takes a second, for the rates.
    pub async fn look(&mut self, client: &Client) -> Result<ServerFigures> {
        if self.version.is_none() {
            self.version = client.version().await?;
        }
        let before = if let Some(before) = self.seen {
            before
        } else {
            let before = counters(&client.figures().await?, Instant::now());
            tokio::time::sleep(RATE_SPAN).await;
            before
        };
        let text = client.figures().await?;
        let status = client.status().await?;
        let now = counters(&text, Instant::now());
        self.seen = Some(now);
        let seconds = (now.at - before.at).as_secs_f64();
        let rate = |now: Option<f64>, before: Option<f64>| {
            // A counter that went back belongs to a restarted process.
            let change = now? - before?;
            (change >= 0.0 && seconds > 0.0).then(|| change / seconds)
        };
        Ok(ServerFigures {
            version: self.version.clone(),
            measures_taken_per_second: rate(now.taken, before.taken),
            measures_processed_per_second: rate(now.processed, before.processed),
            requests_per_second: rate(now.requests, before.requests),
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

fn counters(text: &str, at: Instant) -> Counters {
    Counters {
        at,
        taken: sum(text, "gnudi_api_measures_total"),
        processed: sum(text, "gnudi_metricd_measures_folded_total"),
        requests: sum(text, "gnudi_api_requests_total"),
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
