//! `gnudi benchmark metric create|show|delete`: metrics created, shown and deleted one a request, as gnocchiclient does.

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Map, json};
use uuid::Uuid;

use crate::{
    commands::count,
    context::{Context, Stop},
    findings::Findings,
    load::{IdText, Load, Requests, Until, requests::with_length},
    phase::{Finished, LoadOptions, Phase},
    subject::{self, Subjects},
    target::Target,
};

/// Create, show and delete metrics.
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    Create(Create),
    Show(Show),
    Delete(Delete),
}

/// Benchmark the creation of metrics, and their deletion.
#[derive(Clone, Debug, Args)]
struct Create {
    #[command(flatten)]
    load: LoadOptions,
    /// Number of metrics to create.
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = count::requests)]
    count: u64,
    /// Name of the archive policy [default: what the server's rules say].
    #[arg(short, long, value_name = "NAME")]
    archive_policy_name: Option<String>,
    /// Create them as metrics of this resource, with names of their own.
    #[arg(short, long, value_name = "ID")]
    resource_id: Option<String>,
    /// Keep created metrics.
    #[arg(short, long)]
    keep: bool,
}

/// Benchmark showing metrics.
#[derive(Clone, Debug, Args)]
struct Show {
    #[command(flatten)]
    load: LoadOptions,
    /// How often to get each metric.
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = count::requests)]
    count: u64,
    /// ID of the resource whose metrics are named.
    #[arg(short, long, value_name = "ID")]
    resource_id: Option<String>,
    /// Archive policy of the metric that is made for the run where none is named [default: low].
    #[arg(short, long, value_name = "NAME")]
    archive_policy_name: Option<String>,
    /// IDs or names of the metrics [default: one that is made for the run].
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,
}

/// Benchmark the deletion of metrics: of those named, or of new ones.
#[derive(Clone, Debug, Args)]
struct Delete {
    #[command(flatten)]
    load: LoadOptions,
    /// Create so many metrics first, and delete those.
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = count::requests,
          required_unless_present = "metrics", conflicts_with = "metrics")]
    count: Option<u64>,
    /// Archive policy of the metrics that are created [default: what the server's rules say].
    #[arg(short, long, value_name = "NAME")]
    archive_policy_name: Option<String>,
    /// ID of the resource whose metrics are named.
    #[arg(short, long, value_name = "ID")]
    resource_id: Option<String>,
    /// IDs or names of the metrics to delete.
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,
}

pub fn run(options: &Options, context: &mut Context) -> Result<Findings> {
    match &options.command {
        Command::Create(create) => create.run(context),
        Command::Show(show) => show.run(context),
        Command::Delete(delete) => delete.run(context),
    }
}

impl Create {
    fn run(&self, context: &Context) -> Result<Findings> {
        let target = self.load.target.open()?;
        let requests = match &self.resource_id {
            None => creations(&target, self.archive_policy_name.as_deref()),
            Some(resource) => {
                named_creations(&target, resource, self.archive_policy_name.as_deref(), self.count)
            }
        };
        let phase = Phase { verb: "create", requests: &requests, count: self.count, keep_ids: true };
        let mut created = phase.run(&self.load, &target, context)?.require_success()?;
        let ids = std::mem::take(&mut created.outcome.ids);
        let title = format!("creates {} metrics with {} workers", self.count, created.workers);
        let mut findings = Findings::new("metric create", title);
        created.tell_clients(&mut findings);
        if self.keep || ids.is_empty() {
            created.tell_own(&mut findings);
            return Ok(findings);
        }
        if created.interrupted {
            remove(ids, &target, &self.load);
            created.tell_own(&mut findings);
            return Ok(findings);
        }
        let deleted = delete(ids, &target, &self.load, context)?;
        deleted.tell_clients(&mut findings);
        created.tell_own(&mut findings);
        tell_deleted(&deleted, &mut findings);
        Ok(findings)
    }
}

impl Show {
    fn run(&self, context: &Context) -> Result<Findings> {
        // What the command line says is looked at before the server is.
        for metric in &self.metrics {
            subject::path(metric, self.resource_id.as_deref())?;
        }
        let target = self.load.target.open()?;
        let policy = self.archive_policy_name.as_deref();
        let subjects = Subjects::of(&self.metrics, self.resource_id.as_deref(), policy, &target)?;
        let requests = subjects.paths.iter().map(|path| target.headers.bare("GET", path)).collect();
        let count = self.count * subjects.paths.len() as u64;
        let phase = Phase { verb: "show", requests: &Requests::Listed(requests), count, keep_ids: false };
        let shown = phase.run(&self.load, &target, context)?.require_success()?;
        let title =
            format!("shows {} metrics {count} times with {} workers", subjects.paths.len(), shown.workers);
        let mut findings = Findings::new("metric show", title);
        shown.tell_clients(&mut findings);
        shown.tell_own(&mut findings);
        Ok(findings)
    }
}

impl Delete {
    fn run(&self, context: &Context) -> Result<Findings> {
        let resource = self.resource_id.as_deref();
        let paths: Vec<String> =
            self.metrics.iter().map(|metric| subject::path(metric, resource)).collect::<Result<_>>()?;
        let target = self.load.target.open()?;
        let mut findings = Findings::new("metric delete", "");
        let deleted = if let Some(count) = self.count {
            let requests = creations(&target, self.archive_policy_name.as_deref());
            let phase = Phase { verb: "create", requests: &requests, count, keep_ids: true };
            let unmeasured = LoadOptions { no_calibration: true, ..self.load.clone() };
            let created = phase.run(&unmeasured, &target, context)?.require_success()?;
            if created.interrupted {
                findings.partial = Some("interrupted before the first deletion".to_owned());
                remove(created.outcome.ids, &target, &self.load);
                return Ok(findings);
            }
            if let Some(failure) = &created.outcome.failure {
                findings
                    .note(format!("{} metrics could not be created: {failure}", created.outcome.failures));
            }
            delete(created.outcome.ids, &target, &self.load, context)?
        } else {
            let requests = paths.iter().map(|path| target.headers.bare("DELETE", path)).collect();
            let requests = Requests::Listed(requests);
            let phase =
                Phase { verb: "delete", requests: &requests, count: paths.len() as u64, keep_ids: false };
            phase.run(&self.load, &target, context)?
        };
        let deleted = deleted.require_success()?;
        findings.title = format!("deletes {} metrics with {} workers", deleted.count, deleted.workers);
        deleted.tell_clients(&mut findings);
        tell_deleted(&deleted, &mut findings);
        Ok(findings)
    }
}

/// One request for all: metrics without a name.
fn creations(target: &Target, policy: Option<&str>) -> Requests {
    let body = spec(policy).to_string();
    Requests::Listed(vec![target.headers.post("/v1/metric", body.as_bytes())])
}

fn spec(policy: Option<&str>) -> serde_json::Value {
    let mut spec = Map::new();
    spec.extend(policy.map(|policy| ("archive_policy_name".to_owned(), json!(policy))));
    spec.into()
}

/// Metrics of a resource, whose names differ from one another and from those of other runs.
fn named_creations(target: &Target, resource: &str, policy: Option<&str>, count: u64) -> Requests {
    let run = Uuid::new_v4().simple().to_string();
    let names: Vec<Vec<u8>> =
        (0..count).map(|index| format!("benchmark-{}-{index:09}", &run[..8]).into_bytes()).collect();
    let tail = format!("\": {}}}", spec(policy)).into_bytes();
    let mut head = target.headers.open_json_head(&subject::resource_path(resource));
    head.extend_from_slice(&with_length(b"{\"", names[0].len() + tail.len()));
    Requests::Named { heads: vec![head], names, bodies: vec![tail] }
}

fn deletions(ids: Vec<IdText>, target: &Target) -> Requests {
    let whole = target.headers.bare("DELETE", "/v1/metric/");
    let at = whole.windows(9).position(|window| window == b" HTTP/1.1").expect("a request has a version");
    Requests::Ids { head: whole[..at].to_vec(), ids, tail: whole[at..].to_vec() }
}

fn delete(ids: Vec<IdText>, target: &Target, options: &LoadOptions, context: &Context) -> Result<Finished> {
    let count = ids.len() as u64;
    let requests = deletions(ids, target);
    Phase { verb: "delete", requests: &requests, count, keep_ids: false }.run(options, target, context)
}

fn tell_deleted(deleted: &Finished, findings: &mut Findings) {
    deleted.tell_own(findings);
    let left = deleted.count - deleted.outcome.calls.min(deleted.count);
    if left > 0 {
        findings.note(format!("{left} metrics may not be deleted"));
    }
}

/// Deletes what an interrupted run has created; not measured.
fn remove(ids: Vec<IdText>, target: &Target, options: &LoadOptions) {
    let count = ids.len() as u64;
    eprintln!("deleting the {count} metrics that were created");
    let (requests, stop) = (deletions(ids, target), Stop::default());
    let outcome = Load {
        connections: options.workers() as usize,
        silence_max: target.silence_max,
        ..Load::new(target.address, &requests, Until::Count(count), &stop)
    }
    .run();
    if let Some(failure) = outcome.failure {
        eprintln!("{} of them are left: {failure}", count - outcome.calls);
    }
}
