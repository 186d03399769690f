//! Prints findings as gnocchiclient's table, JSON, bare values or CSV.
//!
//! Figures look like in the client's output, for compatibility with scripts; tables, plots, notes, and the reason of a
//! partial run follow after them.

use anyhow::Result;
use gnudi_endpoint::output::{Cell, Format, Listing, Output, Record, chosen};
use gnudi_model::python;
use serde_json::json;

use crate::findings::{Findings, Table, Value};

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

/// The findings as text, with a final newline.
pub fn text(findings: &Findings, format: Format) -> Result<String> {
    let Findings { figures, tables, plots, notes, partial, .. } = findings;
    let output = Output::of(format);
    let mut record: Record =
        figures.iter().map(|figure| (figure.name.clone(), cell(&figure.value))).collect();
    record.extend(partial.iter().map(|why| ("partial".to_owned(), Cell::from(why.as_str()))));
    if format == Format::Json {
        let lists = [("tables", json!(tables)), ("plots", json!(plots)), ("notes", json!(notes))];
        for (name, list) in lists {
            if list.as_array().is_some_and(|list| !list.is_empty()) {
                record.push((name.to_owned(), Cell::from(list)));
            }
        }
        return output.record(record);
    }
    let mut text = if record.is_empty() { String::new() } else { output.record(record)? };
    if format == Format::Value {
        return Ok(text);
    }
    for Table { title, headings, rows } in tables {
        if format == Format::Table {
            text.extend([title.as_str(), "\n"]);
        } else if !text.is_empty() {
            text.push('\n');
        }
        let row = |row: &Vec<String>| row.iter().map(|cell| Cell::from(cell.as_str())).collect();
        let rows: Vec<Vec<Cell>> = rows.iter().map(row).collect();
        text += &output.listing(Listing { columns: headings.clone(), rows })?;
    }
    if format == Format::Table {
        text.extend(notes.iter().map(|note| format!("{note}\n")));
    }
    Ok(text)
}

/// Counts and latencies are numbers, everything else has its unit.
fn cell(value: &Value) -> Cell {
    match value {
        Value::Count(count) => Cell::from(*count),
        Value::Latency(seconds) => Cell::Float(*seconds),
        other => Cell::from(shown(other).as_str()),
    }
}

/// The parts that machine-readable formats leave out, for people; empty if [`text`] includes them.
pub fn remarks(findings: &Findings, format: Format) -> &[String] {
    match format {
        Format::Table | Format::Json => &[],
        Format::Value | Format::Csv => &findings.notes,
    }
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
        let text = |findings: &Findings, format| text(findings, format).unwrap();
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
