//! `gnudi move`: copies the aggregates to another engine while the cluster keeps running, and switches over to it.
//!
//! `gnudi_drivers::transfer` copies a store; this module decides the order, and when which store may be used.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use gnudi_drivers::{
    aggregates::{Fence, Movable, StoreError, StoreState},
    coordination::Coordinator,
    transfer::{Depth, Observer, Report, Retries, Transfer},
};
use gnudi_engine::granularities_of;
use gnudi_indexer::{Indexer as _, MetricPages, sql::SqlIndexer};
use gnudi_model::{MetricId, Sack, SackCount, SackId};
use uuid::Uuid;

use super::{
    backup::megabytes,
    messages::{note, say},
    progress::{Progress, metrics_done},
};
use crate::{
    args::MoveArgs,
    config::{Config, Deployment, deployment::INCOMING, options::GNOCCHI},
    logging,
    program_args::ProgramArgs,
    store::shared::{MoveEngines, open_to_move},
};

/// Metrics of the index listed per page.
const PAGE: usize = 10_000;
/// Rounds end when one writes no more than 1/`LITTLE_PART` of the metrics, or no less than half of the round before.
const LITTLE_PART: u64 = 100;
/// After the source is closed, a second round finds nothing to write. More rounds mean that the target loses writes.
const LAST_ROUNDS_MAX: u32 = 4;
/// Pause between attempts while an engine does not respond.
const PAUSE: Duration = Duration::from_millis(500);
/// Time limit for getting the command's token.
const SESSION: Duration = Duration::from_secs(10);

pub fn run(args: &MoveArgs) -> Result<()> {
    let config = Config::load_file(Some(&args.config_file))?;
    let target = Config::load_file(Some(&args.to))?;
    logging::start_quietly(&ProgramArgs::default(), &config);
    let Deployment::Shared(engines) = Deployment::of(&config, None)?.0 else {
        bail!(
            "{}: the embedded store is one directory with its index: it cannot be moved to engines that processes share",
            args.config_file.display()
        );
    };
    refuse_other_moves(&config, &target)?;
    let retries = Retries { pause: PAUSE, timeout: config.seconds("DEFAULT", "start_timeout") };
    super::runtime(&config, "move", None)?.block_on(async {
        let engines = open_to_move(&engines, &config, target).await?;
        let moved = Move { engines: &engines, retries }.run(args).await;
        engines.index.close().await;
        moved
    })
}

/// Refuses a new file that changes more than the aggregates' engine. [incoming] inherits from [storage]: forgetting
/// that would leave the backlog behind.
fn refuse_other_moves(config: &Config, target: &Config) -> Result<()> {
    let incoming = config.text(INCOMING, "driver").unwrap_or_default();
    let of_incoming = |name: &str| name == "driver" || name.starts_with(&format!("{incoming}_"));
    let kept = GNOCCHI.all().filter(|spec| match spec.section {
        INCOMING => of_incoming(spec.name),
        "indexer" => spec.name == "url",
        "DEFAULT" => spec.name == "coordination_url",
        _ => false,
    });
    for spec in kept {
        ensure!(
            config.text(spec.section, spec.name) == target.text(spec.section, spec.name),
            "[{}] {} differs in the two files ({} and {}): a move changes [storage] only; set in [incoming] what it \
             inherits from [storage]",
            spec.section,
            spec.name,
            config.place(spec.section, spec.name),
            target.place(spec.section, spec.name)
        );
    }
    Ok(())
}

struct Move<'a> {
    engines: &'a MoveEngines,
    retries: Retries,
}

impl Move<'_> {
    async fn run(&self, args: &MoveArgs) -> Result<()> {
        let source = &self.engines.source;
        let found = source.state().await?;
        ensure!(
            found != StoreState::Filling,
            "{} is itself not complete: finish the move to it first",
            source.place()
        );
        let target = self.engines.target().await?;
        match (found, target.state().await?) {
            (_, StoreState::Filling) => {}
            (StoreState::Closed, StoreState::InUse) => {
                say(format_args!("{} is in use already: the move has ended", target.place()));
                return Ok(());
            }
            (_, StoreState::InUse) => {
                bail!("{} holds this cluster's aggregates already, and is in use", target.place())
            }
            (_, StoreState::Closed) => bail!(
                "{} was moved away from: name another pool, bucket, folder or prefix, or empty it",
                target.place()
            ),
        }
        say(format_args!("from {} to {}", source.place(), target.place()));
        let fence = Fence { token: token(&*self.engines.coordinator).await?, ..Fence::EVERYTHING };
        self.copy(&target, fence).await?;
        // Opened again, so that the comparison reads the engine and not this process's memory.
        let target = self.engines.target().await?;
        let transfer = self.transfer(&target, fence).await?;
        let compared = self.round(&transfer, "compared", Depth::Everything).await?;
        refuse_damage(&compared)?;
        if !args.cut_over {
            let hint = "run it again with --cut-over to finish, or without to catch up";
            say(format_args!("copied: {}; {hint}", figures(&compared)));
            return Ok(());
        }
        self.cut_over(&transfer, &target, fence).await?;
        say(format_args!(
            "done: every head and block is equal; start all processes with {}",
            args.to.display()
        ));
        Ok(())
    }

    async fn transfer(&self, target: &Arc<dyn Movable>, fence: Fence) -> Result<Transfer> {
        let source = self.engines.source.clone();
        let transfer = Transfer::begin(source, target.clone(), fence, granularities_of, self.retries);
        transfer.await.map_err(explain)
    }

    /// Runs rounds until little is left.
    async fn copy(&self, target: &Arc<dyn Movable>, fence: Fence) -> Result<()> {
        let transfer = self.transfer(target, fence).await?;
        let mut before = u64::MAX;
        loop {
            let report = self.round(&transfer, "copied", Depth::Changes).await?;
            let written = report.metrics_written;
            if written * LITTLE_PART <= report.metrics_total || written > before / 2 {
                return Ok(());
            }
            before = written;
        }
    }

    async fn cut_over(&self, transfer: &Transfer, target: &Arc<dyn Movable>, fence: Fence) -> Result<()> {
        let source = &self.engines.source;
        // Close first, so that no process starts on it; then raise the fence, which stops running ones.
        source.set_state(StoreState::Closed).await?;
        source.raise(Fence::CLOSING).await?;
        say(format_args!("{} is closed: measures wait until processes have the new engine", source.place()));
        for _ in 0..LAST_ROUNDS_MAX {
            let report = self.round(transfer, "last", Depth::Everything).await?;
            refuse_damage(&report)?;
            if report.metrics_written + report.metrics_removed == 0 {
                // A later run may still write what it read before the source was closed: then that run completes the
                // move.
                target.raise(fence).await.map_err(explain)?;
                // Before it may be used: a process that finds another one recorded is refused.
                self.engines.record(&**target).await?;
                return Ok(target.set_state(StoreState::InUse).await?);
            }
        }
        bail!("{} loses writes: it is not used", target.place())
    }

    async fn round(&self, transfer: &Transfer, what: &str, depth: Depth) -> Result<Report> {
        let metrics = metrics(&self.engines.index).await?;
        let mut printer = ProgressPrinter { progress: Progress::steady("move"), said: String::new() };
        let report = transfer.round(&metrics, depth, &mut printer).await.map_err(explain)?;
        say(format_args!(
            "{what} in {:.1} s: {}",
            printer.progress.elapsed().as_secs_f64(),
            figures(&report)
        ));
        Ok(report)
    }
}

/// A token higher than all leases so far and lower than all later ones, which the processes on the target will have.
async fn token(coordinator: &dyn Coordinator) -> Result<u64> {
    let name = format!("move.{}", Uuid::new_v4().simple());
    let session = coordinator.join(&name, "{}", SESSION).await?;
    // Sack counts that the cluster does not use: it has one of the two at most.
    let sacks = [(1, 0), (u16::MAX, 0)].map(|(count, id)| {
        let count = SackCount(count.try_into().expect("not zero"));
        Sack { count, id: SackId(id) }
    });
    let tokens = coordinator.acquire(session, &sacks).await;
    coordinator.leave(session).await?;
    tokens?.into_iter().flatten().max().context("the coordinator returned no token")
}

/// All metrics of the index.
async fn metrics(index: &SqlIndexer) -> Result<Vec<MetricId>> {
    let (mut metrics, mut pages) = (Vec::new(), MetricPages::new(PAGE));
    while let Some(page) = pages.next(index).await? {
        metrics.extend(page.iter().map(|metric| metric.id));
    }
    // Their aggregates would be left behind.
    ensure!(index.damaged() == 0, "metrics are damaged in the index, the log names them");
    Ok(metrics)
}

fn explain(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Fenced { .. } => {
            anyhow::anyhow!("another `gnudi move` has begun: this one stops writing")
        }
        error => error.into(),
    }
}

/// Damaged entries cannot be compared, and would silently be missing.
fn refuse_damage(report: &Report) -> Result<()> {
    if report.damaged == 0 {
        return Ok(());
    }
    for place in &report.damaged_places {
        note(format_args!("damaged: {place}"));
    }
    bail!(
        "{} heads or blocks are damaged in the source: delete their metrics, or measures of their times, and run it again",
        report.damaged
    )
}

/// Prints the progress of a round.
struct ProgressPrinter {
    progress: Progress,
    said: String,
}

impl Observer for ProgressPrinter {
    fn tell(&mut self, report: &Report) {
        self.said.clear();
        self.progress.tell(|elapsed| line(report, elapsed));
    }

    fn no_answer(&mut self, error: &StoreError) {
        let text = error.to_string();
        if self.said != text {
            note(format_args!("move: {text}: trying again"));
            self.said = text;
        }
    }
}

fn line(report: &Report, elapsed: Duration) -> String {
    let Report { metrics, metrics_total, bytes_written, .. } = report;
    let done = metrics_done(*metrics, *metrics_total, elapsed);
    format!("{done}, {} written", megabytes(*bytes_written))
}

fn figures(report: &Report) -> String {
    let Report { metrics_total, metrics_written, blocks_written, bytes_written, metrics_compared, .. } =
        report;
    let compared = match metrics_compared {
        0 => String::new(),
        compared => format!(", {compared} read from both and equal"),
    };
    let removed = match report.metrics_removed {
        0 => String::new(),
        removed => format!(", {removed} removed"),
    };
    format!(
        "{metrics_total} metrics, {metrics_written} written with {blocks_written} blocks, {}{compared}{removed}",
        megabytes(*bytes_written)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Project;

    #[test]
    fn progress_has_a_rate_and_the_time_left() {
        let report = Report { metrics_total: 1000, ..Report::default() };
        assert_eq!(line(&report, Duration::from_secs(10)), "0 of 1000 metrics, 0.0 MB written");
        let report = Report { metrics: 250, bytes_written: 1_500_000, ..report };
        let told = line(&report, Duration::from_secs(10));
        assert_eq!(told, "250 of 1000 metrics, 25 metrics/s, 30 s left, 1.5 MB written");
    }

    #[test]
    fn only_storage_may_differ() {
        let load = |text: &str| Config::of_text(Project::Gnocchi, text).unwrap();
        let index = "[indexer]\nurl = postgresql://u:hunter2@h/d\n";
        let one = "[storage]\ndriver = redis\nredis_url = redis://a\n";
        let other = "[storage]\ndriver = s3\ns3_bucket_prefix = b\n";
        let redis = "[incoming]\ndriver = redis\nredis_url = redis://a\n";
        let config = load(&format!("{index}{one}"));
        refuse_other_moves(&config, &load(&format!("{index}{other}{redis}"))).unwrap();
        for (text, place) in [
            (format!("{index}{other}"), "[incoming] driver"),
            (
                format!("{index}{other}[incoming]\ndriver = redis\nredis_url = redis://b\n"),
                "[incoming] redis_url",
            ),
            (format!("{other}{redis}"), "[indexer] url"),
            (
                format!("{index}{other}{redis}[DEFAULT]\ncoordination_url = redis://:hunter2@h\n"),
                "[DEFAULT] coordination_url",
            ),
        ] {
            let error = refuse_other_moves(&config, &load(&text)).unwrap_err().to_string();
            assert!(error.contains(place) && !error.contains("hunter2"), "{error}");
        }
    }
}
