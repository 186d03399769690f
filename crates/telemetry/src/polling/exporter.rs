//! Exports polled samples in Prometheus' text format, with the names, labels and numbers of the exporter in
//! Ceilometer's polling agent.
//!
//! It shows the last round of each pollster and source. Ceilometer gives all series of a meter the label names of the
//! first one; here each has its own.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
};

use gnudi_model::python::text_of_float;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::{
    definitions::python::{self, is_true},
    sample::Sample,
};

/// Maximum series of a pollster.
const SERIES_MAX: usize = 1_000_000;

/// A sample's name, encoded labels, and number.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedSeries {
    name: String,
    labels: String,
    value: f64,
}

/// The series of the last round.
#[derive(Default)]
pub struct Exporter(Mutex<HashMap<(String, String), Vec<ExportedSeries>>>);

impl Exporter {
    /// Replaces the series of a pollster and source.
    pub fn replace(&self, source: &str, pollster: &str, mut series: Vec<ExportedSeries>) {
        if series.len() > SERIES_MAX {
            tracing::warn!(source, pollster, left_out = series.len() - SERIES_MAX, "too many series to show");
            series.truncate(SERIES_MAX);
        }
        let mut all = self.0.lock();
        let key = (source.to_owned(), pollster.to_owned());
        if series.is_empty() {
            all.remove(&key);
        } else {
            all.insert(key, series);
        }
    }

    /// All series, sorted by name, without duplicates.
    pub fn text(&self) -> String {
        let all = self.0.lock();
        let mut metrics = BTreeMap::<&str, BTreeMap<&str, f64>>::new();
        for series in all.values().flatten() {
            metrics.entry(&series.name).or_default().insert(&series.labels, series.value);
        }
        let mut out = String::new();
        for (name, series) in metrics {
            let _ = write!(out, "# HELP {name} \n# TYPE {name} gauge\n");
            for (labels, value) in series {
                let _ = writeln!(out, "{name}{{{labels}}} {}", number(value));
            }
        }
        out
    }
}

impl ExportedSeries {
    /// `None` for a sample without a number.
    pub fn of(sample: &Sample<'_>) -> Option<Self> {
        let name = format!("ceilometer_{}", fitting(&sample.name.replace('.', "_")));
        let Ok(value) = python::float(&sample.volume) else {
            tracing::warn!(meter = %sample.name, resource = %sample.resource_id, "a sample without a number is not shown");
            return None;
        };
        let labels = labels(sample).into_iter();
        let labels = labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(&value)));
        Some(ExportedSeries { name, labels: labels.collect::<Vec<_>>().join(","), value })
    }
}

fn labels(sample: &Sample<'_>) -> BTreeMap<String, String> {
    let mut parts = sample.name.split('.');
    let plugin = parts.next().unwrap_or_default();
    let kind = parts.next().unwrap_or(plugin);
    let mut labels = Labels(BTreeMap::new());
    labels.add(&fitting(plugin), parts.next().unwrap_or(&sample.resource_id));
    labels.add("publisher", "ceilometer");
    labels.add("type", kind);
    let owners = [
        ("counter", Some(&sample.name)),
        ("project", sample.project_id.as_ref()),
        ("project_name", sample.project_name.as_ref()),
        ("user", sample.user_id.as_ref()),
        ("user_name", sample.user_name.as_ref()),
        ("unit", Some(&sample.unit)),
        ("resource", Some(&sample.resource_id)),
    ];
    for (name, value) in owners {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            labels.add(name, value);
        }
    }
    let metadata = sample.resource_metadata.map();
    if !metadata.is_empty() {
        of_metadata(&mut labels, sample, &metadata);
    }
    labels.0
}

/// By name.
struct Labels(BTreeMap<String, String>);

impl Labels {
    /// Of two labels with the same name the last one counts, as in Ceilometer: the first part of a meter's name may be
    /// that of another label.
    fn add(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }

    /// Adds a label if Python counts the value as true.
    fn add_true(&mut self, name: &str, value: Option<&Value>) {
        if let Some(value) = value.filter(|value| is_true(value)) {
            self.add(name, &python::text(value));
        }
    }

    /// Always adds the label; empty if Python counts the value as false.
    fn add_always(&mut self, name: &str, value: Option<&Value>) {
        let text = value.filter(|value| is_true(value)).map_or(Cow::Borrowed(""), python::text);
        self.add(name, &text);
    }
}

fn of_metadata(labels: &mut Labels, sample: &Sample<'_>, metadata: &Map<String, Value>) {
    let get = |name: &str| metadata.get(name).filter(|value| is_true(value));
    labels.add_true("vm_instance", get("host"));
    match (get("display_name"), get("name")) {
        (Some(display_name), Some(name)) => {
            labels.add("resource_name", &format!("{}:{}", python::text(display_name), python::text(name)));
        }
        (one, other) => labels.add_true("resource_name", one.or(other)),
    }
    let group = get("user_metadata").and_then(|own| own.get("server_group")).filter(|group| is_true(group));
    labels.add("server_group", &group.map_or(Cow::Borrowed("none"), python::text));
    if let Some(state) = metadata.get("alarm_state").filter(|state| *state != "") {
        labels.add("state", &python::text(state));
    }
    if sample.name.starts_with("loadbalancer") {
        labels.add_always("availability_zone", metadata.get("availability_zone"));
    }
    if sample.name == "volume.service.health" {
        for name in ["binary", "zone", "status"] {
            labels.add_always(name, metadata.get(name));
        }
    }
    if let Some(flavor) = get("flavor") {
        labels.add_true("flavor_id", flavor.get("id"));
        labels.add_true("flavor_name", flavor.get("name"));
    }
}

/// Replaces all but letters, digits and `_` by `_`.
fn fitting(name: &str) -> String {
    name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

/// As `prometheus_client` for Python prints numbers: like Python, with an exponent from seven digits on.
fn number(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if value.is_nan() {
        return "NaN".to_owned();
    }
    let text = text_of_float(value);
    match text.split_once('.') {
        Some((whole, rest)) if value > 0.0 && whole.len() > 6 => {
            let digits = format!("{}.{}{rest}", &whole[..1], &whole[1..]);
            format!("{}e+{:02}", digits.trim_end_matches(['0', '.']), whole.len() - 1)
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sample::Metadata;

    fn sample(name: &'static str, volume: Value, metadata: Value) -> Sample<'static> {
        let Value::Object(metadata) = metadata else { panic!("metadata are a map") };
        Sample {
            name: name.into(),
            unit: "B".into(),
            volume,
            project_id: Some("p".into()),
            resource_id: "r\"1".into(),
            resource_metadata: Metadata::Parsed(metadata),
            ..Sample::default()
        }
    }

    #[test]
    fn what_is_told_takes_the_place_of_what_was() {
        let exporter = Exporter::default();
        let of = |sample: &Sample<'_>| ExportedSeries::of(sample).into_iter().collect::<Vec<_>>();
        exporter.replace("s", "cpu", of(&sample("cpu", json!(1), json!({}))));
        exporter.replace(
            "s",
            "volume.size",
            of(&sample("volume.size", json!(2.5), json!({"name": "n", "host": null}))),
        );
        exporter.replace("s", "cpu", of(&sample("cpu", json!(12_345_678), json!({}))));
        assert_eq!(
            exporter.text(),
            "# HELP ceilometer_cpu \n# TYPE ceilometer_cpu gauge\n\
             ceilometer_cpu{counter=\"cpu\",cpu=\"r\\\"1\",project=\"p\",publisher=\"ceilometer\",resource=\"r\\\"1\",type=\"cpu\",\
             unit=\"B\"} 1.2345678e+07\n\
             # HELP ceilometer_volume_size \n# TYPE ceilometer_volume_size gauge\n\
             ceilometer_volume_size{counter=\"volume.size\",project=\"p\",publisher=\"ceilometer\",resource=\"r\\\"1\",\
             resource_name=\"n\",server_group=\"none\",type=\"size\",unit=\"B\",volume=\"r\\\"1\"} 2.5\n"
        );
        exporter.replace("s", "cpu", Vec::new());
        assert!(!exporter.text().contains("ceilometer_cpu"));
        assert_eq!(ExportedSeries::of(&sample("cpu", Value::Null, json!({}))), None);
    }

    #[test]
    fn a_label_is_not_that_of_the_meter_if_it_has_its_name() {
        let usage = Sample { resource_id: "a".into(), ..sample("project.usage", json!(1), json!({})) };
        let labels = ExportedSeries::of(&usage).unwrap().labels;
        let expected = "counter=\"project.usage\",project=\"p\",publisher=\"ceilometer\",resource=\"a\",type=\"usage\",unit=\"B\"";
        assert_eq!(labels, expected);
    }

    #[test]
    fn numbers_are_those_of_the_client_for_python() {
        for (value, text) in [
            (0.0, "0.0"),
            (-12_345_678.5, "-12345678.5"),
            (123_456.0, "123456.0"),
            (1_234_567.0, "1.234567e+06"),
            (10_000_000_000.0, "1e+10"),
            (1e22, "1e+22"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
