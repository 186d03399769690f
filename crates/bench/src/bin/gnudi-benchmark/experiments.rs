//! The experiments of the report: command lines of `gnudi-benchmark`.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::{commands, context::Context, findings::Findings};

/// The published table that each repeats (or another section's name), a title, and the command line after
/// `gnudi-benchmark`.
const ALL: [[&str; 3]; 8] = [
    [
        "R1",
        "metric create, as gnocchiclient does it",
        "versus gnudi gnocchi --rounds 1 -- metric create -w 48 -n 500 -a low",
    ],
    ["R1", "the worker's worst case", "processing --only worst --batches 5000 --gnocchi-divisor 50"],
    ["R3", "processing, with the backlog over time", "processing --only fold,stream --gnocchi-divisor 100"],
    ["R5", "gnudi's own split: sacks are doubled under load", "sack-split --seconds 3 --after 2"],
    [
        "R4",
        "a queue of samples, drained by notification agents",
        "notification --messages 5000 --instances 500 --seconds 5",
    ],
    [
        "R3",
        "shared engines, with Gnocchi on the same",
        "engines --only redis --metrics 5000 --gnocchi-divisor 50 --seconds 1",
    ],
    ["prometheus", "Prometheus' API: remote write and queries", "prometheus"],
    ["growth", "growth to a million metrics, disk of a history, and what a cloud takes", "growth"],
];

/// A command that runs as part of the report.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Experiment {
    /// The published table that it repeats (`R3`), or another section's name.
    pub table: String,
    pub title: String,
    /// Its command line after `gnudi-benchmark`.
    pub command: String,
    pub findings: Option<Findings>,
    /// Why there are no findings.
    pub missing: Option<String>,
}

/// All experiments, in the order of the report.
pub fn all() -> impl Iterator<Item = Experiment> {
    ALL.into_iter().map(Experiment::new)
}

impl Experiment {
    /// Its table, title and command line; it has not run.
    pub fn new(texts: [&str; 3]) -> Self {
        let [table, title, command] = texts.map(str::to_owned);
        Experiment { table, title, command, findings: None, missing: None }
    }

    /// Its name for `--only`: the command's first word.
    pub fn key(&self) -> &str {
        self.command.split(' ').next().unwrap_or_default()
    }

    /// Runs it; on failure it has a reason instead of findings.
    pub fn run(self, context: &Context) -> Self {
        eprintln!("{}: gnudi-benchmark {}", self.title, self.command);
        let words: Vec<&str> = self.command.split(' ').collect();
        let outcome = commands::run_words(&words, context).and_then(|findings| recorded(&findings));
        let missing = outcome.as_ref().err().map(|error| format!("{error:#}"));
        if let Some(reason) = &missing {
            eprintln!("missing: {}: {reason}", self.title);
        }
        Experiment { findings: outcome.ok(), missing, ..self }
    }
}

/// Findings as they are read back, so that a page of a run is also that of its results.
pub fn recorded(findings: &Findings) -> Result<Findings> {
    Ok(serde_json::from_value(serde_json::to_value(findings)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_is_a_command() {
        for experiment in all() {
            let words: Vec<&str> = experiment.command.split(' ').collect();
            assert!(commands::accepts_words(&words), "{}", experiment.command);
        }
    }
}
