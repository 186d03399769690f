//! `gnudi benchmark measures add|show`: pushes measures of one or a few metrics in batches, and reads them, like
//! gnocchiclient.
//!
//! As with the client, all batches of a run are the same: it measures how fast the server accepts them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, Subcommand};
use fastrand::Rng;
use gnudi_client::uri::Query;
use gnudi_model::{Timestamp, python};

use crate::{
    commands::{BATCH_MAX, REQUESTS_MAX, up_to},
    context::Context,
    findings::{Findings, Value},
    load::{Keep, Requests, requests::with_length},
    phase::{Finished, LoadOptions, Phase},
    progress,
    subject::{self, SubjectArgs, Subjects},
    target::Target,
};

const DAY_SECONDS: i64 = 86_400;

/// Interval of printing the backlog.
const PRINT_INTERVAL: Duration = Duration::from_secs(1);

/// Measures of a metric created to be shown: ten days, one every two minutes, in this number of requests.
const FILL_REQUESTS: i64 = 10;
const FILL_STEP_SECONDS: i64 = 120;

/// Add measures and show them.
#[derive(Clone, Debug, Subcommand)]
pub enum MeasuresOptions {
    Add(Add),
    Show(Show),
}

/// Benchmark adding measures.
#[derive(Clone, Debug, Args)]
pub struct Add {
    #[command(flatten)]
    load: LoadOptions,
    /// Number of total measures to send.
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = up_to::<REQUESTS_MAX>)]
    count: u64,
    /// Number of measures to send in each batch.
    #[arg(short, long, alias = "batch-size", value_name = "N", default_value_t = 1, allow_negative_numbers = true,
          value_parser = up_to::<BATCH_MAX>)]
    batch: u64,
    /// First timestamp to use [default: a year ago].
    #[arg(short = 's', long, value_name = "TIME", allow_hyphen_values = true)]
    timestamp_start: Option<String>,
    /// Last timestamp to use [default: now].
    #[arg(short = 'e', long, value_name = "TIME", allow_hyphen_values = true)]
    timestamp_end: Option<String>,
    /// Wait for all measures to be processed.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    subjects: SubjectArgs,
}

/// Benchmark showing measures.
#[derive(Clone, Debug, Args)]
pub struct Show {
    #[command(flatten)]
    load: LoadOptions,
    /// Number of times to get the measures.
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = up_to::<REQUESTS_MAX>)]
    count: u64,
    /// Aggregation to retrieve.
    #[arg(long, value_name = "METHOD")]
    aggregation: Option<String>,
    /// Beginning of the period.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    start: Option<String>,
    /// End of the period.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    stop: Option<String>,
    /// Granularity to retrieve.
    #[arg(short, long, value_name = "SPAN")]
    granularity: Option<String>,
    /// Force aggregation of all known measures.
    #[arg(long)]
    refresh: bool,
    /// Granularity to resample time-series to.
    #[arg(long, value_name = "SPAN")]
    resample: Option<String>,
    /// ID of the resource whose metric is named.
    #[arg(short, long, value_name = "ID")]
    resource_id: Option<String>,
    /// Archive policy of the metric created if none is given [default: low].
    #[arg(short, long, value_name = "NAME")]
    archive_policy_name: Option<String>,
    /// ID or name of the metric [default: one created for the run, with ten days of measures].
    #[arg(value_name = "METRIC")]
    metric: Option<String>,
}

pub fn run(options: &MeasuresOptions, context: &Context) -> Result<Findings> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    match options {
        MeasuresOptions::Add(add) => add.run(context, now),
        MeasuresOptions::Show(show) => show.run(context, now),
    }
}

impl Add {
    fn run(&self, context: &Context, now: Duration) -> Result<Findings> {
        let (start, end) = self.period(now.as_secs() as i64)?;
        let batch = self.batch.min(self.count);
        ensure!(
            end - start >= batch as i64,
            "The specified time range is not large enough for the number of points"
        );
        let paths = self.subjects.paths()?;
        let target = Target::open(&self.load.server)?;
        if self.wait {
            // Missing permission for the status is reported before the load.
            backlog(&target)?;
        }
        let subjects = self.subjects.subjects(paths, &target)?;
        let head = |path: &String| target.headers.open_json_head(&format!("{path}/measures"));
        let body = measures(start, (end - start) / batch as i64, batch, u64::from(now.subsec_nanos()));
        let heads = subjects.paths.iter().map(head).collect();
        let requests = Requests::grid(heads, vec![with_length(&body, 0)]);
        let count = self.count / batch;
        let phase = Phase { verb: "push", requests: &requests, count, keep: Keep::Nothing };
        let pushed = phase.run(&self.load, &target, context)?.require_success()?;
        let title =
            format!("sends {} measures, {batch} a request, with {} workers", self.count, pushed.workers);
        let mut findings = Findings::new(title);
        pushed.add_client_figures(&mut findings);
        findings.tell("measures per request", Value::Count(batch));
        findings.compare("measures push speed", Value::rate(batch as f64 * pushed.speed(), "push"));
        let waited = self.wait.then(|| wait_processed(&target, context));
        add_wait_figures(&pushed, batch, waited, &mut findings);
        pushed.add_own_figures(&mut findings);
        Ok(findings)
    }

    /// The first and the last second.
    fn period(&self, now: i64) -> Result<(i64, i64)> {
        let time = |text: &Option<String>, name: &str, default: i64| match text {
            Some(text) => {
                seconds_of(text, now).with_context(|| format!("--timestamp-{name}: {text:?} is not a time"))
            }
            None => Ok(default),
        };
        let start = time(&self.timestamp_start, "start", now - 365 * DAY_SECONDS)?;
        let end = time(&self.timestamp_end, "end", now)?;
        ensure!(end > start, "End timestamp must be after start timestamp");
        Ok((start, end))
    }
}

impl Show {
    fn run(&self, context: &Context, now: Duration) -> Result<Findings> {
        let paths = subject::paths(&self.metric, self.resource_id.as_deref())?;
        let target = Target::open(&self.load.server)?;
        let subjects = Subjects::of(paths, self.archive_policy_name.as_deref(), &target)?;
        if self.metric.is_none() {
            fill(&subjects.paths[0], &target, now.as_secs() as i64)?;
        }
        let path = self.path(&subjects.paths[0]);
        // The first response shows the number of measures; it is not measured.
        let per_request = points(&target.call("GET", &path)?);
        let requests = Requests::listed(vec![target.headers.bare("GET", &path)]);
        let phase = Phase { verb: "show", requests: &requests, count: self.count, keep: Keep::Nothing };
        let shown = phase.run(&self.load, &target, context)?.require_success()?;
        let title =
            format!("gets {per_request} measures {} times with {} workers", self.count, shown.workers);
        let mut findings = Findings::new(title);
        shown.add_client_figures(&mut findings);
        findings.tell("measures per request", Value::Count(per_request));
        let seconds = shown.outcome.elapsed.as_secs_f64();
        let rate = (per_request * shown.outcome.calls) as f64 / seconds.max(f64::MIN_POSITIVE);
        findings.compare("measures show rate", Value::rate(rate, "measure"));
        shown.add_own_figures(&mut findings);
        Ok(findings)
    }

    fn path(&self, metric: &str) -> String {
        let mut query = Query::new(&format!("{metric}/measures"));
        query.add_some("aggregation", self.aggregation.as_deref());
        query.add_some("start", self.start.as_deref().map(python::normal_date).as_deref());
        query.add_some("stop", self.stop.as_deref().map(python::normal_date).as_deref());
        query.add_some("granularity", self.granularity.as_deref());
        query.add_some("resample", self.resample.as_deref());
        if self.refresh {
            query.add("refresh", "true");
        }
        query.finish()
    }
}

/// Adds the figures of waiting for the backlog. If the wait failed, those of the push remain, marked as partial.
fn add_wait_figures(
    pushed: &Finished,
    batch: u64,
    waited: Option<Result<Duration>>,
    findings: &mut Findings,
) {
    let measures = batch as f64 * pushed.outcome.calls as f64;
    let seconds = pushed.outcome.elapsed.as_secs_f64();
    let per_second = |seconds: f64| if seconds > 0.0 { measures / seconds } else { 0.0 };
    match waited.transpose() {
        Ok(None) => {}
        Ok(Some(extra)) => {
            let extra = extra.as_secs_f64();
            findings.compare("extra wait to process measures", Value::Seconds(extra));
            let rate = per_second(seconds + extra);
            findings.compare("measures push and process rate", Value::rate(rate, "measure"));
        }
        Err(error) => findings.partial = Some(format!("{error:#}")),
    }
    findings.compare("measures push rate", Value::rate(per_second(seconds), "measure"));
}

/// A time in whole seconds: a date with optional hours, UTC without a zone; seconds since 1970; or relative to now.
fn seconds_of(text: &str, now: i64) -> Option<i64> {
    let now = Timestamp::from_secs(now);
    let text = python::normal_date(text.trim());
    let date = python::nanoseconds_of_date(&text, now).ok().and_then(|time| python::after_epoch(time).ok());
    date.or_else(|| python::timestamp_of_text(&text, now).ok()).map(Timestamp::secs)
}

/// `[{"timestamp":1420070400,"value":-12345},...]` with 33-bit values, as in gnocchiclient.
fn measures(start: i64, step: i64, count: u64, seed: u64) -> Vec<u8> {
    let mut random = Rng::with_seed(seed);
    let mut value = move || random.i64(-(1 << 32)..1 << 32);
    let items: Vec<String> = (0..count as i64)
        .map(|index| format!("{{\"timestamp\":{},\"value\":{}}}", start + index * step, value()))
        .collect();
    format!("[{}]", items.join(",")).into_bytes()
}

/// Fills the metric up to now, and waits until it is processed.
fn fill(path: &str, target: &Target, now: i64) -> Result<()> {
    let per_request = 10 * DAY_SECONDS / FILL_STEP_SECONDS / FILL_REQUESTS;
    let start = now - per_request * FILL_REQUESTS * FILL_STEP_SECONDS;
    for request in 0..FILL_REQUESTS {
        let from = start + request * per_request * FILL_STEP_SECONDS;
        let body = measures(from, FILL_STEP_SECONDS, per_request as u64, request as u64 + 1);
        target.post(&format!("{path}/measures"), &body)?;
    }
    target.call("GET", &format!("{path}/measures?refresh=true")).map(drop)
}

/// Number of points in a response: the inner lists of `[["2015-01-01T00:00:00+00:00", 60.0, 1.5], ...]`.
fn points(body: &[u8]) -> u64 {
    body.iter().map(|byte| u64::from(*byte == b'[')).sum::<u64>().saturating_sub(1)
}

fn backlog(target: &Target) -> Result<u64> {
    const PATH: &str = "/v1/status?details=false";
    let status: serde_json::Value =
        serde_json::from_slice(&target.call("GET", PATH)?).with_context(|| format!("GET {PATH}"))?;
    let measures = status.pointer("/storage/summary/measures").and_then(serde_json::Value::as_u64);
    measures.with_context(|| format!("GET {PATH}: no number of measures to be processed"))
}

/// Time until the backlog is empty; an error says why the wait ended.
fn wait_processed(target: &Target, context: &Context) -> Result<Duration> {
    let mut printed = Instant::now();
    let left = || backlog(target).context("waiting for the processing");
    progress::until_processed(left, |left| {
        ensure!(!context.stop.is_set(), "interrupted: {left} measures still wait to be processed");
        if context.verbose && printed.elapsed() >= PRINT_INTERVAL {
            printed = Instant::now();
            eprintln!("Remaining measures to be processed: {left}");
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_the_forms_of_the_client() {
        const NOW: i64 = 1_763_000_000;
        for (text, seconds) in [
            ("2015-01-01", 1_420_070_400),
            ("2015-01-01T01:00:00", 1_420_074_000),
            ("2015-01-01 01:00:00.5+01:00", 1_420_070_400),
            ("20150101", 1_420_070_400),
            ("2015-01", 1_420_070_400),
            ("2015", 1_420_070_400),
            ("1420070400", 1_420_070_400),
            ("1420070400.5", 1_420_070_400),
            ("now", NOW),
            ("-1 hour", NOW - 3600),
        ] {
            assert_eq!(seconds_of(text, NOW), Some(seconds), "{text}");
        }
        for text in ["", "yesterday evening", "2015-13-01", "20151301", "1969-01-01", "nan"] {
            assert_eq!(seconds_of(text, NOW), None, "{text}");
        }
    }
}
