//! The results of a command: figures, tables and plots, independent of their presentation.

use std::{borrow::Cow, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::context::EXIT_INTERRUPTED;

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Findings {
    /// What was done, in a sentence.
    pub title: String,
    pub figures: Vec<Figure>,
    pub tables: Vec<Table>,
    pub plots: Vec<Plot>,
    pub notes: Vec<String>,
    /// Why the run ended early.
    pub partial: Option<String>,
}

impl Findings {
    pub fn new(title: impl Into<String>) -> Self {
        Findings { title: title.into(), ..Findings::default() }
    }

    /// Adds a figure without comparison.
    pub fn tell(&mut self, name: impl Into<String>, value: Value) {
        self.figures.push(Figure { name: name.into(), value, better: None });
    }

    /// Adds a figure for comparing two servers; its direction follows from the kind of value.
    pub fn compare(&mut self, name: impl Into<String>, value: Value) {
        let better = value.better();
        self.figures.push(Figure { name: name.into(), value, better });
    }

    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Notes a failure, and prints it at once.
    pub fn note_failure(&mut self, failure: String) {
        eprintln!("{failure}");
        self.notes.push(failure);
    }

    /// The program's exit code: that of an interrupted program if the findings are partial.
    pub fn exit_code(&self) -> u8 {
        if self.partial.is_some() { EXIT_INTERRUPTED } else { 0 }
    }
}

/// A named number or text.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Figure {
    pub name: String,
    #[serde(flatten)]
    pub value: Value,
    /// Which direction is better; `None` if the figure is not about performance.
    pub better: Option<Better>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    Higher,
    Lower,
}

/// A figure's value with its unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Count(u64),
    /// Per second; the text is the unit in the singular (`create`).
    Rate(f64, Cow<'static, str>),
    /// An amount for each piece of work; the text is its unit.
    Each(f64, Cow<'static, str>),
    /// A duration, shown with its unit.
    Seconds(f64),
    /// A latency in seconds, shown without a unit like in gnocchiclient.
    Latency(f64),
    Percent(f64),
    Bytes(u64),
    Text(String),
}

impl Value {
    pub fn rate(rate: f64, of: &'static str) -> Self {
        Value::Rate(rate, of.into())
    }

    pub fn each(amount: f64, unit: &'static str) -> Self {
        Value::Each(amount, unit.into())
    }

    pub fn seconds(duration: Duration) -> Self {
        Value::Seconds(duration.as_secs_f64())
    }

    pub fn bytes(bytes: f64) -> Self {
        Value::Bytes(bytes as u64)
    }

    /// Which direction is better: up for rates and shares, down for resources and backlogs.
    pub fn better(&self) -> Option<Better> {
        match self {
            Value::Rate(..) | Value::Percent(_) => Some(Better::Higher),
            Value::Text(_) => None,
            _ => Some(Better::Lower),
        }
    }

    /// The number for comparisons and plots; `None` for text.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Count(count) | Value::Bytes(count) => Some(*count as f64),
            Value::Rate(value, _)
            | Value::Each(value, _)
            | Value::Seconds(value)
            | Value::Latency(value)
            | Value::Percent(value) => Some(*value),
            Value::Text(_) => None,
        }
    }

    /// How many times better this value is than another of its kind; `None` for text.
    pub fn times_better_than(&self, other: &Value) -> Option<f64> {
        let (own, other) = (self.number()?, other.number()?);
        Some(if self.better()? == Better::Higher { own / other } else { other / own })
    }

    /// In the JSON results: `create/s`, `seconds`.
    pub fn unit(&self) -> String {
        match self {
            Value::Rate(_, of) => format!("{of}/s"),
            Value::Each(_, unit) => unit.to_string(),
            Value::Seconds(_) | Value::Latency(_) => "seconds".to_owned(),
            Value::Percent(_) => "percent".to_owned(),
            Value::Bytes(_) => "bytes".to_owned(),
            Value::Count(_) | Value::Text(_) => String::new(),
        }
    }
}

/// A value in JSON: `{"value": 1136.96, "unit": "create/s"}`; a number that is not finite is null.
#[derive(Deserialize, Serialize)]
struct Written {
    value: serde_json::Value,
    unit: String,
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = match self {
            Value::Count(count) | Value::Bytes(count) => (*count).into(),
            Value::Text(text) => text.as_str().into(),
            other => other.number().into(),
        };
        Written { value, unit: self.unit() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Value {
    /// Durations and latencies have the same form: both are read as latencies.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Written { value, unit } = Written::deserialize(deserializer)?;
        if let Some(text) = value.as_str() {
            return Ok(Value::Text(text.to_owned()));
        }
        let number = value.as_f64().unwrap_or(f64::NAN);
        Ok(match unit.as_str() {
            "" => Value::Count(number as u64),
            "bytes" => Value::bytes(number),
            "seconds" => Value::Latency(number),
            "percent" => Value::Percent(number),
            unit => match unit.strip_suffix("/s") {
                Some(of) => Value::Rate(number, of.to_owned().into()),
                None => Value::Each(number, unit.to_owned().into()),
            },
        })
    }
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Table {
    pub title: String,
    pub headings: Vec<String>,
    /// Each as long as the headings; numbers are already formatted.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Headings are separated by `|`.
    pub fn new(
        title: impl Into<String>,
        headings: &str,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        let headings = headings.split('|').map(|heading| heading.trim().to_owned()).collect();
        Table { title: title.into(), headings, rows: rows.into_iter().collect() }
    }
}

/// Lines over a common axis.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Plot {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub lines: Vec<Line>,
    /// Marks at positions of the x axis.
    pub marks: Vec<Mark>,
}

impl Plot {
    /// Without marks.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis, lines: Vec<Line>) -> Self {
        Plot { title: title.into(), x, y, lines, marks: Vec::new() }
    }
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Axis {
    /// The label, with its unit: `seconds`, `measures waiting`.
    pub label: String,
    pub logarithmic: bool,
}

impl Axis {
    pub fn linear(label: impl Into<String>) -> Self {
        Axis { label: label.into(), logarithmic: false }
    }

    pub fn logarithmic(label: impl Into<String>) -> Self {
        Axis { label: label.into(), logarithmic: true }
    }
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Line {
    pub name: String,
    /// (x, y), sorted by x.
    #[serde(deserialize_with = "finite")]
    pub points: Vec<(f64, f64)>,
}

impl Line {
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Line { name: name.into(), points: points.into_iter().collect() }
    }
}

/// Skips points with `null`, JSON's form of NaN.
fn finite<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(f64, f64)>, D::Error> {
    let points = Vec::<(Option<f64>, Option<f64>)>::deserialize(deserializer)?;
    Ok(points.into_iter().filter_map(|(x, y)| x.zip(y)).collect())
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Mark {
    pub x: f64,
    pub label: String,
}

impl Mark {
    pub fn new(x: f64, label: impl Into<String>) -> Self {
        Mark { x, label: label.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_written_with_its_unit() {
        let mut findings = Findings::new("creates metrics");
        findings.compare("create speed", Value::rate(1136.5, "create"));
        findings.tell("client workers", Value::Count(48));
        let json = serde_json::to_value(&findings).unwrap();
        assert_eq!(
            json["figures"],
            serde_json::json!([
                { "name": "create speed", "value": 1136.5, "unit": "create/s", "better": "higher" },
                { "name": "client workers", "value": 48, "unit": "", "better": null },
            ])
        );
    }
}
