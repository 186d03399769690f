//! Loads the policy files and the limits of projects.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use gnudi_access::{Overrides, Policy, PolicyFiles, ProjectLimits, QuotaOptions};

use crate::config::{Config, entries};

/// Where Gnocchi's packages put the file, if it is not beside the configuration.
const FOLDER: &str = "/etc/gnocchi";

/// The former default of `policy_file`. Older versions of oslo.policy read it if there is no `policy.yaml`.
const FORMER_FILE: &str = "policy.json";

/// Gnocchi's rules, overridden by `[oslo_policy] policy_file` and the files in `policy_dirs`; warns of entries without
/// effect.
pub fn load(config: &Config) -> Result<Policy> {
    let files = PolicyFiles {
        files: files(config)?,
        default_rule: config.text("oslo_policy", "policy_default_rule").unwrap_or_default().to_owned(),
    };
    let (policy, warnings) = Policy::load(&files).context("the policy files")?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    for file in &files.files {
        tracing::info!(file = %file.display(), "policy file loaded");
    }
    Ok(policy)
}

fn files(config: &Config) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if let Some(name) = config.text("oslo_policy", "policy_file") {
        match find(config, name) {
            Some(file) => files.push(file),
            None if config.is_set("oslo_policy", "policy_file") => {
                bail!("{} = {name}: there is no such file", config.place("oslo_policy", "policy_file"));
            }
            None => {
                if let Some(file) = find(config, FORMER_FILE) {
                    tracing::warn!(
                        "{}: its rules are not read: name it in [oslo_policy] policy_file if they shall apply",
                        file.display()
                    );
                }
            }
        }
    }
    for name in config.list("oslo_policy", "policy_dirs") {
        let Some(folder) = find(config, &name) else { continue };
        let place = || format!("{} = {name}", config.place("oslo_policy", "policy_dirs"));
        files.extend(entries(&folder).with_context(place)?.into_iter().filter(|path| path.is_file()));
    }
    Ok(files)
}

/// Finds a file or folder where oslo.config would, else where Gnocchi's packages put it.
fn find(config: &Config, name: &str) -> Option<PathBuf> {
    let directories = config.directories().iter().map(PathBuf::as_path);
    directories.chain([Path::new(FOLDER)]).map(|folder| folder.join(name)).find(|path| path.exists())
}

/// `[api] project_...` and `limits_file`.
pub fn quotas(config: &Config) -> Result<QuotaOptions> {
    let limit = |name| config.int("api", name).map(i64::cast_unsigned);
    let limits = ProjectLimits {
        metrics_max: limit("project_metrics_max"),
        measures_per_second: limit("project_measures_per_second"),
        request_cost_per_second: limit("project_request_cost_per_second"),
    };
    let overrides = match config.text("api", "limits_file") {
        Some(file) => Overrides::load(Path::new(file)).with_context(|| config.place("api", "limits_file"))?,
        None => Overrides::default(),
    };
    Ok(QuotaOptions {
        limits,
        projects: overrides.over(limits),
        figures: config.bool("api", "project_figures"),
    })
}
