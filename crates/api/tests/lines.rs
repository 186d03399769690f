//! InfluxDB's line protocol: same results as Gnocchi (`data/lines.jsonl`, recorded by
//! `tests/oracle/record_lines.py`), and properties: written lines are read back, and arbitrary bytes cause no
//! panic.

use std::fmt::Write;

use gnudi_api::influxdb::{
    Line,
    line::{FieldValue, LineError},
    query::database_to_create,
};
use gnudi_app::json::{self, Value};
use proptest::{collection, option, prelude::*};

const RECORDED: &str = include_str!("data/lines.jsonl");

/// A line's parts, for comparison.
#[derive(Clone, Debug, PartialEq)]
struct Parts {
    measurement: String,
    /// Sorted by key.
    tags: Vec<(String, String)>,
    /// Sorted by key; a text value is `None`.
    fields: Vec<(String, Option<f64>)>,
    timestamp: Option<u64>,
}

fn read(text: &str) -> Result<Option<Parts>, LineError> {
    let parts = |line: Line<'_>| {
        let value = |value: &FieldValue| match value {
            FieldValue::Number(number) => Some(*number),
            FieldValue::Text => None,
        };
        let mut fields: Vec<_> =
            line.fields.iter().map(|(key, field)| (key.to_string(), value(field))).collect();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Parts {
            measurement: line.measurement.to_string(),
            tags: line.tags.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            fields,
            timestamp: line.timestamp,
        }
    };
    Ok(Line::parse(text, usize::MAX)?.map(parts))
}

fn text(value: &Value) -> String {
    match value {
        Value::Str(text) => text.clone(),
        other => panic!("{other:?} is no text"),
    }
}

fn recorded(value: &Value) -> Parts {
    let get = |key| value.get(key).expect("it is recorded");
    let entries = |key| match get(key) {
        Value::Object(entries) => entries.clone(),
        other => panic!("{other:?} is no object"),
    };
    let number = |value: &Value| match value {
        Value::Null => None,
        other => Some(text(other).parse().expect("a number")),
    };
    let mut fields: Vec<_> =
        entries("fields").iter().map(|(key, value)| (key.clone(), number(value))).collect();
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    let mut tags: Vec<_> = entries("tags").iter().map(|(key, value)| (key.clone(), text(value))).collect();
    tags.sort();
    Parts {
        measurement: text(get("measurement")),
        tags,
        fields,
        timestamp: match get("timestamp") {
            Value::Null => None,
            other => Some(text(other).parse().expect("a number")),
        },
    }
}

/// Some lines that Gnocchi refuses are valid in InfluxDB: names that begin with an escape, or with quotes around a
/// part of them, `=` in a measurement.
#[test]
fn lines_are_read_as_gnocchi_reads_them() {
    let (mut taken, mut refused, mut more) = (0, 0, 0);
    for recorded_line in RECORDED.lines() {
        let entry = json::parse(recorded_line.as_bytes()).expect("it is JSON");
        let line = text(entry.get("line").expect("it is recorded"));
        match entry.get("read").expect("it is recorded") {
            Value::Null => match read(&line) {
                Err(_) => refused += 1,
                Ok(_) => more += 1,
            },
            expected => {
                assert_eq!(read(&line), Ok(Some(recorded(expected))), "{line}");
                taken += 1;
            }
        }
    }
    assert_eq!((taken, refused, more), (328, 236, 36));
}

/// Escapes a name as a client does.
fn escaped(name: &str) -> String {
    name.chars().fold(String::new(), |mut out, character| {
        if " ,=".contains(character) {
            out.push('\\');
        }
        out.push(character);
        out
    })
}

/// Names that need no quotes, and in which no backslash precedes an escaped character.
fn name() -> impl Strategy<Value = String> {
    "[a-zé/.:][a-zé/.: ,=0-9]{0,6}[a-z0-9]"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_written_is_read(
        measurement in name(),
        tags in collection::btree_map(name(), name(), 0..4),
        fields in collection::btree_map(name(), option::of(-1e300..1e300_f64), 1..4),
        timestamp in option::of(any::<u64>()),
    ) {
        let mut line = escaped(&measurement);
        for (key, value) in &tags {
            write!(line, ",{}={}", escaped(key), escaped(value)).expect("a String takes it");
        }
        line.push(' ');
        let written: Vec<String> = fields
            .iter()
            .map(|(key, value)| match value {
                Some(number) => format!("{}={number:?}", escaped(key)),
                None => format!("{}=\"te\\\"xt, a=b\"", escaped(key)),
            })
            .collect();
        line += &written.join(",");
        if let Some(timestamp) = timestamp {
            write!(line, " {timestamp}").expect("a String takes it");
        }
        let expected = Parts {
            measurement,
            tags: tags.into_iter().collect(),
            fields: fields.into_iter().collect(),
            timestamp,
        };
        prop_assert_eq!(read(&line), Ok(Some(expected)));
    }

    #[test]
    fn no_text_is_too_much(text in "[a\"\\\\ ,=#\\x001e.i+-]{0,30}|.{0,30}") {
        let _ = (read(&text), database_to_create(&text));
    }
}
