//! VictoriaMetrics, as a fresh package starts it, but for its retention.

use std::{net::SocketAddr, path::Path, process::Command};

use anyhow::Result;

use super::{
    DATA, Programs, START_DELAY_MAX, answers,
    child::{Guarded, Leftovers, Signal},
};

pub(super) fn start(
    programs: &Programs,
    directory: &Path,
    address: SocketAddr,
    leftovers: &Leftovers,
) -> Result<Vec<Guarded>> {
    let mut command = Command::new(&programs.victoria_metrics);
    command
        .arg(format!("-storageDataPath={}", directory.join(DATA).display()))
        .arg(format!("-httpListenAddr={address}"))
        // Measures of 2015 are kept, and can be read at once.
        .args(["-retentionPeriod=100y", "-search.latencyOffset=0s"]);
    let mut process =
        Guarded::start(command, &directory.join("victoria-metrics.log"), Signal::Term, leftovers)?;
    process.wait_ready(START_DELAY_MAX, || answers(address, "/health"))?;
    Ok(vec![process])
}
