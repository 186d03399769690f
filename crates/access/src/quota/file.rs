//! The file of per-project limits, as
//! `id: {metrics_max: .., measures_per_second: .., request_cost_per_second: ..}`.
//! A missing limit is the general one; `null` means no limit.

use std::{collections::HashMap, path::Path};

use serde::{Deserialize, Deserializer};

use super::ProjectLimits;
use crate::file::{self, FileError};

/// The maximum size of the file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A limit in the file: `None` is the general one, `Some(None)` means no limit.
type Limit = Option<Option<u64>>;

/// A project's limits.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectEntry {
    #[serde(default, deserialize_with = "given")]
    metrics_max: Limit,
    #[serde(default, deserialize_with = "given")]
    measures_per_second: Limit,
    #[serde(default, deserialize_with = "given")]
    request_cost_per_second: Limit,
}

/// A limit that is there: a number or `null`.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Limit, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Per-project limits.
#[derive(Clone, Debug, Default)]
pub struct Overrides(HashMap<String, ProjectEntry>);

impl Overrides {
    /// # Errors
    /// Errors of reading and parsing, with the line.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let malformed = |problem| FileError::Malformed { path: path.to_owned(), problem };
        Overrides::parse(&file::read(path, FILE_BYTES_MAX)?).map_err(malformed)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let projects: Option<HashMap<String, ProjectEntry>> =
            serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        let projects = projects.unwrap_or_default();
        for (project, given) in &projects {
            let rates = [given.measures_per_second, given.request_cost_per_second];
            if rates.contains(&Some(Some(0))) {
                return Err(format!(
                    "project \"{project}\": a rate of 0 would refuse every request: write null for no limit, or at least 1"
                ));
            }
        }
        Ok(Overrides(projects))
    }

    /// The limits by project; missing ones are taken from `others`.
    pub fn over(self, others: ProjectLimits) -> HashMap<String, ProjectLimits> {
        let limits = |given: ProjectEntry| ProjectLimits {
            metrics_max: given.metrics_max.unwrap_or(others.metrics_max),
            measures_per_second: given.measures_per_second.unwrap_or(others.measures_per_second),
            request_cost_per_second: given.request_cost_per_second.unwrap_or(others.request_cost_per_second),
        };
        self.0.into_iter().map(|(project, given)| (project, limits(given))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_given_is_as_for_all() {
        let others = ProjectLimits {
            metrics_max: Some(5),
            measures_per_second: Some(6),
            request_cost_per_second: None,
        };
        let text =
            "# ours\n\"5f\": {metrics_max: 7, measures_per_second: null}\nb:\n  request_cost_per_second: 8\n";
        let projects = Overrides::parse(text).unwrap().over(others);
        let expected = |metrics, measures, cost| ProjectLimits {
            metrics_max: metrics,
            measures_per_second: measures,
            request_cost_per_second: cost,
        };
        assert_eq!(projects["5f"], expected(Some(7), None, None));
        assert_eq!(projects["b"], expected(Some(5), Some(6), Some(8)));
        assert!(Overrides::parse("").unwrap().over(others).is_empty());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for text in
            ["a: 1", "a: {metric_max: 1}", "a: {metrics_max: -1}", "a: {metrics_max: x}", "- a", "a: ["]
        {
            let problem = Overrides::parse(text).unwrap_err();
            assert!(problem.contains("line 1"), "{text}: {problem}");
        }
        assert!(Overrides::parse("a: {measures_per_second: 0}").unwrap_err().contains("project \"a\""));
    }
}
