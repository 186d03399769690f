//! The servers with Prometheus' API: Prometheus without scrape targets, which accepts remote writes, and VictoriaMetrics
//! with default settings, except retention and latency offset.

use std::process::Command;

use anyhow::Result;

use super::{DATA, Site, check_exists, child::Guarded};

/// Connections may lag behind each other, so samples up to an hour older than the newest are accepted as out of order.
const CONFIGURATION: &str = "storage:\n  tsdb:\n    out_of_order_time_window: 1d\n";

pub(super) fn start(site: &Site) -> Result<Vec<Guarded>> {
    let program = &site.programs.prometheus;
    check_exists(program)?;
    let configuration = site.directory.join("prometheus.yml");
    std::fs::write(&configuration, CONFIGURATION)?;
    let mut command = Command::new(program);
    let command = command
        .arg(format!("--config.file={}", configuration.display()))
        .arg(format!("--storage.tsdb.path={}", site.directory.join(DATA).display()))
        .arg(format!("--web.listen-address={}", site.address))
        // Keep samples of 2015.
        .args(["--storage.tsdb.retention.time=100y", "--web.enable-remote-write-receiver"]);
    site.serve(command, "prometheus.log", ["GET", "/-/ready"])
}

pub(super) fn start_victoria_metrics(site: &Site) -> Result<Vec<Guarded>> {
    let mut command = Command::new(&site.programs.victoria_metrics);
    let command = command
        .arg(format!("-storageDataPath={}", site.directory.join(DATA).display()))
        .arg(format!("-httpListenAddr={}", site.address))
        // Keep measures of 2015, readable at once.
        .args(["-retentionPeriod=100y", "-search.latencyOffset=0s"]);
    site.serve(command, "victoria-metrics.log", ["GET", "/health"])
}
