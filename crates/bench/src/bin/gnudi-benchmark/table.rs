//! The report as text: a block per row, with a line per peer.

use std::fmt::Write as _;

use crate::{
    findings::{Findings, Table, Value},
    measurement::{Latency, Measurement, Row, Unit},
    peers::Peer,
    sheet::Sheet,
};

pub const ABSENT: &str = "-";

/// A number with three digits and a magnitude: `950`, `1.23k`, `12.0M`.
pub fn short(value: f64) -> String {
    for (limit, divisor, magnitude) in [(999.5, 1.0, ""), (999_500.0, 1e3, "k"), (999_500_000.0, 1e6, "M")] {
        if value < limit {
            return digits(value / divisor) + magnitude;
        }
    }
    digits(value / 1e9) + "G"
}

fn digits(value: f64) -> String {
    let places = if value == 0.0 || value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.places$}")
}

/// A duration in a suitable unit: `85 µs`, `1.20 ms`, `3.00 s`.
pub fn span(us: f64) -> String {
    match us {
        us if us < 999.5 => format!("{} µs", digits(us)),
        us if us < 999_500.0 => format!("{} ms", digits(us / 1e3)),
        us => format!("{} s", digits(us / 1e6)),
    }
}

/// `12.3MB`.
pub fn bytes(bytes: f64) -> String {
    short(bytes) + "B"
}

/// A value in a table, with its unit.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Count(count) => count.to_string(),
        Value::Rate(rate, _) => short(*rate) + "/s",
        Value::Each(amount, unit) => format!("{amount:.2} {unit}"),
        Value::Seconds(seconds) => format!("{seconds:.2} s"),
        Value::Latency(seconds) => span(1e6 * seconds),
        Value::Percent(percent) => format!("{percent:.1} %"),
        Value::Bytes(amount) => bytes(*amount as f64),
        Value::Text(text) => text.clone(),
    }
}

pub fn times(ratio: f64) -> String {
    match ratio {
        ratio if !ratio.is_finite() => ABSENT.to_owned(),
        ratio => format!("{}x", short(ratio)),
    }
}

/// The columns of a row's block.
fn sheet() -> Sheet<'static, Measurement> {
    let latency = |us: fn(&Latency) -> f64| {
        move |found: &Measurement| found.latency.as_ref().map(|latency| Value::Latency(us(latency) / 1e6))
    };
    // The clock's resolution is 0.01 s.
    let cpu = |seconds: f64| (seconds >= 0.005).then_some(Value::Seconds(seconds));
    let mut sheet = Sheet::new();
    sheet.text("", name);
    sheet.value("rate", Measurement::value).compared();
    sheet.value("p50", latency(|latency| latency.p50_us));
    sheet.value("p90", latency(|latency| latency.p90_us));
    sheet.value("p99", latency(|latency| latency.p99_us));
    sheet.value("max", latency(|latency| latency.max_us));
    sheet.value("cpu server", move |found| found.server_cpu_seconds.and_then(cpu));
    sheet.value("cpu load", move |found| cpu(found.generator_cpu_seconds));
    sheet.value("per cpu s", |found| {
        let rate = found.done / found.server_cpu_seconds?;
        (rate.is_finite() && found.unit != Unit::Bytes).then(|| Value::Text(short(rate)))
    });
    sheet.value("memory", |found| found.server_memory_bytes.map(Value::Bytes));
    sheet
}

/// A row's table: a line per server and variant, in order.
pub fn of_row(row: &Row, measurements: &[&Measurement]) -> Table {
    let title = format!("{} [{}]", row.title, row.key);
    sheet().table(title, measurements.iter().copied(), |found| {
        counterpart(found, measurements).filter(|_| found.peer != Peer::Gnudi)
    })
}

pub fn name(measurement: &Measurement) -> String {
    match &measurement.variant {
        Some(variant) => format!("{} ({variant})", measurement.peer.name()),
        None => measurement.peer.name().to_owned(),
    }
}

pub fn remarks(measurement: &Measurement) -> Vec<String> {
    let mut remarks = measurement.notes.clone();
    if measurement.refused > 0 {
        remarks.push(format!("{} calls refused (429, 503) and sent again", measurement.refused));
    }
    if measurement.failures > 0 {
        remarks.push(format!("{} CALLS FAILED", measurement.failures));
    }
    remarks
}

/// gnudi's figure to compare with: of the same variant if there is one, else its first.
pub fn counterpart<'a>(
    measurement: &Measurement,
    measurements: &[&'a Measurement],
) -> Option<&'a Measurement> {
    let mut of_gnudi = measurements.iter().copied().filter(|found| found.peer == Peer::Gnudi);
    let first = of_gnudi.clone().next();
    of_gnudi.find(|found| found.variant == measurement.variant).or(first)
}

/// A row's block: its title, then a line for each peer, in order. Empty columns are left out.
pub fn block(row: &Row, measurements: &[&Measurement]) -> String {
    let Table { title, headings, rows } = of_row(row, measurements);
    let is_used = |column: usize| rows.iter().any(|row| !["", ABSENT].contains(&row[column].as_str()));
    let used: Vec<usize> = (0..headings.len()).filter(|&column| is_used(column)).collect();
    let lines: Vec<&Vec<String>> = std::iter::once(&headings).chain(&rows).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let mut text = title + "\n";
    for (index, line) in lines.iter().enumerate() {
        let mut shown = String::new();
        for &column in &used {
            let (width, cell) = (width(column), line[column].as_str());
            // Names are left-aligned, figures right-aligned.
            let padded = match (column, cell) {
                (0, name) => format!("  {name:<width$}"),
                (_, "") => format!("  {ABSENT:>width$}"),
                (_, cell) => format!("  {cell:>width$}"),
            };
            shown.push_str(&padded);
        }
        if index > 0 {
            let remarks = remarks(measurements[index - 1]);
            if !remarks.is_empty() {
                write!(shown, "  {}", remarks.join("; ")).expect("a String takes it");
            }
        }
        text.push_str(shown.trim_end());
        text.push('\n');
    }
    text
}

pub fn markdown(findings: &Findings) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = String::new();
    for Table { title, headings, rows } in &findings.tables {
        text.extend([title, "\n\n", &line(headings), &line(&vec!["---".to_owned(); headings.len()])]);
        text.extend(rows.iter().map(|row| line(row)));
        text.push('\n');
    }
    let partial = findings.partial.iter().map(|reason| format!("- partial: {reason}\n"));
    text.extend(findings.notes.iter().map(|note| format!("- {note}\n")).chain(partial));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::sample;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.5, "0.50"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (99.96, "100"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (12_345.0, "12.3k"),
            (999_600.0, "1.00M"),
            (56_000_000.0, "56.0M"),
            (2.5e9, "2.50G"),
        ] {
            assert_eq!(short(value), text);
        }
        assert_eq!([span(85.0), span(1200.0), span(3e6)], ["85.0 µs", "1.20 ms", "3.00 s"]);
        assert_eq!((times(123.4), times(f64::INFINITY)), ("123x".into(), "-".into()));
    }

    #[test]
    fn tables_are_markdown() {
        let speed = Table::new("Speed", "server | rate", [vec!["a|b".to_owned(), "1/s".to_owned()]]);
        let (tables, notes) = (vec![speed], vec!["noted".to_owned()]);
        let text = markdown(&Findings { tables, notes, ..Findings::default() });
        assert_eq!(text, "Speed\n\n| server | rate |\n| --- | --- |\n| a\\|b | 1/s |\n\n- noted\n");
    }

    #[test]
    fn a_block_lines_up_and_compares() {
        let row = Row::new("push-1", Unit::Measures, "push, 1 measure a call");
        let mut gnudi = sample("push-1", Peer::Gnudi, Unit::Measures, 80_000.0, 2.0);
        gnudi.latency = Some(Latency { p50_us: 10.0, p90_us: 20.0, p99_us: 1500.0, max_us: 2e6 });
        let mut gnocchi = sample("push-1", Peer::Gnocchi, Unit::Measures, 400.0, 2.0);
        gnocchi.failures = 3;
        gnocchi.notes.push("scaled down".to_owned());
        let text = block(&row, &[&gnudi, &gnocchi]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "push, 1 measure a call [push-1]");
        assert!(
            lines[2].contains("gnudi") && lines[2].contains("40.0k/s") && lines[2].contains("1.50 ms"),
            "{text}"
        );
        assert!(lines[3].contains("200/s") && lines[3].contains(" 200x"), "{text}");
        assert!(lines[3].ends_with("scaled down; 3 CALLS FAILED"), "{text}");
        let end_of = |line: &str, word: &str| line[..line.find(word).unwrap() + word.len()].chars().count();
        assert_eq!(end_of(lines[1], "rate"), end_of(lines[2], "40.0k/s"), "{text}");
    }
}
