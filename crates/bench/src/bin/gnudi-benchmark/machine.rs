//! The machine of a run, and the versions of the programs on it, found without starting a server.

use std::{
    fmt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::peers::{Programs, child::output_of, postgres, program};

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Machine {
    pub processors: usize,
    pub processor: String,
    pub kernel: String,
    pub memory: String,
}

impl Machine {
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let line_of = |path: &str, name: &str| {
            let text = read(path);
            let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
            line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
        };
        Machine {
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            processor: line_of("/proc/cpuinfo", "model name"),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            memory: line_of("/proc/meminfo", "MemTotal"),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { processors, processor, kernel, memory } = self;
        write!(out, "{processors} processors ({processor}), {memory}, Linux {kernel}")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Version {
    pub name: String,
    /// `None` if the program is missing.
    pub version: Option<String>,
}

/// Run by its virtual environment's Python: Gnocchi's own programs do not tell it.
const VERSION_OF_GNOCCHI: &str = "from importlib.metadata import version; print(version('gnocchi'))";

/// Of all programs that the report may start.
pub fn versions(programs: &Programs) -> Vec<Version> {
    let of_program = |program: &Path| version_in(program, &["--version"]);
    let postgres = postgres::programs().ok();
    let python = programs.gnocchi_venv.join("bin/python");
    let victoria_metrics = of_program(&programs.victoria_metrics);
    [
        ("gnudi", program(programs).ok().and_then(|program| of_program(&program))),
        ("Gnocchi", version_in(&python, &["-c", VERSION_OF_GNOCCHI])),
        ("PostgreSQL", postgres.and_then(|directory| of_program(&directory.join("postgres")))),
        ("Redis", of_program(Path::new("redis-server"))),
        ("VictoriaMetrics", victoria_metrics.or_else(|| package("victoria-metrics"))),
        ("InfluxDB", version_in(&programs.influxdb, &["version"])),
        ("Prometheus", of_program(&programs.prometheus)),
        ("Ceph", of_program(Path::new("ceph-osd"))),
    ]
    .map(|(name, version)| Version { name: name.to_owned(), version })
    .to_vec()
}

fn version_in(program: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    first_version(&String::from_utf8_lossy(&text))
}

/// Of a Debian package, whose program may not know its own: `1.79.5+ds1-2+b5`.
fn package(name: &str) -> Option<String> {
    let query = output_of(Command::new("dpkg-query").args(["-W", "-f", "${Version}", name]));
    first_version(&query.ok()?)
}

/// Numbers with dots, at the beginning of a word or after a `v`.
fn first_version(text: &str) -> Option<String> {
    let pattern = Regex::new(r"(?:^|[\s=,(v])([0-9]+(?:\.[0-9]+)+)").expect("it is a pattern");
    Some(pattern.captures(text)?[1].to_owned())
}

/// The commit of gnudi's source: set at build time (`GNUDI_COMMIT`), else that of the repository of this program, else
/// `unknown`.
pub fn commit() -> String {
    if let Some(commit) = option_env!("GNUDI_COMMIT") {
        return commit.to_owned();
    }
    let program = std::env::current_exe().unwrap_or_default();
    let directory = program.parent().map(Path::to_owned).unwrap_or_default();
    repository_commit(&directory).unwrap_or_else(|| "unknown".to_owned())
}

fn repository_commit(directory: &PathBuf) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = output_of(Command::new("git").arg("-C").arg(directory).args(arguments));
        Some(output.ok()?.trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit}, with changes since") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (text, version) in [
            ("postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)", "15.13"),
            ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64", "7.0.15"),
            ("victoria-metrics-20221011-000000-tags-v1.79.5-0-gabc", "1.79.5"),
            ("InfluxDB v1.6.7~rc0 (git: unknown unknown)", "1.6.7"),
            ("ceph version 16.2.15 (618f440892089921) pacific (stable)", "16.2.15"),
        ] {
            assert_eq!(first_version(text).as_deref(), Some(version), "{text}");
        }
        for text in ["no version at all.", "File \"/usr/lib/python3.11/runpy.py\", line 1: package not found"]
        {
            assert_eq!(first_version(text), None, "{text}");
        }
    }

    #[test]
    fn absent_programs_have_no_version() {
        assert_eq!(version_in(Path::new("/nonexistent/program"), &["--version"]), None);
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(repository_commit(&directory.path().to_owned()), None);
    }
}
