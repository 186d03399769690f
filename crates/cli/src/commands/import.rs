//! `gnudi import`: takes over what a Gnocchi holds, into an embedded store that no process has open.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use gnudi_import::{
    Progress, Report, Source, Target,
    files::{FileIncoming, FileStorage},
    index::Index,
};

use crate::{
    args::{ImportGnocchiArgs, StoreArgs},
    config::Config,
    logging,
    store::{self, Patience, Store},
};

/// Gnocchi's default of `[storage] file_basepath`.
const BASEPATH_DEFAULT: &str = "/var/lib/gnocchi";

/// How long one page of rows may take.
const STATEMENT_TIMEOUT: Duration = Duration::from_mins(10);

/// How often the progress is told.
const TOLD_DELAY: Duration = Duration::from_secs(5);

pub fn run(args: &ImportGnocchiArgs) -> Result<()> {
    let gnocchis = Config::load(Some(&args.config_file))?;
    let own = Config::load(None)?;
    let store_args = StoreArgs { data_dir: Some(args.data_dir.clone()), ..StoreArgs::default() };
    logging::start_quietly(&store_args, &own);
    let storage = base_path(&gnocchis, "storage")?;
    let incoming = base_path(&gnocchis, "incoming")?;
    let began = Instant::now();
    super::runtime(&own, "import", None)?.block_on(async {
        let mut server = store::index_options(&gnocchis)?;
        server.timeout = STATEMENT_TIMEOUT;
        let index = Index::open(&server).await.with_context(|| gnocchis.place("indexer", "url"))?;
        let storage = FileStorage::open(&storage).with_context(|| {
            format!("{}: {}", gnocchis.place("storage", "file_basepath"), storage.display())
        })?;
        let incoming =
            FileIncoming::open(&incoming).with_context(|| gnocchis.place("incoming", "file_basepath"))?;
        let mut source = Source { index, storage, incoming };
        // After all that can refuse the source: what is not imported leaves no directory.
        let store = Store::open(&store_args, &own, None, Patience::none()).await?;
        let local = store.local.as_ref().expect("a data directory is named");
        let target = Target {
            indexer: &*store.indexer,
            incoming: &*local.incoming,
            aggregates: &*local.aggregates,
            now: super::now(),
        };
        let mut teller = Teller { began, told: began };
        let imported = gnudi_import::import(&mut source, target, &mut |progress| teller.tell(progress)).await;
        store.close().await;
        print(&imported?, &args.data_dir, began.elapsed());
        Ok(())
    })
}

/// The folder of a driver `file`.
fn base_path(config: &Config, section: &'static str) -> Result<PathBuf> {
    // `local` is gnudi's name for what it does by default, where Gnocchi has `file`.
    match config.text(section, "driver") {
        None | Some("file" | "local") => {
            Ok(config.text(section, "file_basepath").unwrap_or(BASEPATH_DEFAULT).into())
        }
        Some(other) => {
            bail!("{} = {other}: only the driver file can be imported", config.place(section, "driver"))
        }
    }
}

/// Tells on standard error how far it is.
struct Teller {
    began: Instant,
    told: Instant,
}

impl Teller {
    fn tell(&mut self, progress: Progress) {
        if self.told.elapsed() < TOLD_DELAY {
            return;
        }
        self.told = Instant::now();
        eprintln!("import: {}", line(progress, self.began.elapsed()));
    }
}

fn line(progress: Progress, elapsed: Duration) -> String {
    let Progress { resources, metrics, metrics_total } = progress;
    let rate = metrics as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let line = format!("{resources} resources, {metrics} of {metrics_total} metrics");
    if metrics == 0 {
        return line;
    }
    let left = metrics_total.saturating_sub(metrics) as f64 / rate;
    format!("{line}, {rate:.0} metrics/s, {left:.0} s left")
}

fn print(report: &Report, dir: &Path, elapsed: Duration) {
    let Report {
        archive_policies,
        archive_policy_rules,
        resource_types,
        resources,
        revisions,
        metrics,
        metrics_there,
        buckets,
        measures,
        buckets_finalised,
        skipped,
    } = report;
    println!("{}: imported in {:.1} s", dir.display(), elapsed.as_secs_f64());
    println!(
        "  {archive_policies} archive policies, {archive_policy_rules} rules, {resource_types} resource types"
    );
    println!("  {resources} resources with {revisions} revisions");
    println!("  {metrics} metrics, {metrics_there} of them imported before");
    println!("  {buckets} aggregates' buckets, {measures} measures that waited");
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
        let progress = Progress { resources: 7, metrics: 0, metrics_total: 1000 };
        assert_eq!(line(progress, Duration::from_secs(10)), "7 resources, 0 of 1000 metrics");
        let progress = Progress { metrics: 250, ..progress };
        assert_eq!(
            line(progress, Duration::from_secs(10)),
            "7 resources, 250 of 1000 metrics, 25 metrics/s, 30 s left"
        );
    }
}
