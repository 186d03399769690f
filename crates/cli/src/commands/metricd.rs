//! `gnudi metricd`: the workers without the API.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use prometheus_client::registry::Registry;
use tokio::{runtime::Handle, task::JoinSet};

use super::metrics;
use crate::{
    args::MetricdArgs,
    config::Config,
    figures, logging, service_manager,
    store::{Journaling, RetryPolicy, Store},
};

/// Poll interval of `--stop-after-processing-metrics`.
const POLL_DELAY: Duration = Duration::from_millis(100);

pub fn run(args: &MetricdArgs) -> Result<()> {
    let config = Config::load(&args.store.program)?;
    logging::start_service(&config, "metricd")?;
    let runtime = super::runtime(&config, "metricd", config.int("metricd", "workers"))?;
    super::run_service(runtime, async {
        super::ignore_hangup()?;
        let starting = super::Starting::begin()?;
        let metrics_listener = metrics::bind(args.metrics_listen.as_deref(), &config, "metricd")?;
        let retry = RetryPolicy::configured(&config);
        let store = Store::open(&args.store, &config, retry, Journaling::Off).await?;
        store.mark_as_used(&config, retry).await?;
        let metricd = super::start_metricd(&store, &config);
        super::exit_on_lost_tasks(store.engine.clone());
        let stopped = starting.finish();
        let mut tasks = JoinSet::new();
        if let Some(listener) = metrics_listener {
            let mut registry = Registry::default();
            figures::register(&mut registry, &store, vec![("metricd", Handle::current())]);
            tasks.spawn(metrics::serve(listener, None, Arc::new(registry)));
        }
        service_manager::ready();
        let stops_by_itself = args.stop_after_processing_metrics.is_some_and(|metrics| metrics > 0);
        let until_stopped = async {
            tokio::select! {
                () = stopped => Ok(()),
                () = nothing_waits(&store, stops_by_itself) => Ok(()),
            }
        };
        let outcome = super::beside(&mut tasks, until_stopped).await;
        metricd.stop().await;
        store.close().await;
        outcome
    })
}

/// Returns once the backlog is empty; never if the option is not given.
async fn nothing_waits(store: &Store, asked: bool) {
    while !asked || !store.engine.backlog().await.is_ok_and(|backlog| backlog.measures == 0) {
        tokio::time::sleep(POLL_DELAY).await;
    }
}
