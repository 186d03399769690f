//! The report as one HTML page that needs nothing beside it: style and plots stand in it, and it runs no script.
//!
//! The page is a function of the raw results; it measures nothing.

pub mod html;
mod published;
mod rows;
mod words;

use gnudi_model::Timestamp;

use html::{Cell, Line, commands, element, escape, list, plain_table, table, warning};
use published::Published;

use crate::{
    measurement::Measurement,
    peers::Peer,
    results::{Experiment, Recorded, Results},
    rows as measured_rows, table as text,
};

const STYLE: &str = include_str!("style.css");

/// The page of a run.
pub fn render(results: &Results) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>gnudi side by side</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
    );
    out += &head(results);
    out += &the_run(results);
    out += &side_by_side(results);
    for published in &published::ALL {
        out += &repeated(published, results);
    }
    let others: Vec<&Experiment> = results
        .experiments
        .iter()
        .filter(|experiment| published::ALL.iter().all(|published| published.table != experiment.table))
        .collect();
    if !others.is_empty() {
        out += "<h2 id=\"further\">Further experiments</h2>\n";
        out.extend(others.into_iter().map(section_of));
    }
    out + "</body>\n</html>\n"
}

/// What the run was, whether it is whole, and what it says.
fn head(results: &Results) -> String {
    let when = Timestamp::from_secs(results.written_at as i64);
    let mut out = element("h1", "gnudi and its peers, side by side");
    out += &format!(
        "<p class=\"dim\">{} · {} scale · {} · commit {}</p>\n",
        escape(&when.to_iso()),
        if results.scale == measured_rows::counts::Scale::Small { "small" } else { "full" },
        escape(&format!(
            "took {:.0} min {:02.0} s",
            (results.seconds / 60.0).floor(),
            (results.seconds % 60.0).floor()
        )),
        escape(&results.commit),
    );
    if let Some(reason) = &results.partial {
        out += &warning("Partial:", &format!("{reason}. What follows is what there was until then."));
    }
    for server in &results.servers {
        if let Some(reason) = &server.missing {
            out += &warning(&format!("Missing: {}", server.name), reason);
        }
    }
    for failure in &results.failures {
        out += &warning(&format!("Failed: {}, {}", failure.server, failure.work), &failure.reason);
    }
    for experiment in &results.experiments {
        if let Some(reason) = &experiment.missing {
            out += &warning(&format!("Missing: {}", experiment.title), reason);
        }
    }
    let mut words = words::standings(&results.measurements, &peers(results));
    words.extend(words::aims(&results.measurements));
    if !words.is_empty() {
        out += "<h2 id=\"words\">What the figures say</h2>\n";
        out += &list(&words);
        out += &element(
            "p",
            "Computed from this run's figures; rows are named below. On a machine that does other work beside, \
                              ratios within a row mean more than rates: servers are measured in turn, row by row.",
        );
    }
    out + &contents()
}

fn contents() -> String {
    let mut out = String::from("<nav><a href=\"#run\">The run</a> <a href=\"#side\">Side by side</a>\n");
    for published in &published::ALL {
        let (anchor, title) = (published.table, published.title);
        out += &format!("<a href=\"#{anchor}\">{anchor}: {}</a>\n", escape(title));
    }
    out + "</nav>\n"
}

/// The servers of the run that are known to this program, in their order.
fn peers(results: &Results) -> Vec<Peer> {
    results.servers.iter().filter_map(|server| Peer::from_name(&server.name)).collect()
}

/// Machine, versions, promises, commands.
fn the_run(results: &Results) -> String {
    let mut out = String::from("<h2 id=\"run\">The run</h2>\n");
    out += &element("p", &format!("{}; load generator included.", results.machine));
    let versions: Vec<Line> = results
        .versions
        .iter()
        .map(|version| Line {
            cells: vec![
                Cell::Text(version.name.clone()),
                Cell::Text(version.version.clone().unwrap_or_else(|| "not here".to_owned())),
            ],
            ours: version.name == "gnudi",
        })
        .collect();
    out += &table("versions", &["program", "version"], &versions);
    let promises: Vec<Line> = results
        .servers
        .iter()
        .map(|server| Line {
            cells: vec![Cell::Text(server.name.clone()), Cell::Text(server.durability.clone())],
            ours: server.name == "gnudi",
        })
        .collect();
    out += &table("what an accepted request is worth when the power goes", &["server", "promise"], &promises);
    out += &element("p", "To repeat the run, and to make this page again from its raw results:");
    out + &commands(&[&results.command, "gnudi benchmark report --from target/bench/results.json"])
}

fn side_by_side(results: &Results) -> String {
    let mut out = String::from("<h2 id=\"side\">Side by side</h2>\n");
    if results.measurements.is_empty() {
        return out + &element("p", "Nothing was measured.");
    }
    out += &element(
        "p",
        "limit: a server that does nothing, which shows what the load generator itself reaches. gnudi is: how many times better \
         gnudi's figure is (faster, or smaller). cpu: processor seconds of the server with all its processes during the row. \
         per cpu s: work for each of them, which a busy machine disturbs least. Gnocchi gets smaller counts, since it is slow.",
    );
    out += &commands(&["gnudi benchmark report --only ROW,..."]);
    out += &rows::push_plot(&results.measurements, &peers(results));
    out + &rows::blocks(&results.measurements)
}

/// A published table beside what was measured here.
fn repeated(published: &Published, results: &Results) -> String {
    let mut out = format!(
        "<h2 id=\"{0}\">{0}: {1}</h2>\n<p>{2}</p>\n",
        published.table,
        escape(published.title),
        escape(published.source)
    );
    if !published.figures.is_empty() {
        let lines: Vec<Line> =
            published.figures.iter().map(|figure| beside(figure, &results.measurements)).collect();
        let headings = [
            "operation",
            "published",
            "its rate",
            "Gnocchi here",
            "gnudi here",
            "gnudi to Gnocchi",
            "gnudi to published",
        ];
        out += &table("a second, on that machine and on this one", &headings, &lines);
        out +=
            &commands(&[&format!("gnudi benchmark report --only {} --peers gnudi,gnocchi", published.rows)]);
    }
    for lines in published.tables {
        let headings: Vec<String> = lines.headings.iter().map(|&heading| heading.to_owned()).collect();
        let rows: Vec<Vec<String>> =
            lines.rows.iter().map(|row| row.iter().map(|&cell| cell.to_owned()).collect()).collect();
        out += &plain_table(&format!("published: {}", lines.title), &headings, &rows);
    }
    if published.figures.is_empty() && !published.rows.is_empty() {
        out += &commands(&[&format!("gnudi benchmark report --only {}", published.rows)]);
    }
    let experiments: Vec<&Experiment> =
        results.experiments.iter().filter(|experiment| experiment.table == published.table).collect();
    if published.table == "R4" {
        out += &element(
            "p",
            "Not repeated yet: gnudi's telemetry agent comes later, and its benchmark with it.",
        );
    } else if experiments.is_empty() && published.figures.is_empty() {
        out += &element("p", "Not measured in this run.");
    }
    out.extend(experiments.into_iter().map(section_of));
    out
}

/// A published figure, Gnocchi's and gnudi's here, and their ratios.
fn beside(figure: &published::Figure, measurements: &[Measurement]) -> Line {
    let here = |peer: Peer| {
        let found = measurements.iter().find(|found| found.row == figure.row && found.peer == peer)?;
        let seconds = if figure.per_processor { found.server_cpu_seconds? } else { found.seconds };
        Some(found.done / seconds).filter(|rate| rate.is_finite() && *rate > 0.0)
    };
    let (gnocchi, gnudi) = (here(Peer::Gnocchi), here(Peer::Gnudi));
    let rate = |rate: Option<f64>| {
        Cell::Figure(rate.map_or_else(|| "-".to_owned(), |rate| text::short(rate) + "/s"))
    };
    let times = |times: Option<f64>| Cell::Figure(times.map_or_else(|| "-".to_owned(), text::times));
    Line {
        cells: vec![
            Cell::Text(figure.operation.to_owned()),
            Cell::Text(figure.details.to_owned()),
            rate(Some(figure.rate)),
            rate(gnocchi),
            rate(gnudi),
            times(gnudi.zip(gnocchi).map(|(ours, theirs)| ours / theirs)),
            times(gnudi.map(|ours| ours / figure.rate)),
        ],
        ours: false,
    }
}

/// An experiment: how to repeat it, and its findings.
fn section_of(experiment: &Experiment) -> String {
    let mut out = element("h3", &experiment.title);
    out += &commands(&[&format!("gnudi benchmark {}", experiment.command)]);
    if let Some(reason) = &experiment.missing {
        out += &warning("Missing:", reason);
    }
    if let Some(findings) = &experiment.findings {
        out += &shown(findings);
    }
    out
}

fn shown(findings: &Recorded) -> String {
    let mut out = String::new();
    if let Some(reason) = &findings.partial {
        out += &warning("Partial:", reason);
    }
    out += &element("p", &findings.title);
    if !findings.figures.is_empty() {
        let lines: Vec<Line> = findings
            .figures
            .iter()
            .map(|figure| Line {
                cells: vec![Cell::Text(figure.name.clone()), Cell::Figure(figure.shown())],
                ours: false,
            })
            .collect();
        out += &table("", &["figure", "value"], &lines);
    }
    for table in &findings.tables {
        out += &plain_table(&table.title, &table.headings, &table.rows);
    }
    out.extend(findings.plots.iter().map(rows::figure));
    out + &list(&findings.notes)
}
