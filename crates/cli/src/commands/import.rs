//! `gnudi import`: takes over what a Gnocchi holds, into a store in which no process folds measures.

use std::time::Duration;

use anyhow::Result;
use gnudi_import::{Report, Target};

use super::progress::Progress;
use crate::{
    args::{ImportGnocchiArgs, StoreArgs},
    config::Config,
    logging,
    store::{self, Patience, Store},
};

pub fn run(args: &ImportGnocchiArgs) -> Result<()> {
    let gnocchis = Config::load(Some(&args.config_file))?;
    let own = Config::load(args.target.as_deref())?;
    let store_args = StoreArgs { data_dir: args.data_dir.clone(), ..StoreArgs::default() };
    logging::start_quietly(&store_args, &own);
    let mut progress = Progress::steady("import");
    super::runtime(&own, "import", None)?.block_on(async {
        let mut source = store::gnocchi::open(&gnocchis).await?;
        // After all that can refuse the source: what is not imported leaves no directory.
        let store = Store::open(&store_args, &own, None, Patience::none()).await?;
        let target = Target { indexer: &*store.indexer, aggregates: &*store.aggregates, now: super::now() };
        let mut tell = |report: &Report| progress.tell(|elapsed| line(report, elapsed));
        let imported = gnudi_import::import(&mut source, target, &mut tell).await;
        store.close().await;
        print(&imported?, progress.elapsed());
        Ok(())
    })
}

fn line(report: &Report, elapsed: Duration) -> String {
    let Report { resources, metrics, metrics_total, .. } = report;
    let rate = *metrics as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let line = format!("{resources} resources, {metrics} of {metrics_total} metrics");
    if *metrics == 0 {
        return line;
    }
    let left = metrics_total.saturating_sub(*metrics) as f64 / rate;
    format!("{line}, {rate:.0} metrics/s, {left:.0} s left")
}

fn print(report: &Report, elapsed: Duration) {
    let Report {
        archive_policies,
        archive_policy_rules,
        resource_types,
        resources,
        revisions,
        metrics,
        metrics_total: _,
        metrics_unchanged,
        metrics_continued,
        buckets,
        measures,
        buckets_finalised,
        skipped,
    } = report;
    println!("imported in {:.1} s", elapsed.as_secs_f64());
    println!(
        "  {archive_policies} archive policies, {archive_policy_rules} rules, {resource_types} resource types"
    );
    println!("  {resources} resources with {revisions} revisions");
    println!(
        "  {metrics} metrics, {metrics_unchanged} of them imported before, {metrics_continued} brought up to date"
    );
    println!("  {buckets} aggregates' buckets, {measures} measures that waited or came since");
    if *buckets_finalised > 0 {
        println!(
            "  {buckets_finalised} buckets of the back window keep their values: late measures do not change them"
        );
    }
    println!("  {} left out{}", skipped.len(), if skipped.is_empty() { "" } else { ":" });
    for reason in skipped {
        println!("    {reason}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_has_a_rate_and_the_time_left() {
        let report = Report { resources: 7, metrics_total: 1000, ..Report::default() };
        assert_eq!(line(&report, Duration::from_secs(10)), "7 resources, 0 of 1000 metrics");
        let report = Report { metrics: 250, ..report };
        assert_eq!(
            line(&report, Duration::from_secs(10)),
            "7 resources, 250 of 1000 metrics, 25 metrics/s, 30 s left"
        );
    }
}
