//! Formats a cluster's status for people.

use std::{collections::BTreeMap, fmt::Write as _};

use gnudi_engine::{ClusterStatus, ProcessStatus, cluster::UnitStatus, process_status::ProcessKind};

use super::{StatusReport, server::ServerFigures};

/// The whole report, as lines.
pub fn write(report: &StatusReport) -> String {
    let status = &report.cluster;
    let mut text = summary(status);
    text += &report.server.as_ref().map(server).unwrap_or_default();
    if !report.is_processed() {
        text += "no process processes measures\n";
    }
    if status.processes.is_empty() {
        text += "one process has the store to itself\n";
        return text;
    }
    text += "\n";
    text += &processes(status);
    text += "\n";
    text += &owners(status);
    text
}

/// The server's figures: two lines, and what is wrong.
fn server(figures: &ServerFigures) -> String {
    let rate = |rate: Option<f64>| rate.map_or_else(|| "?".to_owned(), |rate| grouped(rate.round() as u64));
    let size = |size: Option<f64>| size.map(|size| bytes(size as u64));
    let mut text = format!(
        "gnudi {}: {} measures/s accepted, {} processed, {} requests/s",
        figures.version.as_deref().unwrap_or("?"),
        rate(figures.measures_taken_per_second),
        rate(figures.measures_processed_per_second),
        rate(figures.requests_per_second),
    );
    if let Some(seconds) = figures.oldest_waiting_seconds {
        let _ = write!(text, ", the longest wait {seconds:.1} s");
    }
    text.push('\n');
    let parts = [
        size(figures.aggregates_bytes).map(|size| format!("{size} of aggregates on disk")),
        size(figures.disk_free_bytes).map(|size| format!("{size} free")),
        size(figures.memory_bytes).map(|size| format!("{size} of memory")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if !parts.is_empty() {
        text += &(parts.join(", ") + "\n");
    }
    if figures.merges_waiting.is_some_and(|waiting| waiting > 0.0) {
        text += "a merge of aggregates waits for disk space\n";
    }
    text
}

fn summary(status: &ClusterStatus) -> String {
    let metrics = status.metrics.map(|metrics| format!("{} metrics, ", grouped(metrics)));
    let mut text = format!(
        "{}{} sacks, {} measures wait ({})\n",
        metrics.unwrap_or_default(),
        status.sacks,
        grouped(status.backlog_measures),
        bytes(status.backlog_bytes)
    );
    if let Some(split) = status.split {
        let _ = writeln!(
            text,
            "being split: {} of {} old sacks are empty",
            grouped(split.drained as u64),
            grouped(split.old_sacks as u64)
        );
    }
    if status.measures_set_aside > 0 || status.damaged > 0 {
        let _ = writeln!(
            text,
            "{} measures set aside, {} damaged places since the processes started: their logs name them",
            grouped(status.measures_set_aside),
            grouped(status.damaged)
        );
    }
    text
}

fn processes(status: &ClusterStatus) -> String {
    let heads = ["PROCESS", "KIND", "WORKERS", "SACKS", "PASSES/S", "MEASURES/S"].map(str::to_owned);
    let mut rows = vec![heads];
    let mut total = ProcessStatus::default();
    for process in &status.processes {
        let state = &process.status;
        if state.kind != ProcessKind::Metricd {
            let kind = if state.kind == ProcessKind::Api { "api" } else { "?" };
            rows.push([process.name.as_str(), kind, "", "", "", ""].map(str::to_owned));
            continue;
        }
        total.workers += state.workers;
        total.units += process.leases;
        total.passes_per_second += state.passes_per_second;
        total.measures_per_second += state.measures_per_second;
        rows.push(row(&process.name, "metricd", state, process.leases));
    }
    rows.push(row("all", "", &total, total.units));
    aligned(&rows)
}

fn row(name: &str, kind: &str, status: &ProcessStatus, leases: usize) -> [String; 6] {
    [
        name.to_owned(),
        kind.to_owned(),
        status.workers.to_string(),
        leases.to_string(),
        format!("{:.1}", status.passes_per_second),
        grouped(status.measures_per_second.round() as u64),
    ]
}

/// The sacks of each process, and how many of them have a backlog.
fn owners(status: &ClusterStatus) -> String {
    let mut by_owner: BTreeMap<&str, Vec<&UnitStatus>> = BTreeMap::new();
    for unit in &status.units {
        by_owner.entry(unit.owner.as_deref().unwrap_or("nobody")).or_default().push(unit);
    }
    let mut rows = vec![["OWNER", "WAITING", "SACKS"].map(str::to_owned)];
    for (owner, units) in by_owner {
        let waiting = units.iter().filter(|unit| !unit.idle).count();
        let ids: Vec<u16> = units.iter().map(|unit| unit.id).collect();
        rows.push([owner.to_owned(), waiting.to_string(), ranges(&ids)]);
    }
    aligned(&rows)
}

/// `0-3 7 9-12`, from sorted ids.
fn ranges(ids: &[u16]) -> String {
    let runs = ids.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let shown = runs.map(|run| match run {
        [only] => only.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// Pads columns; the first and the last are left-aligned, numbers right-aligned.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    // A column is numeric if all its rows but the header are.
    let is_number = |text: &String| text.bytes().all(|byte| byte.is_ascii_digit() || b".,".contains(&byte));
    let right: [bool; N] =
        std::array::from_fn(|column| rows.iter().skip(1).all(|row| is_number(&row[column])));
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let _ = if right[column] {
                write!(line, "{cell:>width$}  ")
            } else {
                write!(line, "{cell:<width$}  ")
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// `1,234,567`
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).expect("digits"));
    groups.collect::<Vec<_>>().join(",")
}

fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "kB", "MB", "GB", "TB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} bytes") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = r#"{"sacks": 8, "split": {"old_sacks": 4, "drained": 1}, "backlog_measures": 1234567,
        "backlog_bytes": 1234567, "processes": [
        {"name": "a.1", "kind": "api", "leases": 0},
        {"name": "b.2", "kind": "metricd", "workers": 2, "units": 3, "passes_per_second": 1.25,
         "measures_per_second": 1499.6, "leases": 3}],
        "units": [{"id": 0, "owner": "b.2", "token": 7, "idle": false}, {"id": 1, "owner": "b.2", "token": 7, "idle": true},
                  {"id": 2, "owner": null, "token": 0, "idle": false}, {"id": 3, "owner": "b.2", "token": 7, "idle": true}]}"#;

    #[test]
    fn a_cluster_fits_a_page() {
        let status = ClusterStatus::from_json(STATUS.as_bytes()).unwrap();
        let expected = "\
8 sacks, 1,234,567 measures wait (1.2 MB)
being split: 1 of 4 old sacks are empty

PROCESS  KIND     WORKERS  SACKS  PASSES/S  MEASURES/S
a.1      api
b.2      metricd        2      3       1.2       1,500
all                     2      3       1.2       1,500

OWNER   WAITING  SACKS
b.2           1  0-1 3
nobody        1  2
";
        assert_eq!(write(&StatusReport { cluster: status, server: None }), expected);
    }

    #[test]
    fn a_store_of_one_process_has_its_servers_figures() {
        let cluster = ClusterStatus::from_json(
            br#"{"sacks": 128, "split": null, "backlog_measures": 3, "backlog_bytes": 99, "metrics": 1200,
                                         "processes": [], "units": []}"#,
        );
        let figures = ServerFigures {
            version: Some("1.2.3".to_owned()),
            measures_taken_per_second: Some(1234.4),
            oldest_waiting_seconds: Some(0.25),
            merges_waiting: Some(1.0),
            disk_free_bytes: Some(5e9),
            memory_bytes: Some(5e7),
            processors: vec!["h.1".to_owned()],
            ..ServerFigures::default()
        };
        let mut report = StatusReport { cluster: cluster.unwrap(), server: Some(figures) };
        let expected = "\
1,200 metrics, 128 sacks, 3 measures wait (99 bytes)
gnudi 1.2.3: 1,234 measures/s accepted, ? processed, ? requests/s, the longest wait 0.2 s
5.0 GB free, 50.0 MB of memory
a merge of aggregates waits for disk space
one process has the store to itself
";
        assert_eq!(write(&report), expected);
        report.server = None;
        assert!(write(&report).contains("\nno process processes measures\n"), "{}", write(&report));
    }

    #[test]
    fn what_was_set_aside_is_told() {
        let mut status = ClusterStatus::from_json(STATUS.as_bytes()).unwrap();
        (status.measures_set_aside, status.damaged) = (1200, 3);
        let line =
            "1,200 measures set aside, 3 damaged places since the processes started: their logs name them\n";
        assert!(write(&StatusReport { cluster: status, server: None }).contains(line));
    }

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (123_456_789, "123,456,789")] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!((bytes(999), bytes(1_500_000)), ("999 bytes".to_owned(), "1.5 MB".to_owned()));
    }
}
