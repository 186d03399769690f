//! Derives the resource and the metric in which a series is stored.
//!
//! The resource is the scraped target: `job@instance`, with `none` for a missing or empty label. The metric's name is
//! the series' name and all its other labels in Prometheus' notation, sorted by name:
//! `http_requests_total{code="200",handler="\x2f"}`. So series that differ in a label are different metrics. Slashes
//! are always escaped. Names are not truncated: their maximum length is left to the API.

use std::fmt::Write;

use gnudi_promql::METRIC_NAME;

use crate::labels::{INSTANCE, JOB, NONE};

/// Which labels are kept in a metric's name, besides the series' name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// All except job and instance, which are in the resource.
    #[default]
    All,
    /// None, as in Gnocchi: series of a request that differ only in other labels are the same metric, and the last one
    /// wins.
    None,
    /// Like [`Labels::All`], and also a job or instance whose value is [`NONE`], since the resource has the same for a
    /// missing one.
    Exact,
}

/// The resource and the metric of a series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place<'a> {
    /// [`NONE`] if missing or empty.
    pub job: &'a str,
    /// [`NONE`] if missing or empty.
    pub instance: &'a str,
    pub metric_name: String,
}

impl Place<'_> {
    /// The original id of the resource: `job@instance`, with escapes.
    pub fn resource(&self) -> String {
        let mut text = String::with_capacity(self.job.len() + self.instance.len() + 1);
        escape(self.job, "/", &mut text);
        text.push('@');
        escape(self.instance, "/", &mut text);
        text
    }
}

/// The place of a series; `None` if its metric name is missing or empty. Empty labels are ignored; of duplicate labels
/// the last one counts.
pub fn place<'a>(labels: &[(&'a str, &'a str)], keep: Labels) -> Option<Place<'a>> {
    let value = |wanted| labels.iter().rev().find(|(name, value)| *name == wanted && !value.is_empty());
    let of_resource = |name| value(name).map_or(NONE, |(_, value)| *value);
    let is_kept = |label: &str, value: &str| match keep {
        Labels::None => false,
        Labels::All => label != JOB && label != INSTANCE,
        Labels::Exact => (label != JOB && label != INSTANCE) || value == NONE,
    };
    let metric_name = notation(labels, is_kept)?;
    Some(Place { job: of_resource(JOB), instance: of_resource(INSTANCE), metric_name })
}

/// A series in Prometheus' notation, with the labels for which `is_kept` (name, value) is true; `None` if its metric
/// name is missing or empty. Empty labels are ignored; of duplicate labels the last one counts.
pub fn notation(labels: &[(&str, &str)], is_kept: impl Fn(&str, &str) -> bool) -> Option<String> {
    let mut name = "";
    let mut others = Vec::with_capacity(labels.len());
    for &(label, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
        if label == METRIC_NAME {
            name = value;
        } else if is_kept(label, value) {
            others.push((label, value));
        }
    }
    if name.is_empty() {
        return None;
    }
    // The sort is stable, so the reversal makes the last of duplicate labels the first, which is kept.
    others.reverse();
    others.sort_by_key(|(label, _)| *label);
    others.dedup_by_key(|(label, _)| *label);
    let mut text = String::new();
    escape(name, "/{", &mut text);
    for (index, (label, value)) in others.iter().enumerate() {
        text.push(if index == 0 { '{' } else { ',' });
        escape(label, "/=", &mut text);
        text.push_str("=\"");
        escape(value, "/\"", &mut text);
        text.push('"');
    }
    if !others.is_empty() {
        text.push('}');
    }
    Some(text)
}

/// Appends a text with Go's escapes for backslashes, control characters and the characters in `special`. All callers
/// include the slash in `special`, since metric names must not have one.
fn escape(text: &str, special: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if special.contains('"') => out.push_str("\\\""),
            _ if character.is_ascii_control() || special.contains(character) => {
                write!(out, "\\x{:02x}", u32::from(character)).expect("a String takes it");
            }
            _ => out.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(labels: &[(&str, &str)]) -> String {
        place(labels, Labels::All).unwrap().metric_name
    }

    #[test]
    fn job_and_instance_are_not_in_the_metric_name() {
        let labels = [("__name__", "up"), ("instance", "localhost:9090"), ("job", "prometheus")];
        let place = place(&labels, Labels::All).unwrap();
        assert_eq!(
            (place.resource(), place.metric_name.as_str()),
            ("prometheus@localhost:9090".to_owned(), "up")
        );
        let bare = super::place(&[("__name__", "up"), ("job", "")], Labels::All).unwrap();
        assert_eq!(bare.resource(), "none@none");
    }

    #[test]
    fn other_labels_are_sorted_in_the_metric_name() {
        let labels = [("z", "1"), ("__name__", "x"), ("job", "j"), ("a", "2"), ("empty", "")];
        assert_eq!(name(&labels), r#"x{a="2",z="1"}"#);
        let mut reversed = labels;
        reversed.reverse();
        assert_eq!(name(&reversed), name(&labels));
        assert_eq!(place(&labels, Labels::None).unwrap().metric_name, "x");
        assert_eq!(name(&[("__name__", "x"), ("a", "1"), ("a", "2")]), r#"x{a="2"}"#);
    }

    #[test]
    fn different_series_have_different_names_without_slashes() {
        let series: &[&[(&str, &str)]] = &[
            &[("__name__", "x"), ("a", "/")],
            &[("__name__", "x"), ("a", r"\x2f")],
            &[("__name__", "x"), ("a", "_")],
            &[("__name__", "x"), ("a", "\"")],
            &[("__name__", "x"), ("a", "\\\"")],
            &[("__name__", "x"), ("a", "1\",b=\"2")],
            &[("__name__", "x"), ("a", "1"), ("b", "2")],
            &[("__name__", r#"x{a="1"}"#)],
            &[("__name__", "x"), ("a", "1")],
            &[("__name__", "x"), ("a=\"1\",b", "2")],
            &[("__name__", "x/y")],
            &[("__name__", r"x\x2fy")],
            &[("__name__", "x"), ("a", "\n")],
            &[("__name__", "x"), ("a", "\\n")],
            &[("__name__", "x"), ("a", "\0")],
        ];
        let mut names: Vec<String> = series.iter().map(|labels| name(labels)).collect();
        assert!(names.iter().all(|name| !name.contains(['/', '\0', '\n'])), "{names:?}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), series.len(), "{names:?}");
        assert_eq!(name(series[0]), r#"x{a="\x2f"}"#);
        assert_eq!(place(&[("job", "x")], Labels::All), None);
    }

    #[test]
    fn a_job_named_none_differs_from_a_missing_one() {
        let labels = [("__name__", "up"), ("job", "none"), ("instance", "i")];
        let place = place(&labels, Labels::Exact).unwrap();
        assert_eq!((place.resource().as_str(), place.metric_name.as_str()), ("none@i", r#"up{job="none"}"#));
        assert_eq!(super::place(&labels[..1], Labels::Exact).unwrap().metric_name, "up");
        assert_eq!(super::place(&labels, Labels::All).unwrap().metric_name, "up");
        assert_eq!(notation(&labels, |_, _| true).unwrap(), r#"up{instance="i",job="none"}"#);
    }
}
