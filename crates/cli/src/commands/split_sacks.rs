//! `gnudi split-sacks` and `gnocchi-change-sack-size`: double the number of sacks during operation, and show how the
//! old ones drain.
//!
//! Drivers and workers do the work: if this command is interrupted, the split continues, and a later call shows the
//! rest of it.

use std::{
    fmt::Display,
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use gnudi_engine::{ClusterStatus, process_status::ProcessKind};
use gnudi_model::SackCount;

use super::{
    messages::{say, say_part},
    status::grouped,
};
use crate::{
    args::{SackSizeArgs, StoreArgs},
    config::{Config, Deployment},
    logging,
    store::{Journaling, RetryPolicy, Store},
};

const POLL_DELAY: Duration = Duration::from_millis(200);

/// Interval of progress lines when not on a terminal.
const LINE_DELAY: Duration = Duration::from_secs(5);

pub fn run(args: &StoreArgs) -> Result<()> {
    with_store(args, async |store| split(&store, false).await)
}

pub fn run_to_size(args: &SackSizeArgs) -> Result<()> {
    let wanted = args.requested_count().context("the new number of sacks is missing")?;
    with_store(&args.store, async |store| {
        let present = store.engine.numbering();
        if doublings(present.count, wanted)? == 0 {
            say(format_args!("there are {wanted} sacks already"));
            return if present.draining { split(&store, true).await } else { Ok(()) };
        }
        // Counted anew each time: a call completes a split that an interrupted run has begun, and doubles nothing then.
        while doublings(store.engine.numbering().count, wanted)? > 0 {
            split(&store, false).await?;
        }
        Ok(())
    })
}

fn with_store(args: &StoreArgs, work: impl AsyncFnOnce(Store) -> Result<()>) -> Result<()> {
    let config = Config::load(&args.program)?;
    logging::start_quietly(&args.program, &config);
    super::runtime(&config, "split", Some(1))?.block_on(async {
        if let (Deployment::Embedded(dir), _) = Deployment::of(&config, args.data_dir.as_deref())? {
            bail!(
                "the sacks of an embedded store ({}) cannot be split: one process owns them all, and more would not help it",
                dir.display()
            );
        }
        work(Store::open(args, &config, RetryPolicy::for_command(), Journaling::Off).await?).await
    })
}

/// How many times the present count must be doubled.
fn doublings(present: SackCount, wanted: u16) -> Result<u32> {
    let present = present.get();
    let times = (wanted / present).checked_ilog2().unwrap_or(0);
    let reached = u32::from(present) << times;
    ensure!(
        reached == u32::from(wanted),
        "there are {present} sacks, and their count can only be doubled, once or several times: {wanted} is not {}",
        reachable(present)
    );
    Ok(times)
}

/// `256, 512, 1024, ...`
fn reachable(present: u16) -> String {
    let counts = std::iter::successors(present.checked_mul(2), |count| count.checked_mul(2));
    let counts: Vec<String> = counts.map(|count| count.to_string()).collect();
    if counts.is_empty() { "possible: there can be 65535".to_owned() } else { counts.join(", ") }
}

/// Doubles the count, or continues a split in progress, until the old sacks are gone.
async fn split(store: &Store, has_begun: bool) -> Result<()> {
    if !has_begun {
        let before = store.engine.numbering();
        let numbering = store.engine.split_sacks().await?;
        if before.draining {
            say(format_args!("going on with a split that has begun: {} sacks", numbering.count.get()));
        } else {
            say(format_args!("{} sacks: new measures go to them now", numbering.count.get()));
        }
    }
    let Some(topology) = store.incoming.topology() else { bail!("the sacks of this store cannot be split") };
    let mut progress = ProgressLine::default();
    loop {
        let settled = topology.settle().await;
        let status = store.engine.cluster().await;
        match (settled, status) {
            (Ok(numbering), Ok(status)) if !numbering.draining => {
                progress.end();
                say(format_args!(
                    "done: the old sacks are empty, {} sacks, {}",
                    status.sacks,
                    backlog_text(&status)
                ));
                return Ok(());
            }
            // The split continues without this program; this program continues once the store responds.
            (settled, Ok(status)) => {
                if let Some(line) = line_of(&status, settled.err()) {
                    progress.print(&line);
                }
            }
            (_, Err(error)) => progress.print(&format!("no answer, trying again: {error}")),
        }
        tokio::time::sleep(POLL_DELAY).await;
    }
}

/// How far a split is. `failure`: why it cannot be ended.
fn line_of(status: &ClusterStatus, failure: Option<impl Display>) -> Option<String> {
    let failure = failure.map(|error| format!("it cannot end, trying again: {error}"));
    let Some(split) = status.split else { return failure };
    let mut line =
        format!("{} of {} old sacks are empty, {}", split.drained, split.old_sacks, backlog_text(status));
    if !status.processes.iter().any(|process| process.status.kind == ProcessKind::Metricd) {
        line += "; no metricd is running: start one";
    }
    if let Some(failure) = failure {
        line += "; ";
        line += &failure;
    }
    Some(line)
}

fn backlog_text(status: &ClusterStatus) -> String {
    format!("{} measures wait", grouped(status.backlog_measures))
}

/// A progress line: overwritten on a terminal, repeated at intervals elsewhere.
#[derive(Default)]
struct ProgressLine {
    last: String,
    since: Option<Instant>,
}

impl ProgressLine {
    fn print(&mut self, line: &str) {
        let is_terminal = std::io::stdout().is_terminal();
        if self.takes(line, is_terminal, Instant::now()) {
            if is_terminal {
                say_part(format_args!("\r\x1b[K{line}"));
            } else {
                say(line);
            }
        }
    }

    /// Whether to print a line now; then it is the last one. Another is offered soon.
    fn takes(&mut self, line: &str, is_terminal: bool, now: Instant) -> bool {
        let is_early = self.since.is_some_and(|since| now.duration_since(since) < LINE_DELAY);
        if line == self.last || (is_early && !is_terminal) {
            return false;
        }
        self.since = Some(now);
        line.clone_into(&mut self.last);
        true
    }

    fn end(&self) {
        if std::io::stdout().is_terminal() && !self.last.is_empty() {
            say("");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    #[test]
    fn a_size_is_the_present_one_doubled() {
        let count = |count| SackCount(NonZeroU16::new(count).unwrap());
        for (present, wanted, times) in
            [(128, 128, 0), (128, 256, 1), (128, 1024, 3), (1, 32_768, 15), (3, 48, 4)]
        {
            assert_eq!(doublings(count(present), wanted).unwrap(), times, "{present} {wanted}");
        }
        for (present, wanted) in [(128, 64), (128, 100), (128, 384), (128, 1), (40_000, 65_535), (3, 4)] {
            let error = doublings(count(present), wanted).unwrap_err().to_string();
            assert!(error.contains(&present.to_string()) && error.contains(&wanted.to_string()), "{error}");
        }
        assert_eq!(reachable(20_000), "40000");
    }

    #[test]
    fn a_split_that_cannot_end_says_why() {
        let status = r#"{"sacks": 16, "split": {"old_sacks": 8, "drained": 8}, "processes": [], "units": [],
            "backlog_measures": 0, "backlog_bytes": 0}"#;
        let mut status = ClusterStatus::from_json(status.as_bytes()).unwrap();
        let line = line_of(&status, Some("read-only")).unwrap();
        assert!(
            line.starts_with("8 of 8 old sacks are empty") && line.ends_with("again: read-only"),
            "{line}"
        );
        status.split = None;
        assert_eq!(line_of(&status, Some("read-only")).unwrap(), "it cannot end, trying again: read-only");
        assert_eq!(line_of(&status, None::<&str>), None);
    }

    #[test]
    fn a_line_that_came_too_early_is_printed_later() {
        let (mut progress, start) = (ProgressLine::default(), Instant::now());
        let mut takes = |line, seconds| progress.takes(line, false, start + Duration::from_secs(seconds));
        assert!(takes("a", 0));
        assert!(!takes("b", 1));
        assert!(takes("b", 5));
        assert!(!takes("b", 20), "it is printed already");
    }
}
