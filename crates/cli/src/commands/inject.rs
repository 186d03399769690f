//! `gnocchi-injector`: posts random measures to new metrics through the API. For real load tests there is `gnudi
//! benchmark`.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use gnudi_client::{Client, MetricSpec};
use gnudi_model::{Measure, MetricId, Timestamp};

use crate::{args::InjectArgs, config::Config, logging};

/// Maximum measures per request.
const BATCH_MEASURES_MAX: usize = 10_000;

/// Values are between -`VALUE_MAX` and `VALUE_MAX`.
const VALUE_MAX: i64 = 999_999;

pub fn run(args: &InjectArgs) -> Result<()> {
    let config = Config::load(&args.program)?;
    logging::start(&config);
    if args.process {
        tracing::warn!("--process: without effect: the server processes what comes in");
    }
    super::runtime(&config, "inject", Some(1))?.block_on(async {
        let mut server = args.server.clone();
        server.endpoint = server.named().or_else(|| Some(super::own_endpoint(&config)));
        let client = server.connect().await?;
        let mut metrics = Vec::new();
        for _ in 0..args.metrics {
            let archive_policy_name = Some(args.archive_policy_name.clone());
            let spec = MetricSpec { archive_policy_name, ..MetricSpec::default() };
            metrics.push(client.create_metric(&spec).await?.id);
        }
        tracing::info!("created {} metrics", metrics.len());
        let Some(seconds) = args.interval else { return post(&client, &metrics, args.measures).await };
        let pause = Duration::from_secs(u64::from(seconds));
        tokio::select! {
            stop = super::stopped() => Ok(stop?),
            failed = post_repeatedly(&client, &metrics, args.measures, pause) => failed,
        }
    })
}

/// Until a round fails.
async fn post_repeatedly(
    client: &Client,
    metrics: &[MetricId],
    measures: u32,
    pause: Duration,
) -> Result<()> {
    loop {
        post(client, metrics, measures).await?;
        tokio::time::sleep(pause).await;
    }
}

/// Posts measures to each metric, a second apart, from now on.
async fn post(client: &Client, metrics: &[MetricId], measures: u32) -> Result<()> {
    let now = super::now();
    let mut batch: BTreeMap<MetricId, Vec<Measure>> = BTreeMap::new();
    let mut gathered = 0;
    for metric in metrics {
        for second in 0..i64::from(measures) {
            let value = fastrand::i64(-VALUE_MAX..=VALUE_MAX) as f64;
            let timestamp = Timestamp(now.0 + second * 1_000_000_000);
            batch.entry(*metric).or_default().push(Measure { timestamp, value });
            gathered += 1;
            if gathered == BATCH_MEASURES_MAX {
                client.post_batch(&std::mem::take(&mut batch)).await?;
                gathered = 0;
            }
        }
    }
    if gathered > 0 {
        client.post_batch(&batch).await?;
    }
    tracing::info!("posted {measures} measures to each of them");
    Ok(())
}
