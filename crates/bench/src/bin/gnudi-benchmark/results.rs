//! The raw results of a report's run, stored as JSON, from which the page is made.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::{
    experiments::Experiment,
    machine::{Machine, Version},
    measurement::Measurement,
};

/// A run of the report.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Results {
    /// Unix seconds.
    pub written_at: u64,
    /// Duration of the run.
    pub seconds: f64,
    /// The command line, including the program's name.
    pub command: String,
    pub machine: Machine,
    pub versions: Vec<Version>,
    /// gnudi's source revision; `unknown` without a repository.
    pub commit: String,
    pub servers: Vec<ServerNote>,
    pub measurements: Vec<Measurement>,
    /// Work that failed.
    pub failures: Vec<Failure>,
    pub experiments: Vec<Experiment>,
    /// Why the run ended early.
    pub partial: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ServerNote {
    pub name: String,
    /// The durability of an accepted request.
    pub durability: String,
    /// Why it was not measured.
    pub missing: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Failure {
    /// The rows, by title.
    pub work: String,
    pub server: String,
    pub reason: String,
}

impl Results {
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read(path).with_context(|| path.display().to_string())?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{}: not the results of a report", path.display()))
    }

    /// What is missing or failed, with reasons: `(Missing, gnocchi, uwsgi is missing)`.
    pub fn absences(&self) -> Vec<(&'static str, String, &str)> {
        let servers = self.servers.iter().map(|server| (server.name.clone(), &server.missing));
        let experiments = self.experiments.iter().map(|found| (found.title.clone(), &found.missing));
        let missing = servers.chain(experiments);
        let missing = missing.filter_map(|(what, reason)| Some(("Missing", what, reason.as_deref()?)));
        let failed = self.failures.iter().map(|failure| {
            ("Failed", format!("{}, {}", failure.server, failure.work), failure.reason.as_str())
        });
        missing.chain(failed).collect()
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        write_file(path, &serde_json::to_vec_pretty(self)?)
    }
}

/// Writes a file, and creates its directory.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    }
    std::fs::write(path, bytes).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        experiments::recorded,
        findings::{Axis, Findings, Line, Plot, Value},
        measurement::{Unit, sample as measurement},
        peers::Peer,
    };

    #[test]
    fn results_are_read_back_as_they_were_written() {
        let mut findings = Findings::new("how work is taken up");
        findings.compare("speed", Value::rate(2.5, "measure"));
        findings.tell("servers", Value::Text("two".to_owned()));
        findings.plots.push(Plot {
            x: Axis::logarithmic("workers"),
            lines: vec![Line::new("a", [(1.0, f64::NAN), (2.0, 3.0)])],
            ..Plot::default()
        });
        let mut results = Results {
            written_at: 1_790_000_000,
            seconds: 300.0,
            command: "gnudi-benchmark report".to_owned(),
            machine: Machine::here(),
            versions: vec![Version { name: "gnudi".to_owned(), version: Some("0.1.0".to_owned()) }],
            commit: "0123abc".to_owned(),
            ..Results::default()
        };
        let experiment = Experiment::new(["R3", "processing", "processing"]);
        results.experiments.push(Experiment { findings: Some(recorded(&findings).unwrap()), ..experiment });
        let mut push = measurement("push-1", Peer::VictoriaMetrics, Unit::Measures, 10.0, 1.0);
        push.variant = Some("columns".into());
        results.measurements.push(push);

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bench/results.json");
        results.write(&path).unwrap();
        let read = Results::read(&path).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), serde_json::to_value(&results).unwrap());
        assert_eq!(read.measurements[0].peer, Peer::VictoriaMetrics);
        let plot = &read.experiments[0].findings.as_ref().unwrap().plots[0];
        assert_eq!(plot.lines[0].points, [(2.0, 3.0)]);

        std::fs::write(&path, "[]").unwrap();
        assert!(Results::read(&path).unwrap_err().to_string().contains("not the results of a report"));
    }
}
