//! `gnudi upgrade`: creates or upgrades the store, and the default archive policies.

use anyhow::{Result, bail};

use crate::{
    args::UpgradeArgs,
    config::{Config, Deployment},
    logging,
    store::{Journaling, RetryPolicy, Store, shared},
};

pub fn run(args: &UpgradeArgs) -> Result<()> {
    let mut config = Config::load(&args.store.program)?;
    if let Some(sacks) = args.sacks_number {
        config.set_from_argument("--sacks-number", "incoming", "sacks", sacks.to_string())?;
    }
    logging::start(&config);
    super::runtime(&config, "upgrade", Some(1))?.block_on(async {
        if args.skip_index && args.skip_storage && args.skip_incoming {
            tracing::info!("everything is skipped: nothing to do");
            return Ok(());
        }
        // Opening upgrades the store. The embedded store has one format, so its parts are upgraded together.
        let retry = RetryPolicy::configured(&config);
        if args.replace_aggregates {
            let Deployment::Shared(engines) = Deployment::of(&config, args.store.data_dir.as_deref())?.0
            else {
                bail!("--replace-aggregates is for engines that processes share");
            };
            shared::replace_aggregates(&engines, &config, retry).await?;
        }
        let store = Store::open(&args.store, &config, retry, Journaling::Off).await?;
        let present = store.engine.numbering().count.get();
        if let Some(asked) = args.sacks_number.filter(|asked| *asked != present) {
            tracing::warn!(
                "--sacks-number {asked} has no effect: it is for new stores, this one has {present} sacks"
            );
        }
        if !args.skip_index && !args.skip_archive_policies_creation {
            store.create_default_policies(&config, &super::default_methods(&config)?, retry).await?;
        }
        store.close().await;
        Ok(())
    })
}
