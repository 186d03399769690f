//! The polling file: what is polled, and how often.

use std::{path::Path, time::Duration};

use super::{discovery::AgentGroup, group_expression};
use crate::{
    located::{Located, YamlNode},
    pipeline::Selection,
    yaml::{self, YamlError},
};

/// A longer interval is as good as this one: a hundred years fit the clock.
const INTERVAL_MAX_S: u64 = 100 * 365 * 86_400;

/// One of the file's sources.
#[derive(Clone, Debug)]
pub struct PollingSource {
    pub name: String,
    pub interval: Duration,
    pub meters: Selection,
    /// Fixed resources, which need no discovery.
    pub resources: Vec<String>,
    /// Discoveries that replace the pollsters' defaults.
    pub discovery: Vec<String>,
    /// The agents of this group share the source's resources.
    pub group: Option<AgentGroup>,
}

/// Loads a polling file, on the machine with this name.
pub fn load(path: &Path, host: &str) -> Result<Vec<PollingSource>, YamlError> {
    parse(path, &yaml::text(path)?, host)
}

/// Parses a text; `path` is for errors.
pub fn parse(path: &Path, text: &str, host: &str) -> Result<Vec<PollingSource>, YamlError> {
    let file = Located::parse(path, text)?;
    let list = file.get("sources").ok_or_else(|| error(path, &file, "sources", "required"))?;
    let sources = list.list().ok_or_else(|| error(path, list, "sources", "should be a list of sources"))?;
    sources.iter().map(|source| parse_source(path, source, host)).collect()
}

fn error(path: &Path, at: &Located, key: &str, problem: &str) -> YamlError {
    YamlError::at(path, at.line, key, problem)
}

fn parse_source(path: &Path, source: &Located, host: &str) -> Result<PollingSource, YamlError> {
    let needed = |key: &str| source.get(key).ok_or_else(|| error(path, source, key, "missing in a source"));
    let name = match &needed("name")?.node {
        YamlNode::Text(text) => text.clone(),
        YamlNode::Integer(number) => number.to_string(),
        _ => return Err(error(path, needed("name")?, "name", "should be a text")),
    };
    let meters = match needed("meters")?.text() {
        // Ceilometer reads a text letter by letter.
        Some("*") => Ok(Selection::everything()),
        _ => Selection::new(&texts(path, source, "meters")?),
    }
    .map_err(|cause| error(path, source, "meters", &cause.to_string()))?;
    let interval = needed("interval")?;
    let seconds = match &interval.node {
        YamlNode::Integer(number) => Some(*number),
        YamlNode::Float(number) => Some(*number as i64),
        YamlNode::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
    .ok_or_else(|| error(path, interval, "interval", "should be a number of seconds"))?;
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
    let seconds = seconds.ok_or_else(|| error(path, interval, "interval", "should be greater than 0"))?;
    let resources = texts(path, source, "resources")?;
    let group = group(path, source, &name, host)?;
    if group.is_some() && !resources.is_empty() {
        tracing::warn!(
            source = name,
            "group_id_coordination_expression applies to sources without resources only"
        );
    }
    let group = group.filter(|_| resources.is_empty());
    Ok(PollingSource {
        name,
        interval: Duration::from_secs(seconds.min(INTERVAL_MAX_S)),
        meters,
        resources,
        discovery: texts(path, source, "discovery")?,
        group,
    })
}

/// A source's group, as in Ceilometer: its own name, a hyphen, and the value of the expression.
fn group(path: &Path, source: &Located, name: &str, host: &str) -> Result<Option<AgentGroup>, YamlError> {
    const KEY: &str = "group_id_coordination_expression";
    let Some(expression) = source.get(KEY).filter(|expression| !expression.is_empty()) else {
        return Ok(None);
    };
    let text = expression.text().ok_or_else(|| error(path, expression, KEY, "should be a text"))?;
    let value = group_expression::value(text, name, host);
    let value = value.map_err(|problem| error(path, expression, KEY, &problem))?;
    Ok(Some(AgentGroup::Named(format!("{name}-{value}").into())))
}

fn texts(path: &Path, source: &Located, key: &str) -> Result<Vec<String>, YamlError> {
    let Some(value) = source.get(key).filter(|value| !value.is_empty()) else { return Ok(Vec::new()) };
    let list = value.list().ok_or_else(|| error(path, value, key, "should be a list"))?;
    list.iter()
        .map(|item| item.text().map(str::to_owned).ok_or_else(|| error(path, item, key, "should be texts")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<PollingSource>, YamlError> {
        super::parse(Path::new("polling.yaml"), text, "cmp1")
    }

    #[test]
    fn a_file_is_read() {
        let sources = parse(
            "---\nsources:\n  - name: all\n    interval: 300\n    meters:\n      - cpu\n      - 'disk.*'\n\
             \n  - {name: b, interval: '60', meters: ['*'], resources: [a, b], discovery: ['endpoint:x']}\n",
        )
        .unwrap();
        assert_eq!(sources.len(), 2);
        assert_eq!((sources[0].name.as_str(), sources[0].interval.as_secs()), ("all", 300));
        assert!(sources[0].meters.matches("disk.root.size") && !sources[0].meters.matches("memory"));
        assert_eq!(sources[1].resources, ["a", "b"]);
        assert_eq!(sources[1].discovery, ["endpoint:x"]);
        assert_eq!(sources[0].group, None);
        let everything = parse("sources: [{name: s, interval: 1, meters: '*'}]").unwrap();
        assert!(everything[0].meters.is_everything());
        let longest = format!("sources: [{{name: s, interval: {}, meters: [a]}}]", i64::MAX);
        assert_eq!(parse(&longest).unwrap()[0].interval.as_secs(), INTERVAL_MAX_S);
        let with = |more: &str| format!("sources: [{{name: s, interval: 1, meters: [a], {more}}}]");
        let expression = "group_id_coordination_expression: \"'x' + self.conf.host\"";
        let group = |more: &str| parse(&with(more)).unwrap()[0].group.clone();
        assert_eq!(group(expression), Some(AgentGroup::Named("s-xcmp1".into())));
        assert_eq!(group(&format!("{expression}, resources: [r]")), None);
    }

    #[test]
    fn errors_name_file_line_and_key() {
        for (text, line, key) in [
            ("a: 1\n", 1, "sources"),
            ("sources: 1\n", 1, "sources"),
            ("sources:\n- interval: 1\n  meters: [a]\n", 2, "name"),
            ("sources:\n- name: a\n  meters: [a]\n", 2, "interval"),
            ("sources:\n- name: a\n  interval: 0\n  meters: [a]\n", 3, "interval"),
            ("sources:\n- name: a\n  interval: soon\n  meters: [a]\n", 3, "interval"),
            ("sources:\n- name: a\n  interval: 1\n", 2, "meters"),
            ("sources:\n- name: a\n  interval: 1\n  meters: [a, '!b']\n", 2, "meters"),
            ("sources:\n- name: a\n  interval: 1\n  meters: a\n", 4, "meters"),
            ("sources:\n- name: a\n  interval: 1\n  meters: [a]\n  resources: x\n", 5, "resources"),
            ("sources:\n- name: a\n  interval: 1\n  meters: [a]\n  discovery: {a: b}\n", 5, "discovery"),
            (
                "sources:\n- name: a\n  interval: 1\n  meters: [a]\n  group_id_coordination_expression: 1+1\n",
                5,
                "group_id_coordination_expression",
            ),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("polling.yaml: line {line}: {key}: ")), "{text}: {error}");
        }
    }
}
