//! The metrics that a command works on: the given ones, or one created for the run and deleted at its end.

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use gnudi_client::{Metric, uri};
use gnudi_model::python;
use serde_json::json;

use crate::target::Target;

const DEFAULT_POLICY: &str = "low";

/// The metrics of a command, or the policy of the one created for the run.
#[derive(Clone, Debug, Args)]
pub struct SubjectArgs {
    /// ID of the resource whose metrics are named.
    #[arg(short, long, value_name = "ID")]
    resource_id: Option<String>,
    /// Archive policy of the metric created if none is given [default: low].
    #[arg(short, long, value_name = "NAME")]
    archive_policy_name: Option<String>,
    /// IDs or names of the metrics [default: one created for the run].
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,
}

impl SubjectArgs {
    pub fn paths(&self) -> Result<Vec<String>> {
        paths(&self.metrics, self.resource_id.as_deref())
    }

    /// The metrics with these paths, or one created for the run.
    pub fn subjects<'a>(&self, paths: Vec<String>, target: &'a Target) -> Result<Subjects<'a>> {
        Subjects::of(paths, self.archive_policy_name.as_deref(), target)
    }
}

/// Metrics by their paths.
pub struct Subjects<'a> {
    /// Such as `/v1/metric/0a7a15ff-aa13-4ac2-897c-9bdf30ce175b`.
    pub paths: Vec<String>,
    /// Set if the metrics were created for the run: they are deleted on drop.
    made_on: Option<&'a Target>,
}

/// The path of a metric: by id, or by resource and name.
fn path(metric: &str, resource: Option<&str>) -> Result<String> {
    ensure!(!metric.is_empty(), "the metric has no name");
    if let Some(resource) = resource {
        return Ok(uri::path(&(resource_path(resource) + "/"), metric));
    }
    ensure!(
        python::parse_uuid(metric).is_some(),
        "resource_id is required to get a metric by name: {metric}"
    );
    Ok(uri::path("/v1/metric/", metric))
}

pub fn paths<'a>(
    metrics: impl IntoIterator<Item = &'a String>,
    resource: Option<&str>,
) -> Result<Vec<String>> {
    metrics.into_iter().map(|metric| path(metric, resource)).collect()
}

pub fn resource_path(resource: &str) -> String {
    uri::path("/v1/resource/generic/", resource) + "/metric"
}

impl<'a> Subjects<'a> {
    /// The metrics with these paths; without any, a new one of the policy.
    pub fn of(paths: Vec<String>, policy: Option<&str>, target: &'a Target) -> Result<Self> {
        if !paths.is_empty() {
            return Ok(Subjects { paths, made_on: None });
        }
        let body = json!({ "archive_policy_name": policy.unwrap_or(DEFAULT_POLICY) }).to_string();
        let answer = target.post("/v1/metric", body.as_bytes())?;
        let created: Metric =
            serde_json::from_slice(&answer).context("POST /v1/metric: an answer without an id")?;
        Ok(Subjects { paths: vec![format!("/v1/metric/{}", created.id)], made_on: Some(target) })
    }
}

impl Drop for Subjects<'_> {
    fn drop(&mut self) {
        let Some(target) = self.made_on else { return };
        for path in &self.paths {
            if let Err(error) = target.call("DELETE", path) {
                eprintln!("the metric of this run is left: {error:#}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_by_id_or_by_resource_and_name() {
        let id = "0a7a15ff-aa13-4ac2-897c-9bdf30ce175b";
        assert_eq!(path(id, None).unwrap(), format!("/v1/metric/{id}"));
        assert_eq!(path("cpu load", Some("vm/1")).unwrap(), "/v1/resource/generic/vm%2F1/metric/cpu%20load");
        let error = path("cpu", None).unwrap_err().to_string();
        assert!(error.starts_with("resource_id is required to get a metric by name"), "{error}");
        assert!(path("", Some("vm")).is_err());
    }
}
