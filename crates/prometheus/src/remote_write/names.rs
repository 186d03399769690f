//! Which resource and which metric a series is.
//!
//! A resource is what was scraped: `job@instance`, `none` for what is missing or empty. A metric is the series' name, with all
//! other labels behind it in Prometheus' own notation, by name: `http_requests_total{code="200",handler="/"}`. So series that
//! differ in a label are different metrics. How long names may be, whoever stores them knows.

use std::fmt::Write;

use gnudi_promql::METRIC_NAME;

use crate::labels::{INSTANCE, JOB, NONE};

/// Which labels stay in a metric's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// All but job and instance, which the resource has.
    #[default]
    All,
    /// As in Gnocchi: of series that differ in nothing else, the last of a request counts.
    None,
    /// As [`Labels::All`], and a job or an instance that is called [`NONE`], which the resource does not tell from a missing one.
    Exact,
}

/// The place of a series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place<'a> {
    pub job: &'a str,
    pub instance: &'a str,
    pub metric_name: String,
}

impl Place<'_> {
    /// The id of the resource, as text.
    pub fn resource(&self) -> String {
        let mut text = String::with_capacity(self.job.len() + self.instance.len() + 1);
        escape(self.job, "/", &mut text);
        text.push('@');
        escape(self.instance, "/", &mut text);
        text
    }
}

/// The place of the series of these labels; `None` where they name no metric.
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

/// A series in Prometheus' notation, with those of its labels for which `is_kept` holds; `None` where they name no metric. Of equal
/// labels the last one counts; an empty one is as good as none.
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
    // A stable order: the last of equal labels is the first of them once it is turned.
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

/// Writes a text with escapes, as a string of Prometheus or Go may have them, in place of backslashes, line feeds, quotes,
/// control characters, and what is `special`: no metric's name may hold a slash.
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
    fn a_series_with_no_more_than_job_and_instance_has_its_plain_name() {
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
    fn other_labels_are_part_of_the_name_in_one_order() {
        let labels = [("z", "1"), ("__name__", "x"), ("job", "j"), ("a", "2"), ("empty", "")];
        assert_eq!(name(&labels), r#"x{a="2",z="1"}"#);
        let mut turned = labels;
        turned.reverse();
        assert_eq!(name(&turned), name(&labels));
        assert_eq!(place(&labels, Labels::None).unwrap().metric_name, "x");
        assert_eq!(name(&[("__name__", "x"), ("a", "1"), ("a", "2")]), r#"x{a="2"}"#);
    }

    #[test]
    fn nothing_that_differs_gets_the_same_name_and_nothing_has_a_slash() {
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
    fn what_is_called_none_is_told_from_what_is_missing() {
        let labels = [("__name__", "up"), ("job", "none"), ("instance", "i")];
        let place = place(&labels, Labels::Exact).unwrap();
        assert_eq!((place.resource().as_str(), place.metric_name.as_str()), ("none@i", r#"up{job="none"}"#));
        assert_eq!(super::place(&labels[..1], Labels::Exact).unwrap().metric_name, "up");
        assert_eq!(super::place(&labels, Labels::All).unwrap().metric_name, "up");
        assert_eq!(notation(&labels, |_, _| true).unwrap(), r#"up{instance="i",job="none"}"#);
    }
}
