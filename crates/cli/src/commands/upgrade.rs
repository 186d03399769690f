//! `gnudi upgrade`: creates or upgrades the store, and the default archive policies.

use anyhow::Result;

use crate::{
    args::UpgradeArgs,
    config::Config,
    logging,
    store::{RetryPolicy, Store},
};

pub fn run(args: &UpgradeArgs) -> Result<()> {
    let config = Config::load(&args.store.program)?;
    logging::start(&config);
    super::runtime(&config, "upgrade", Some(1))?.block_on(async {
        if args.skip_index && args.skip_storage && args.skip_incoming {
            tracing::info!("everything is skipped: nothing to do");
            return Ok(());
        }
        // Opening upgrades the store. The embedded store has one format, so its parts are upgraded together.
        let retry = RetryPolicy::configured(&config);
        let store = Store::open(&args.store, &config, args.sacks(), retry).await?;
        if !args.skip_index && !args.skip_archive_policies_creation {
            store.create_default_policies(&config, &super::default_methods(&config)?, retry).await?;
        }
        store.close().await;
        Ok(())
    })
}
