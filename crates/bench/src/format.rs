//! Prints findings as gnocchiclient's table, JSON, bare values or CSV.
//!
//! Figures look like in the client's output, for compatibility with scripts; tables, plots, notes, and the reason of a
//! partial run follow after them.

use anyhow::{Result, ensure};
use clap::ValueEnum;
use serde_json::json;

use gnudi_model::python;

use crate::{
    bordered::{self, Alignment},
    findings::{Figure, Findings, Table, Value},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Json,
    Value,
    Csv,
}

/// A figure's value in tables: `1136.96 create/s`, `8.80 seconds`.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Count(count) => count.to_string(),
        Value::Rate(rate, of) => format!("{rate:.2} {of}/s"),
        Value::Each(amount, unit) => format!("{amount:.2} {unit}"),
        Value::Seconds(seconds) => format!("{seconds:.2} seconds"),
        Value::Latency(seconds) => python::text_of_float(*seconds),
        Value::Percent(percent) => format!("{percent:.2} %"),
        Value::Bytes(bytes) => format!("{bytes} bytes"),
        Value::Text(text) => text.clone(),
    }
}

/// Keeps only the figures with these names, in order; case and the difference of blanks and underscores are ignored.
pub fn select(findings: &mut Findings, names: &[String]) -> Result<()> {
    let known: Vec<&str> = findings.figures.iter().map(|figure| figure.name.as_str()).collect();
    let mut chosen = chosen(&known, names)?.into_iter();
    findings.figures.retain(|_| chosen.next().expect("one answer each"));
    Ok(())
}

/// Which columns the names select, one result each; all without names. Compares like [`select`].
pub fn chosen(columns: &[&str], names: &[String]) -> Result<Vec<bool>> {
    fn normal(name: &str) -> String {
        name.trim().to_lowercase().replace(' ', "_")
    }
    let wanted: Vec<String> = names.iter().map(|name| normal(name)).collect();
    let chosen: Vec<bool> =
        columns.iter().map(|column| names.is_empty() || wanted.contains(&normal(column))).collect();
    let found = names.is_empty() || chosen.contains(&true);
    ensure!(found, "No recognized column names in {names:?}. Recognized columns are {columns:?}.");
    Ok(chosen)
}

/// The findings as text, with a final newline.
pub fn text(findings: &Findings, format: Format) -> String {
    let mut figures = findings.figures.clone();
    figures.extend(findings.partial.as_ref().map(|why| Figure {
        name: "partial".to_owned(),
        value: Value::Text(why.clone()),
        better: None,
    }));
    match format {
        Format::Table => tables(findings, &figures),
        Format::Json => object(findings, &figures),
        Format::Value => figures.iter().map(|figure| shown(&figure.value) + "\n").collect(),
        Format::Csv => csv(findings, &figures),
    }
}

/// The parts that machine-readable formats leave out, for people; empty if [`text`] includes them.
pub fn remarks(findings: &Findings, format: Format) -> &[String] {
    match format {
        Format::Table | Format::Json => &[],
        Format::Value | Format::Csv => &findings.notes,
    }
}

fn tables(findings: &Findings, figures: &[Figure]) -> String {
    let mut text = String::new();
    if !figures.is_empty() {
        let rows = figures.iter().map(|figure| vec![figure.name.clone(), shown(&figure.value)]);
        let figures = Table::new("", "Field | Value", rows);
        text += &table(&figures);
    }
    for findings in &findings.tables {
        text.extend([findings.title.as_str(), "\n"]);
        text += &table(findings);
    }
    text.extend(findings.notes.iter().map(|note| format!("{note}\n")));
    text
}

/// A line per row, left-aligned.
fn table(Table { headings, rows, .. }: &Table) -> String {
    let line = |row: &Vec<String>| row.iter().map(|cell| cell.replace(['\n', '\r'], " ")).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(line).collect();
    bordered::draw(headings, &rows, &vec![Alignment::Left; headings.len()])
}

/// Numbers bare, texts in quotes.
fn quoted_text(value: &Value, quoted: impl Fn(&str) -> String) -> String {
    match value {
        Value::Count(_) | Value::Latency(_) => shown(value),
        other => quoted(&shown(other)),
    }
}

/// A JSON object whose keys keep the order of the figures.
fn object(findings: &Findings, figures: &[Figure]) -> String {
    let value = |figure: &Figure| quoted_text(&figure.value, |text| json!(text).to_string());
    let entries = figures.iter().map(|figure| format!("  {}: {}", json!(figure.name), value(figure)));
    let mut entries: Vec<String> = entries.collect();
    let lists = [
        ("tables", json!(findings.tables)),
        ("plots", json!(findings.plots)),
        ("notes", json!(findings.notes)),
    ];
    for (name, list) in lists {
        if list.as_array().is_some_and(|list| !list.is_empty()) {
            entries.push(format!("  \"{name}\": {}", format!("{list:#}").replace('\n', "\n  ")));
        }
    }
    if entries.is_empty() { "{}\n".to_owned() } else { format!("{{\n{}\n}}\n", entries.join(",\n")) }
}

pub fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// Texts in quotes, numbers without.
fn csv(findings: &Findings, figures: &[Figure]) -> String {
    let mut lines = Vec::new();
    if !figures.is_empty() {
        lines.push("\"Field\",\"Value\"".to_owned());
    }
    for Figure { name, value, .. } in figures {
        lines.push(format!("{},{}", quoted(name), quoted_text(value, quoted)));
    }
    for Table { headings, rows, .. } in &findings.tables {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        for row in std::iter::once(headings).chain(rows) {
            lines.push(row.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(","));
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_does_not_have_follows() {
        let mut findings = Findings::new("creates metrics");
        findings.tell("client workers", Value::Count(48));
        findings.tables.push(Table::new("T", "a | b", [vec!["1".to_owned(), "x".to_owned()]]));
        findings.note("slow");
        findings.partial = Some("cut".to_owned());
        let json: serde_json::Value = serde_json::from_str(&text(&findings, Format::Json)).unwrap();
        assert_eq!(json["partial"], "cut");
        assert_eq!(json["notes"], json!(["slow"]));
        assert_eq!(json["tables"][0]["rows"], json!([["1", "x"]]));
        let table = text(&findings, Format::Table);
        assert!(table.contains("| partial        | cut   |\n"), "{table}");
        assert!(
            table.ends_with("T\n+---+---+\n| a | b |\n+---+---+\n| 1 | x |\n+---+---+\nslow\n"),
            "{table}"
        );
        assert!(text(&findings, Format::Csv).ends_with("\"partial\",\"cut\"\n\n\"a\",\"b\"\n\"1\",\"x\"\n"));
        assert_eq!(remarks(&findings, Format::Value), ["slow"]);
        assert!(remarks(&findings, Format::Json).is_empty());
        assert_eq!(text(&Findings::default(), Format::Json), "{}\n");
    }
}
