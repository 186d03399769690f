//! `gnudi benchmark metric create|show|delete`: creates, shows and deletes metrics, one per request, like
//! gnocchiclient.

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Map, json};
use uuid::Uuid;

use crate::{
    commands::{REQUESTS_MAX, up_to},
    context::{Context, Stop},
    findings::Findings,
    load::{Keep, Load, Outcome, Requests, Until},
    phase::{Finished, LoadOptions, Phase},
    subject::{self, SubjectArgs},
    target::Target,
};

/// Create, show and delete metrics.
#[derive(Clone, Debug, Subcommand)]
pub enum MetricOptions {
    Create(Create),
    Show(Show),
    Delete(Delete),
}

/// Benchmark the creation of metrics, and their deletion.
#[derive(Clone, Debug, Args)]
pub struct Create {
    #[command(flatten)]
    load: LoadOptions,
    /// Number of metrics to create.
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = up_to::<REQUESTS_MAX>)]
    count: u64,
    /// Name of the archive policy [default: by the server's rules].
    #[arg(short, long, value_name = "NAME")]
    archive_policy_name: Option<String>,
    /// Create them in this resource, with unique names.
    #[arg(short, long, value_name = "ID")]
    resource_id: Option<String>,
    /// Keep created metrics.
    #[arg(short, long)]
    keep: bool,
}

/// Benchmark showing metrics.
#[derive(Clone, Debug, Args)]
pub struct Show {
    #[command(flatten)]
    load: LoadOptions,
    /// Number of times to get each metric.
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = up_to::<REQUESTS_MAX>)]
    count: u64,
    #[command(flatten)]
    subjects: SubjectArgs,
}

/// Benchmark the deletion of metrics: the given ones, or new ones.
#[derive(Clone, Debug, Args)]
pub struct Delete {
    #[command(flatten)]
    load: LoadOptions,
    /// Create this number of metrics first, and delete them.
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = up_to::<REQUESTS_MAX>,
          required_unless_present = "metrics", conflicts_with = "metrics")]
    count: Option<u64>,
    /// Archive policy of the created metrics [default: by the server's rules].
    #[arg(short, long, value_name = "NAME")]
    archive_policy_name: Option<String>,
    /// ID of the resource whose metrics are named.
    #[arg(short, long, value_name = "ID")]
    resource_id: Option<String>,
    /// IDs or names of the metrics to delete.
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,
}

pub fn run(options: &MetricOptions, context: &Context) -> Result<Findings> {
    match options {
        MetricOptions::Create(create) => create.run(context),
        MetricOptions::Show(show) => show.run(context),
        MetricOptions::Delete(delete) => delete.run(context),
    }
}

impl Create {
    fn run(&self, context: &Context) -> Result<Findings> {
        let target = Target::open(&self.load.server)?;
        let kind = (self.resource_id.as_deref(), self.archive_policy_name.as_deref());
        let (created, deletions) = create(&target, kind, self.count, &self.load, context)?;
        let title = format!("creates {} metrics with {} workers", self.count, created.workers);
        let mut findings = Findings::new(title);
        created.add_client_figures(&mut findings);
        if created.interrupted && !self.keep {
            remove(&deletions, &target, &self.load);
        }
        if self.keep || created.interrupted {
            created.add_own_figures(&mut findings);
            return Ok(findings);
        }
        let deleted = delete(&deletions, &target, &self.load, context)?;
        deleted.add_client_figures(&mut findings);
        created.add_own_figures(&mut findings);
        add_deletion_figures(&deleted, &mut findings);
        Ok(findings)
    }
}

impl Show {
    fn run(&self, context: &Context) -> Result<Findings> {
        // Validate the command line before the server is contacted.
        let paths = self.subjects.paths()?;
        let target = Target::open(&self.load.server)?;
        let subjects = self.subjects.subjects(paths, &target)?;
        let requests = subjects.paths.iter().map(|path| target.headers.bare("GET", path)).collect();
        let count = self.count * subjects.paths.len() as u64;
        let phase = Phase { verb: "show", requests: &Requests::listed(requests), count, keep: Keep::Nothing };
        let shown = phase.run(&self.load, &target, context)?.require_success()?;
        let title =
            format!("shows {} metrics {count} times with {} workers", subjects.paths.len(), shown.workers);
        let mut findings = Findings::new(title);
        shown.add_client_figures(&mut findings);
        shown.add_own_figures(&mut findings);
        Ok(findings)
    }
}

impl Delete {
    fn run(&self, context: &Context) -> Result<Findings> {
        let resource = self.resource_id.as_deref();
        let paths = subject::paths(&self.metrics, resource)?;
        let target = Target::open(&self.load.server)?;
        let mut findings = Findings::default();
        let deletions = if let Some(count) = self.count {
            let kind = (resource, self.archive_policy_name.as_deref());
            let unmeasured = LoadOptions { no_calibration: true, ..self.load.clone() };
            let (created, deletions) = create(&target, kind, count, &unmeasured, context)?;
            if created.interrupted {
                findings.partial = Some("interrupted before the first deletion".to_owned());
                remove(&deletions, &target, &self.load);
                return Ok(findings);
            }
            let Outcome { failure, failures, .. } = &created.outcome;
            findings.notes.extend(
                failure.iter().map(|failure| format!("{failures} metrics could not be created: {failure}")),
            );
            deletions
        } else {
            Requests::listed(paths.iter().map(|path| target.headers.bare("DELETE", path)).collect())
        };
        let deleted = delete(&deletions, &target, &self.load, context)?.require_success()?;
        findings.title = format!("deletes {} metrics with {} workers", deleted.count, deleted.workers);
        deleted.add_client_figures(&mut findings);
        add_deletion_figures(&deleted, &mut findings);
        Ok(findings)
    }
}

/// Creates metrics; returns also the requests that delete each of the created ones.
fn create(
    target: &Target,
    (resource, policy): (Option<&str>, Option<&str>),
    count: u64,
    options: &LoadOptions,
    context: &Context,
) -> Result<(Finished, Requests)> {
    let mut spec = Map::new();
    spec.extend(policy.map(|policy| ("archive_policy_name".to_owned(), json!(policy))));
    let spec = serde_json::Value::from(spec);
    let path = resource.map_or_else(|| "/v1/metric".to_owned(), subject::resource_path);
    let (requests, keep) = match resource {
        // The same request for all: metrics without a name.
        None => (Requests::listed(vec![target.headers.post_json(&path, &spec)]), Keep::Ids),
        // A resource responds with all its metrics, not with the new one.
        Some(_) => (named_creations(target, &path, &spec.to_string(), count), Keep::Indices),
    };
    let phase = Phase { verb: "create", requests: &requests, count, keep };
    let mut finished = phase.run(options, target, context)?.require_success()?;
    let Outcome { indices, ids, .. } = &mut finished.outcome;
    let metrics = match resource {
        None => std::mem::take(ids).into_iter().map(Vec::from).collect(),
        Some(_) => indices.drain(..).map(|index| requests.metrics[index as usize].clone()).collect(),
    };
    let whole = target.headers.bare("DELETE", &(path + "/"));
    let at = whole.windows(9).position(|part| part == b" HTTP/1.1").expect("a request has a version");
    let (starts, ends) = (vec![whole[..at].to_vec()], vec![whole[at..].to_vec()]);
    Ok((finished, Requests { starts, metrics, ends }))
}

/// Metrics of a resource with names that are unique, also across runs.
fn named_creations(target: &Target, path: &str, spec: &str, count: u64) -> Requests {
    let run = Uuid::new_v4().simple().to_string();
    let names = (0..count).map(|index| format!("benchmark-{}-{index:09}", &run[..8]).into_bytes());
    let body = ["{\"".to_owned(), format!("\": {spec}}}")].map(String::into_bytes);
    Requests::named(&target.headers.open_json_head(path), names.collect(), [body])
}

fn delete(
    requests: &Requests,
    target: &Target,
    options: &LoadOptions,
    context: &Context,
) -> Result<Finished> {
    let count = requests.distinct();
    Phase { verb: "delete", requests, count, keep: Keep::Nothing }.run(options, target, context)
}

/// Deletes the metrics that an interrupted run has created; not measured.
fn remove(requests: &Requests, target: &Target, options: &LoadOptions) {
    let (count, stop) = (requests.distinct(), Stop::default());
    if count == 0 {
        return;
    }
    eprintln!("deleting the {count} metrics that were created");
    let connections = options.workers() as usize;
    let outcome = Load { connections, ..target.load(requests, Until::Count(count), &stop) }.run();
    if let Some(failure) = outcome.failure {
        eprintln!("{} of them are left: {failure}", count - outcome.calls);
    }
}

fn add_deletion_figures(deleted: &Finished, findings: &mut Findings) {
    deleted.add_own_figures(findings);
    let left = deleted.count - deleted.outcome.calls.min(deleted.count);
    if left > 0 {
        findings.note(format!("{left} metrics may not be deleted"));
    }
}
