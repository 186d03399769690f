//! `gnudi agent upgrade`: creates Ceilometer's resource types in the store that `[gnocchi]` names. The publisher does
//! the same at its start; this is for clouds that are prepared before the agents start.

use std::time::Duration;

use anyhow::{Result, anyhow};
use gnudi_telemetry::publishers::gnocchi;

use super::credentials;
use crate::args::AgentUpgradeArgs;

/// Time per attempt of `--retry` while the store does not respond.
const TRY: Duration = Duration::from_secs(1);

pub fn run(args: &AgentUpgradeArgs) -> Result<()> {
    let config = super::prepare(&args.program, "agent-upgrade")?;
    if args.skip_gnocchi_resource_types {
        tracing::info!("resource types are skipped: nothing to do");
        return Ok(());
    }
    let options = credentials::gnocchi(&config, None)?;
    crate::commands::runtime(&config, "upgrade", Some(1))?.block_on(async {
        let upgrade = gnocchi::upgrade(&options);
        match args.retry {
            None => upgrade.await?,
            Some(tries) => {
                let limit = TRY * tries.max(1);
                let late = |_| anyhow!("the store has not answered within {} s (--retry)", limit.as_secs());
                tokio::time::timeout(limit, upgrade).await.map_err(late)??;
            }
        }
        Ok(())
    })
}
