//! A message of collectd: a JSON list of value lists, each with its host, its time and the parts of its identifier.

use gnudi_model::{Measure, Timestamp};
use serde::Deserialize;

/// Why a message is not a valid collectd message.
#[derive(Debug, thiserror::Error)]
pub enum NotCollectd {
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("a value has no name in dsnames")]
    Names,
    #[error("there are more than {0} values")]
    TooMany(usize),
}

/// Maximum number of values in a message.
const VALUES_MAX: usize = 100_000;

/// One value, with the resource and metric that it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectdValue {
    pub host: String,
    /// `plugin-instance@type-instance-dsname`, empty parts left out, slashes replaced by `_` (metric names hold no
    /// slash).
    pub metric: String,
    pub measure: Measure,
}

#[derive(Deserialize)]
struct ValueList {
    host: String,
    plugin: String,
    #[serde(default)]
    plugin_instance: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    type_instance: Option<String>,
    values: Vec<Option<f64>>,
    dsnames: Vec<String>,
    /// Seconds since the epoch.
    #[serde(default)]
    time: Option<f64>,
}

/// Reads the values of a message. `null` means an unknown value and is skipped. A value list without a valid time gets
/// `now`.
pub fn read(message: &[u8], now: Timestamp) -> Result<Vec<CollectdValue>, NotCollectd> {
    let lists: Vec<ValueList> = serde_json::from_slice(message)?;
    if lists.iter().map(|list| list.values.len()).sum::<usize>() > VALUES_MAX {
        return Err(NotCollectd::TooMany(VALUES_MAX));
    }
    let mut readings = Vec::new();
    for list in &lists {
        // As for Gnocchi, a single name is not read.
        if list.dsnames.len() > 1 && list.dsnames.len() < list.values.len() {
            return Err(NotCollectd::Names);
        }
        let timestamp = list.time.and_then(from_seconds).unwrap_or(now);
        for (index, value) in list.values.iter().enumerate() {
            let Some(value) = *value else { continue };
            readings.push(CollectdValue {
                host: list.host.clone(),
                metric: list.metric(index),
                measure: Measure { timestamp, value },
            });
        }
    }
    Ok(readings)
}

/// Milliseconds, collectd's precision; `None` outside the range of timestamps.
fn from_seconds(seconds: f64) -> Option<Timestamp> {
    const MILLISECONDS_MAX: f64 = (i64::MAX / 1_000_000) as f64;
    let milliseconds = (seconds * 1e3).round();
    (0.0..MILLISECONDS_MAX).contains(&milliseconds).then(|| Timestamp(milliseconds as i64 * 1_000_000))
}

impl ValueList {
    fn metric(&self, index: usize) -> String {
        let with = |name: &str, instance: &Option<String>| match instance.as_deref() {
            None | Some("") => name.to_owned(),
            Some(instance) => format!("{name}-{instance}"),
        };
        let mut name =
            with(&self.plugin, &self.plugin_instance) + "@" + &with(&self.kind, &self.type_instance);
        if self.dsnames.len() > 1 {
            name = name + "-" + &self.dsnames[index];
        }
        name.replace('/', "_")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(5);

    fn values(message: &str) -> Vec<(String, String, i64, f64)> {
        let readings = read(message.as_bytes(), NOW).unwrap();
        let values = readings.into_iter();
        values.map(|r| (r.host, r.metric, r.measure.timestamp.0, r.measure.value)).collect()
    }

    #[test]
    fn values_are_named_by_their_identifiers() {
        let message = r#"[
            {"values": [1901474177], "dstypes": ["counter"], "dsnames": ["value"], "time": 1280959128.125, "interval": 10,
             "host": "leeloo.octo.it", "plugin": "cpu", "plugin_instance": "0", "type": "cpu", "type_instance": "idle"},
            {"values": [1, null, 2.5], "dsnames": ["shortterm", "midterm", "longterm"], "host": "h",
             "plugin": "load", "plugin_instance": "", "type": "load/x", "type_instance": null, "meta": {"a": true}}
        ]"#;
        let value = |host: &str, metric: &str, time, value| (host.to_owned(), metric.to_owned(), time, value);
        assert_eq!(
            values(message),
            [
                value("leeloo.octo.it", "cpu-0@cpu-idle", 1_280_959_128_125_000_000, 1_901_474_177.0),
                value("h", "load@load_x-shortterm", 5, 1.0),
                value("h", "load@load_x-longterm", 5, 2.5),
            ]
        );
        assert_eq!(values("[]"), []);
    }

    #[test]
    fn a_time_without_sense_is_now() {
        for time in ["-1", "1e300", "null"] {
            let message = format!(
                r#"[{{"values": [1], "dsnames": ["v"], "host": "h", "plugin": "p", "type": "t", "time": {time}}}]"#
            );
            assert_eq!(values(&message)[0].2, 5, "{time}");
        }
    }

    #[test]
    fn values_without_names_of_their_own_are_of_one_metric() {
        for names in ["[]", r#"["v"]"#] {
            let message = format!(
                r#"[{{"values": [1, 2], "dsnames": {names}, "host": "h", "plugin": "p", "type": "t"}}]"#
            );
            let named: Vec<(String, f64)> =
                values(&message).into_iter().map(|(_, metric, _, value)| (metric, value)).collect();
            assert_eq!(named, [("p@t".to_owned(), 1.0), ("p@t".to_owned(), 2.0)], "{names}");
        }
    }

    #[test]
    fn other_messages_are_refused() {
        for message in [
            "",
            "{}",
            "1",
            "[1]",
            "[{}]",
            "\u{fffd}",
            r#"[{"values": ["x"], "dsnames": ["v"], "host": "h", "plugin": "p", "type": "t"}]"#,
            r#"[{"values": [1, 2, 3], "dsnames": ["v", "w"], "host": "h", "plugin": "p", "type": "t"}]"#,
            r#"[{"values": [1], "dsnames": ["v"], "plugin": "p", "type": "t"}]"#,
        ] {
            assert!(read(message.as_bytes(), NOW).is_err(), "{message}");
        }
        assert!(read("[".repeat(10_000).as_bytes(), NOW).is_err());
    }
}
