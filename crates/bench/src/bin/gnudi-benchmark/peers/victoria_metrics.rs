//! VictoriaMetrics with default settings, except retention and latency offset.

use std::process::Command;

use anyhow::Result;

use super::{
    DATA, Site, answers,
    child::{Guarded, Signal},
};

pub(super) fn start(site: &Site) -> Result<Vec<Guarded>> {
    let mut command = Command::new(&site.programs.victoria_metrics);
    let command = command
        .arg(format!("-storageDataPath={}", site.directory.join(DATA).display()))
        .arg(format!("-httpListenAddr={}", site.address))
        // Keep measures of 2015, readable at once.
        .args(["-retentionPeriod=100y", "-search.latencyOffset=0s"]);
    let ready = || answers(site.address, "GET", "/health");
    Ok(vec![site.start(command, "victoria-metrics.log", Signal::TERM, ready)?])
}
