//! `gnudi export gnocchi`: writes all changes since the import, as requests to Gnocchi's API.

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, bail, ensure};
use gnudi_drivers::data_dir::index_path;
use gnudi_import::export::{self, Options, Report};

use super::{messages::say_part, progress::Progress};
use crate::{
    args::{ExportGnocchiArgs, StoreArgs},
    config::{Config, Deployment, deployment::INCOMING},
    logging,
    store::{self, Journaling, RetryPolicy, Store},
};

pub fn run(args: &ExportGnocchiArgs) -> Result<()> {
    let gnocchis = Config::load_gnocchis(&args.gnocchi)?;
    let own = Config::load_file(args.target.as_deref())?;
    let journals = journals(args, &own)?;
    let store_args = StoreArgs { data_dir: args.data_dir.clone(), ..StoreArgs::default() };
    logging::start_quietly(&store_args.program, &own);
    check_there(&store_args, &own)?;
    let mut progress = Progress::steady("export");
    super::runtime(&own, "export", None)?.block_on(async {
        let mut gnocchi = store::gnocchi::open_index(&gnocchis).await?;
        let store = Store::open(&store_args, &own, RetryPolicy::for_command(), Journaling::Off).await?;
        let options = Options {
            journals,
            store: store.indexer.index().cluster_id(),
            output: args.output.clone(),
            batch_measures_max: args.batch_measures_max as usize,
            creator: args.creator.clone(),
        };
        let mut tell = |report: &Report| progress.tell(|elapsed| line(report, elapsed));
        let exported = export::export(&mut gnocchi, &*store.indexer, &options, &mut tell).await;
        store.close().await;
        say_part(summary(&exported?, progress.elapsed()));
        Ok(())
    })
}

fn journals(args: &ExportGnocchiArgs, own: &Config) -> Result<Vec<PathBuf>> {
    if !args.journal.is_empty() {
        return Ok(args.journal.clone());
    }
    match own.text(INCOMING, "journal") {
        Some(dir) => Ok(vec![dir.into()]),
        None => bail!(
            "which journal? Name it with --journal, or with --target a file that has [incoming] journal"
        ),
    }
}

/// Opening a missing embedded store would create an empty one.
fn check_there(args: &StoreArgs, own: &Config) -> Result<()> {
    if let (Deployment::Embedded(dir), _) = Deployment::of(own, args.data_dir.as_deref())? {
        ensure!(index_path(&dir).exists(), "{}: there is no store of gnudi", dir.display());
    }
    Ok(())
}

fn line(report: &Report, elapsed: Duration) -> String {
    let Report { changes, measures, journal_bytes, journal_bytes_left, .. } = report;
    if *measures == 0 {
        return format!("{changes} changes of the index");
    }
    let seconds = elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let line = format!("{measures} measures, {:.0}/s", *measures as f64 / seconds);
    let done = journal_bytes.saturating_sub(*journal_bytes_left);
    if done == 0 {
        return line;
    }
    let left = *journal_bytes_left as f64 * seconds / done as f64;
    format!(
        "{line}, {} of {} MiB of the journal left, {left:.0} s",
        journal_bytes_left >> 20,
        journal_bytes >> 20
    )
}

fn summary(report: &Report, elapsed: Duration) -> String {
    let Report { changes, metrics_new, batches, measures, measures_left_out, is_cut, skipped, .. } = report;
    let mut lines = vec![
        format!("exported in {:.1} s", elapsed.as_secs_f64()),
        format!("  {changes} changes of the index, {metrics_new} of them new metrics"),
        format!(
            "  {measures} measures in {batches} requests, {measures_left_out} skipped because their metric was deleted or is left out"
        ),
        format!("  {} left out{}", skipped.len(), if skipped.is_empty() { "" } else { ":" }),
    ];
    lines.extend(skipped.iter().map(|reason| format!("    {reason}")));
    if *is_cut {
        lines.push(
            "  metrics were created meanwhile: measures since then are left to the next export".to_owned(),
        );
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        args::{Command, ExportCommand},
        command_line,
        config::FileArgument,
    };

    fn parsed(line: &str) -> Option<ExportGnocchiArgs> {
        match command_line::parsed(&format!("export gnocchi {line}"))? {
            Command::Export(ExportCommand::Gnocchi(args)) => Some(args),
            _ => None,
        }
    }

    #[test]
    fn a_journal_must_be_named() {
        let args = parsed("--config-file g.conf --data-dir d --output f").unwrap();
        assert_eq!((args.batch_measures_max, args.creator.as_str()), (10_000, "admin"));
        assert!(journals(&args, &Config::default()).is_err());
        let args = parsed("--config-file g.conf --data-dir d --output f --journal a --journal b").unwrap();
        assert_eq!(journals(&args, &Config::default()).unwrap(), [PathBuf::from("a"), "b".into()]);
        for line in ["--config-file g.conf --output f", "--config-file g.conf --data-dir d"] {
            assert!(parsed(line).is_none(), "{line}");
        }
    }

    #[test]
    fn gnocchi_may_have_several_files() {
        let files = |line: &str| parsed(&format!("{line} --data-dir d --output f")).unwrap().gnocchi.named;
        assert!(files("").is_empty());
        let named = [
            FileArgument::File("a.conf".into()),
            FileArgument::Directory("d".into()),
            FileArgument::File("b.conf".into()),
        ];
        assert_eq!(files("--config-file a.conf --config-dir d --config-file b.conf"), named);
    }

    #[test]
    fn progress_has_a_rate_and_the_time_left() {
        let report = Report { changes: 7, ..Report::default() };
        assert_eq!(line(&report, Duration::from_secs(1)), "7 changes of the index");
        let report =
            Report { measures: 1000, journal_bytes: 40 << 20, journal_bytes_left: 30 << 20, ..report };
        assert_eq!(
            line(&report, Duration::from_secs(10)),
            "1000 measures, 100/s, 30 of 40 MiB of the journal left, 30 s"
        );
        let text = summary(&Report { skipped: vec!["x".to_owned()], ..report }, Duration::from_secs(1));
        assert!(text.ends_with("  1 left out:\n    x\n"), "{text}");
        let text = summary(&Report { is_cut: true, ..Report::default() }, Duration::from_secs(1));
        assert!(text.ends_with("  0 left out\n  metrics were created meanwhile: measures since then are left to the next export\n"), "{text}");
    }
}
