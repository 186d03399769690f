//! Prometheus without scrape targets: it accepts remote writes.

use std::process::Command;

use anyhow::{Result, ensure};

use super::{
    DATA, Site, answers,
    child::{Guarded, Signal},
};

/// Connections may lag behind each other, so samples up to an hour older than the newest are accepted as out of order.
const CONFIGURATION: &str = "storage:\n  tsdb:\n    out_of_order_time_window: 1d\n";

pub(super) fn start(site: &Site) -> Result<Vec<Guarded>> {
    let program = &site.programs.prometheus;
    ensure!(program.exists(), "{} is missing", program.display());
    let configuration = site.directory.join("prometheus.yml");
    std::fs::write(&configuration, CONFIGURATION)?;
    let mut command = Command::new(program);
    let command = command
        .arg(format!("--config.file={}", configuration.display()))
        .arg(format!("--storage.tsdb.path={}", site.directory.join(DATA).display()))
        .arg(format!("--web.listen-address={}", site.address))
        // Keep samples of 2015.
        .args(["--storage.tsdb.retention.time=100y", "--web.enable-remote-write-receiver"]);
    let ready = || answers(site.address, "GET", "/-/ready");
    Ok(vec![site.start(command, "prometheus.log", Signal::TERM, ready)?])
}
