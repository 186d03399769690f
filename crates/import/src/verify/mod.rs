//! `gnudi import verify`: sends the same requests to a Gnocchi and a gnudi, and reports all differences of the
//! responses.
//!
//! Listings are read page by page and merged by id. The comparisons are pure functions: `json`, `history`, `series`.

pub mod history;
pub mod json;
pub mod sample;
pub mod series;
mod side;
mod walk;

pub use walk::verify;

use std::fmt;

use gnudi_client::ClientError;

/// Maximum characters of a value in a difference.
const SHOWN_CHARS: usize = 120;

/// Options of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Compare the measures and histories of this many random metrics and resources; `None`: of all.
    pub sample: Option<usize>,
    /// Seed of the random choice.
    pub seed: u64,
    /// Concurrent requests to each of the two; at least one.
    pub jobs: usize,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    ArchivePolicy,
    ArchivePolicyRule,
    ResourceType,
    Metric,
    Resource,
    /// The revisions of a resource.
    History,
    /// The aggregates of a metric.
    Measures,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::ArchivePolicy => "archive policy",
            Kind::ArchivePolicyRule => "archive policy rule",
            Kind::ResourceType => "resource type",
            Kind::Metric => "metric",
            Kind::Resource => "resource",
            Kind::History => "history",
            Kind::Measures => "measures",
        })
    }
}

/// The kind of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    OnlyInGnocchi,
    OnlyInGnudi,
    /// A field or a value, with the value on each side, shortened.
    Value {
        path: String,
        gnocchi: String,
        gnudi: String,
    },
}

/// A difference; formatted as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub kind: Kind,
    /// A name, or a UUID: for histories the resource's, for measures the metric's.
    pub id: String,
    /// Set if the id is a UUID.
    pub name: Option<String>,
    pub what: What,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.id)?;
        if let Some(name) = &self.name {
            // Escaped, so that it stays one line.
            write!(f, " ({})", name.escape_debug())?;
        }
        match &self.what {
            What::OnlyInGnocchi => f.write_str(": only in Gnocchi"),
            What::OnlyInGnudi => f.write_str(": only in gnudi"),
            What::Value { path, gnocchi, gnudi } => {
                write!(f, ": {path}: Gnocchi {gnocchi}, gnudi {gnudi}")
            }
        }
    }
}

/// A value in a difference.
fn shown(value: Option<impl fmt::Display>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Counters of a comparison, including items that only one side has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub archive_policies: u64,
    pub archive_policy_rules: u64,
    pub resource_types: u64,
    pub metrics: u64,
    pub resources: u64,
    /// Resources whose revisions were compared.
    pub histories: u64,
    pub revisions: u64,
    /// Metrics whose aggregates were compared.
    pub measured: u64,
    /// Their series, by method and granularity.
    pub series: u64,
    /// Values in these series.
    pub values: u64,
    /// Percentiles equal to nine digits, but not to the last bit: not counted as differences.
    pub nine_digits: u64,
    /// Expired rows of `std` and rates that differ: not counted as differences.
    pub ignored: u64,
    pub differences: u64,
}

/// Events reported to the caller.
#[derive(Clone, Copy, Debug)]
pub enum VerifyEvent<'a> {
    Difference(&'a Difference),
    /// From time to time.
    Progress(&'a Report),
}

pub type Result<T, E = VerifyError> = std::result::Result<T, E>;

/// Why a comparison stopped.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("{side} at {url} refuses this user, password or token ({status})")]
    NotAllowed { side: &'static str, url: String, status: u16 },
    #[error("{side} at {url}: {error}")]
    Client { side: &'static str, url: String, error: Box<ClientError> },
    #[error("{side} at {url}: {path}: unexpected answer: {reason}")]
    UnexpectedAnswer { side: &'static str, url: String, path: String, reason: String },
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_a_line() {
        let mut difference = Difference {
            kind: Kind::Metric,
            id: "0a7a".to_owned(),
            name: Some("cpu\n1".to_owned()),
            what: What::OnlyInGnudi,
        };
        assert_eq!(difference.to_string(), "metric 0a7a (cpu\\n1): only in gnudi");
        difference.name = None;
        let (gnocchi, gnudi) = (shown(Some(json!("B"))), shown(None::<&str>));
        difference.what = What::Value { path: "unit".to_owned(), gnocchi, gnudi };
        assert_eq!(difference.to_string(), "metric 0a7a: unit: Gnocchi \"B\", gnudi nothing");
    }

    #[test]
    fn long_values_are_cut() {
        let text = "é".repeat(SHOWN_CHARS);
        assert_eq!(shown(Some(&text)), text);
        assert_eq!(shown(Some(format!("{text}e"))), format!("{text}..."));
    }
}
