//! VictoriaMetrics, as a fresh package starts it, but for its retention.

use std::process::Command;

use anyhow::Result;

use super::{
    DATA, Site, answers,
    child::{Guarded, Signal},
};

pub(super) fn start(site: &Site) -> Result<Vec<Guarded>> {
    let mut command = Command::new(&site.programs.victoria_metrics);
    command
        .arg(format!("-storageDataPath={}", site.directory.join(DATA).display()))
        .arg(format!("-httpListenAddr={}", site.address))
        // Measures of 2015 are kept, and can be read at once.
        .args(["-retentionPeriod=100y", "-search.latencyOffset=0s"]);
    let ready = || answers(site.address, "/health");
    Ok(vec![site.start(command, "victoria-metrics.log", Signal::Term, ready)?])
}
