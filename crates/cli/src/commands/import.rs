//! `gnudi import gnocchi`: imports a Gnocchi's data into a store that nothing else has written to.

use std::{collections::HashSet, sync::Arc, time::Duration};

use anyhow::{Result, bail};
use gnudi_import::{Import, ImportError, Report, Source, Target, is_place_of};
use tokio::sync::watch;

use super::{
    import_lock::ImportLock,
    messages::{note, say},
    progress::{Progress, metrics_done},
};
use crate::{
    args::{ImportGnocchiArgs, StoreArgs},
    config::Config,
    logging,
    store::{self, Journaling, RetryPolicy, Store},
};

/// Pause between rounds of `--follow`.
const PAUSE: Duration = Duration::from_secs(5);

pub fn run(args: &ImportGnocchiArgs) -> Result<()> {
    let gnocchis = Config::load_gnocchis(&args.gnocchi)?;
    let own = Config::load_file(args.target.as_deref())?;
    let store_args = StoreArgs { data_dir: args.data_dir.clone(), ..StoreArgs::default() };
    logging::start_quietly(&store_args.program, &own);
    super::runtime(&own, "import", None)?.block_on(async {
        let source = store::gnocchi::open(&gnocchis).await?;
        // After all checks of the source: a refused import leaves no directory behind.
        let store = Store::open(&store_args, &own, RetryPolicy::for_command(), Journaling::Off).await?;
        let imported = import_alone(&source, &store, args.follow).await;
        store.close().await;
        imported
    })
}

/// Refuses a second import into the same store: both would write the same metrics.
async fn import_alone(source: &Source, store: &Store, follow: bool) -> Result<()> {
    let Some(coordinator) = store.engine.coordinator() else {
        return import(source, store, None, follow).await;
    };
    let lock = ImportLock::take(Arc::clone(coordinator)).await?.ok_or(ImportError::TargetTaken)?;
    let imported = import(source, store, Some(&lock), follow).await;
    lock.release().await;
    imported
}

async fn import(source: &Source, store: &Store, lock: Option<&ImportLock>, follow: bool) -> Result<()> {
    let target = Target { indexer: &*store.indexer, aggregates: &*store.aggregates, now: super::now() };
    claim(source, store, target).await?;
    let mut import = Import::new(source, target).await?;
    // Before the first round, which may take hours.
    if let Some(place) = import.missing_points().await? {
        note(format_args!(
            "import: the first metrics have no points in Gnocchi's storage, there is no {place}: {IS_IT}"
        ));
    }
    let (report, elapsed) = loop {
        match round(&mut import, store, lock, !follow).await {
            Err(error) if follow && error.is_outage() => {
                note_outage(&error);
                tokio::time::sleep(PAUSE).await;
            }
            done => break done?,
        }
    };
    print(&report, elapsed);
    let mut named: HashSet<String> = remarks(&report).collect();
    if !follow {
        return Ok(());
    }
    let mut stop = stop_signal()?;
    say(
        "following Gnocchi: interrupt (ctrl-C, SIGTERM) once nothing posts to it any more; a last round follows",
    );
    let mut is_last = false;
    loop {
        tokio::select! {
            _ = stop.changed(), if !is_last => is_last = true,
            () = tokio::time::sleep(PAUSE) => {}
        }
        match round(&mut import, store, lock, is_last).await {
            Ok((report, elapsed)) if is_last => {
                print(&report, elapsed);
                return Ok(());
            }
            Ok((report, elapsed)) => say(followed(&report, elapsed, &mut named)),
            Err(error) if error.is_outage() => note_outage(&error),
            Err(error) => return Err(error.into()),
        }
    }
}

/// A restarting database must not end a migration that takes days, and not its last round while nothing runs.
fn note_outage(error: &ImportError) {
    note(format_args!("import: {error}: trying again"));
}

/// Runs one round, and returns its duration.
async fn round(
    import: &mut Import<'_>,
    store: &Store,
    lock: Option<&ImportLock>,
    is_last: bool,
) -> Result<(Report, Duration), ImportError> {
    refuse_others(store, lock).await?;
    let mut progress = Progress::steady("import");
    let report =
        import.round(is_last, &mut |report: &Report| progress.tell(|elapsed| line(report, elapsed))).await?;
    refuse_others(store, lock).await?;
    Ok((report, progress.elapsed()))
}

/// Refuses a store that a server has opened since it was claimed: shared engines have no lock that keeps servers out. And
/// one that another import may write to.
async fn refuse_others(store: &Store, lock: Option<&ImportLock>) -> Result<(), ImportError> {
    if lock.is_some_and(ImportLock::is_lost) {
        return Err(ImportError::TargetTaken);
    }
    if lock.is_some_and(ImportLock::is_in_doubt) {
        return Err(ImportError::TargetInDoubt);
    }
    match store.indexer.index().imported_from().await? {
        Some(_) => Ok(()),
        None => Err(ImportError::TargetOpened),
    }
}

/// Refuses a store that is neither empty nor an import of the same Gnocchi, and marks it as an import.
async fn claim(source: &Source, store: &Store, target: Target<'_>) -> Result<()> {
    let index = store.indexer.index();
    match index.imported_from().await? {
        Some(place) if is_place_of(&place, &source.index) => Ok(()),
        Some(place) => bail!("the store is an import of another Gnocchi, {place}: import into an empty one"),
        None if target.is_empty().await? => Ok(index.set_imported_from(Some(source.index.place())).await?),
        None => bail!(
            "the store has resources or metrics that no import wrote, or a server has used it since: import into an empty one"
        ),
    }
}

/// Changes at the first interrupt; the second one ends the program.
fn stop_signal() -> Result<watch::Receiver<()>> {
    let (told, stop) = watch::channel(());
    let mut signals = super::stop_signals()?;
    tokio::spawn(async move {
        signals.recv().await;
        note("import: the last round");
        told.send_replace(());
        signals.recv().await;
        std::process::exit(1);
    });
    Ok(stop)
}

/// A Gnocchi that never had measures looks the same as one whose storage was configured wrongly.
const EMPTY_STORAGE: &str = "no metric has points in Gnocchi's storage";
const IS_IT: &str = "make sure that it is this Gnocchi's";

/// What a round left out, and an empty storage.
fn remarks(report: &Report) -> impl Iterator<Item = String> {
    let skipped = report.skipped.iter().map(|reason| format!("left out: {reason}"));
    skipped.chain(report.empty_storage.iter().map(|_| format!("{EMPTY_STORAGE}: {IS_IT}")))
}

/// A round of `--follow` in one line, and one for each remark that is not `named` yet.
fn followed(report: &Report, elapsed: Duration, named: &mut HashSet<String>) -> String {
    let Report {
        metrics,
        metrics_total,
        metrics_unchanged,
        metrics_deleted,
        resources_deleted,
        measures,
        ..
    } = report;
    let read = metrics - metrics_unchanged;
    let mut lines = vec![format!(
        "{:.1} s: {read} of {metrics_total} metrics read, {measures} measures; {resources_deleted} resources and {metrics_deleted} metrics deleted",
        elapsed.as_secs_f64()
    )];
    lines.extend(
        remarks(report).filter(|remark| named.insert(remark.clone())).map(|new| format!("    {new}")),
    );
    lines.join("\n")
}

fn line(report: &Report, elapsed: Duration) -> String {
    let Report { resources, metrics, metrics_total, .. } = report;
    format!("{resources} resources, {}", metrics_done(*metrics, *metrics_total, elapsed))
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
        metrics_deleted,
        resources_deleted,
        buckets,
        measures,
        buckets_finalised,
        skipped,
        empty_storage,
    } = report;
    say(format_args!("imported in {:.1} s", elapsed.as_secs_f64()));
    say(format_args!(
        "  {archive_policies} archive policies, {archive_policy_rules} rules, {resource_types} resource types"
    ));
    say(format_args!("  {resources} resources with {revisions} revisions"));
    say(format_args!(
        "  {metrics} metrics, {metrics_unchanged} of them imported before, {metrics_continued} brought up to date"
    ));
    if resources_deleted + metrics_deleted > 0 {
        say(format_args!(
            "  {resources_deleted} resources and {metrics_deleted} metrics deleted, as in Gnocchi"
        ));
    }
    say(format_args!("  {buckets} aggregates' buckets, {measures} measures that waited or came since"));
    if *buckets_finalised > 0 {
        say(format_args!(
            "  {buckets_finalised} buckets of the back window keep their values: late measures do not change them"
        ));
    }
    say(format_args!("  {} left out{}", skipped.len(), if skipped.is_empty() { "" } else { ":" }));
    for reason in skipped {
        say(format_args!("    {reason}"));
    }
    if let Some(place) = empty_storage {
        say(format_args!("  {EMPTY_STORAGE}, there is no {place}: {IS_IT}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_round_leaves_out_is_named_once() {
        let report = Report { skipped: vec!["a".to_owned(), "b".to_owned()], ..Report::default() };
        let mut named = HashSet::from(["left out: a".to_owned()]);
        let mut lines = || followed(&report, Duration::from_secs(1), &mut named).lines().count();
        assert_eq!((lines(), lines()), (2, 1));
    }

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
