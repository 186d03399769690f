//! The report as one self-contained HTML page: with embedded style and plots, without scripts.
//!
//! The page is a function of the raw results.

pub mod html;
mod published;
mod rows;
pub mod words;

use gnudi_model::Timestamp;

use html::{commands, element, escape, folded, list, plain_table, warning};
use published::{Lines, Published};

use crate::{
    findings::{Figure, Findings, Table, cells},
    measurement::Measurement,
    peers::Peer,
    results::{Experiment, Results},
    rows::counts::Scale,
    table as text,
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
    out += "<h2 id=\"prometheus\">Prometheus' API</h2>\n";
    out += &experiments(results, |table| table == PROMETHEUS);
    out += "<h2 id=\"further\">Growth</h2>\n";
    let is_published = |table: &str| published::ALL.iter().any(|published| published.table == table);
    out += &experiments(results, |table| table != PROMETHEUS && !is_published(table));
    out + "</body>\n</html>\n"
}

/// The section's name of experiments without a published table.
const PROMETHEUS: &str = "prometheus";

/// The experiments of some tables.
fn experiments(results: &Results, is_wanted: impl Fn(&str) -> bool) -> String {
    let wanted = results.experiments.iter().filter(|experiment| is_wanted(&experiment.table));
    let sections: String = wanted.map(section_of).collect();
    if sections.is_empty() { element("p", "Not measured in this run.") } else { sections }
}

/// The run's summary: what it was, whether it is complete, and its conclusions.
fn head(results: &Results) -> String {
    let when = Timestamp::from_secs(results.written_at as i64);
    let mut out = element("h1", "gnudi and its peers, side by side");
    let scale = if results.scale == Scale::Small { "small" } else { "full" };
    let (minutes, seconds) = ((results.seconds / 60.0).floor(), (results.seconds % 60.0).floor());
    let line = format!(
        "<p class=\"dim\">{} · {scale} scale · took {minutes:.0} min {seconds:02.0} s · commit {}</p>\n",
        escape(&when.to_iso()),
        escape(&results.commit),
    );
    out += &line;
    if let Some(reason) = &results.partial {
        out += &warning("Partial:", &format!("{reason}. What follows is what there was until then."));
    }
    out += &rows::overview(&results.measurements, &peers(results));
    let absent = results.absences();
    if !absent.is_empty() {
        let entry = |(how, what, reason): &(&str, String, &str)| {
            format!("<p><strong>{how}: {}</strong> {}</p>\n", escape(what), escape(reason))
        };
        let entries: String = absent.iter().map(entry).collect();
        let summary = format!("Missing or failed: {}", absent.len());
        out.extend(["<div class=\"warn\">\n", &folded(&summary, &entries), "</div>\n"]);
    }
    let mut words = words::standings(&results.measurements, &peers(results));
    words.extend(words::figures(&results.measurements));
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
    out.extend(published::ALL.iter().map(|published| {
        let (anchor, title) = (published.table, published.title);
        format!("<a href=\"#{anchor}\">{anchor}: {}</a>\n", escape(title))
    }));
    out + "<a href=\"#prometheus\">Prometheus' API</a>\n<a href=\"#further\">Growth</a>\n</nav>\n"
}

/// The known servers of the run, in order.
pub fn peers(results: &Results) -> Vec<Peer> {
    results.servers.iter().filter_map(|server| Peer::from_name(&server.name)).collect()
}

/// Machine, versions, durability, commands.
fn the_run(results: &Results) -> String {
    let mut out = String::from("<h2 id=\"run\">The run</h2>\n");
    out += &element("p", &format!("{}; load generator included.", results.machine));
    let versions = results.versions.iter().map(|version| {
        vec![version.name.clone(), version.version.clone().unwrap_or_else(|| "not here".to_owned())]
    });
    out += &plain_table(&Table::new("versions", "program | version", versions));
    let promises = results.servers.iter().map(|server| vec![server.name.clone(), server.durability.clone()]);
    let caption = "what an accepted request is worth when the power goes";
    out += &plain_table(&Table::new(caption, "server | promise", promises));
    out += &element("p", "To repeat the run, and to make this page again from its raw results:");
    out + &commands(&[&results.command, "gnudi-benchmark report --from target/bench/results.json"])
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
    out += &commands(&["gnudi-benchmark report --only ROW,..."]);
    out += &rows::push_plot(&results.measurements, &peers(results));
    out + &rows::blocks(&results.measurements)
}

/// A published table beside our measurements.
fn repeated(published: &Published, results: &Results) -> String {
    let mut out = format!(
        "<h2 id=\"{0}\">{0}: {1}</h2>\n<p>{2}</p>\n",
        published.table,
        escape(published.title),
        escape(published.source)
    );
    if !published.figures.is_empty() {
        let headings = "operation | published | its rate | Gnocchi here | gnudi here | gnudi to Gnocchi | gnudi to published";
        let rows = published.figures.iter().map(|figure| beside(figure, &results.measurements));
        out += &plain_table(&Table::new("a second, on that machine and on this one", headings, rows));
        out +=
            &commands(&[&format!("gnudi-benchmark report --only {} --peers gnudi,gnocchi", published.rows)]);
    }
    for Lines { title, headings, rows } in published.tables {
        let rows = rows.iter().map(|row| cells(row));
        out += &plain_table(&Table::new(format!("published: {title}"), headings, rows));
    }
    if published.figures.is_empty() && !published.rows.is_empty() {
        out += &commands(&[&format!("gnudi-benchmark report --only {}", published.rows)]);
    }
    let is_own = |table: &str| table == published.table;
    if published.figures.is_empty() || results.experiments.iter().any(|found| is_own(&found.table)) {
        out += &experiments(results, is_own);
    }
    out
}

/// A published figure, Gnocchi's and gnudi's, and their ratios.
fn beside(figure: &published::Figure, measurements: &[Measurement]) -> Vec<String> {
    let here = |peer: Peer| {
        let found = measurements.iter().find(|found| found.row == figure.row && found.peer == peer)?;
        let seconds = if figure.per_processor { found.server_cpu_seconds? } else { found.seconds };
        Some(found.done / seconds).filter(|rate| rate.is_finite() && *rate > 0.0)
    };
    let (gnocchi, gnudi) = (here(Peer::Gnocchi), here(Peer::Gnudi));
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| text::short(rate) + "/s");
    let times = |times: Option<f64>| times.map_or_else(|| "-".to_owned(), text::times);
    vec![
        figure.operation.to_owned(),
        figure.details.to_owned(),
        rate(Some(figure.rate)),
        rate(gnocchi),
        rate(gnudi),
        times(gnudi.zip(gnocchi).map(|(ours, theirs)| ours / theirs)),
        times(gnudi.map(|ours| ours / figure.rate)),
    ]
}

/// An experiment: its command, and its findings.
fn section_of(experiment: &Experiment) -> String {
    let mut out = element("h3", &experiment.title);
    out += &commands(&[&format!("gnudi-benchmark {}", experiment.command)]);
    if let Some(reason) = &experiment.missing {
        out += &warning("Missing:", reason);
    }
    if let Some(findings) = &experiment.findings {
        out += &shown(findings);
    }
    out
}

/// Tables and plots, then the single figures, collapsed if tables have them, too.
fn shown(findings: &Findings) -> String {
    let mut out = String::new();
    if let Some(reason) = &findings.partial {
        out += &warning("Partial:", reason);
    }
    out += &element("p", &findings.title);
    out.extend(findings.tables.iter().map(plain_table));
    out.extend(findings.plots.iter().map(rows::figure));
    out += &list(&findings.notes);
    if findings.figures.is_empty() {
        return out;
    }
    let row = |figure: &Figure| vec![figure.name.clone(), text::shown(&figure.value)];
    let figures = plain_table(&Table::new("", "figure | value", findings.figures.iter().map(row)));
    if findings.tables.is_empty() {
        return out + &figures;
    }
    out + &folded("every figure", &figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        findings::{Axis, Line as PlotLine, Plot, Value},
        measurement::{Unit, sample as measurement},
        results::{Failure, ServerNote, sample},
    };

    const NASTY: &str = "</p><script src=\"http://example.org\">&";

    fn full() -> Results {
        let mut results = sample();
        results.servers = [Peer::Limit, Peer::Gnudi, Peer::Gnocchi, Peer::VictoriaMetrics]
            .map(|peer| ServerNote {
                name: peer.name().to_owned(),
                durability: peer.durability().to_owned(),
                missing: None,
            })
            .to_vec();
        for row in ["push-1", "push-5000", "push-1-c64"] {
            for (peer, rate) in
                [(Peer::Limit, 9e4), (Peer::Gnudi, 2e4), (Peer::Gnocchi, 100.0), (Peer::VictoriaMetrics, 4e4)]
            {
                results.measurements.push(measurement(row, peer, Unit::Measures, rate, 1.0));
            }
        }
        let mut findings = Findings::new("objects");
        findings.tell("writes", Value::Count(7));
        findings.note("noted");
        let row = ["omap", "11.7k/s"].map(str::to_owned).to_vec();
        findings.tables.push(Table::new("kinds", "kind | rate", [row]));
        let (x, y) = (Axis::linear("seconds"), Axis::linear("writes/s"));
        let line = PlotLine::new("omap", [(0.0, 1.0), (1.0, 2.0)]);
        findings.plots.push(Plot::new("over time", x, y, vec![line]));
        results.experiments.push(Experiment {
            table: "R3".to_owned(),
            title: "objects and omaps".to_owned(),
            command: "rados write-omap".to_owned(),
            findings: Some(findings),
            missing: None,
        });
        results
    }

    /// The page's text between two anchors.
    fn between<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
        let start = page.find(&format!("id=\"{from}\"")).unwrap();
        let end = page[start..].find(&format!("id=\"{to}\"")).map_or(page.len(), |end| start + end);
        &page[start..end]
    }

    #[test]
    fn everything_that_was_found_stands_in_its_section() {
        let page = render(&full());
        html::well_formed(&page).unwrap();
        let words = between(&page, "words", "run");
        assert!(
            words.contains(
                "victoria-metrics wins in 3: push, 1 measure a call, 8 connections (40.0k/s against"
            ),
            "{words}"
        );
        let r1 = between(&page, "R1", "R2");
        // Published, Gnocchi, gnudi, and both ratios.
        assert!(
            r1.contains("<td>624/s</td><td>100/s</td><td>20.0k/s</td><td>200x</td><td>32.1x</td>"),
            "{r1}"
        );
        assert!(r1.contains("<td>1.30k/s</td><td>-</td><td>-</td>"), "{r1}");
        let r3 = between(&page, "R3", "R4");
        for part in ["gnudi-benchmark rados write-omap", "<td>7</td>", "<td>11.7k/s</td>", "<svg", "noted"] {
            assert!(r3.contains(part), "{part}: {r3}");
        }
        for (from, to) in [("R4", "R5"), ("R5", "prometheus"), ("prometheus", "further")] {
            assert!(between(&page, from, to).contains("Not measured in this run."));
        }
        assert!(between(&page, "side", "R1").contains("measures a second by measures a call"));
        let head = &page[..page.find("id=\"words\"").unwrap()];
        // The peers of the run, but not the no-op server.
        assert!(
            head.contains("<svg class=\"plot standings\"")
                && head.contains("gnocchi: 0.005x, push, 1 measure a call"),
            "{head}"
        );
        assert!(!head.contains("limit:"), "{head}");
        assert!(!page.contains("Partial:") && !page.contains("Missing") && !page.contains("Failed:"));
    }

    #[test]
    fn what_is_missing_stands_at_the_top() {
        let mut results = full();
        results.partial = Some("the run was interrupted".to_owned());
        results.servers[2].missing = Some("uwsgi is missing".to_owned());
        results.failures.push(Failure {
            work: "read".to_owned(),
            server: "gnudi".to_owned(),
            reason: "3 calls failed".to_owned(),
        });
        results.experiments[0].findings = None;
        results.experiments[0].missing = Some("no librados".to_owned());
        let page = render(&results);
        let top = &page[..page.find("id=\"words\"").unwrap()];
        for part in [
            "<strong>Partial:</strong> the run was interrupted",
            "<strong>Missing: gnocchi</strong> uwsgi is missing",
            "<strong>Failed: gnudi, read</strong> 3 calls failed",
            "<strong>Missing: objects and omaps</strong> no librados",
        ] {
            assert!(top.contains(part), "{part}: {top}");
        }
    }

    #[test]
    fn nothing_comes_from_outside_and_nothing_gets_out_of_its_place() {
        let mut results = full();
        let nasty = || NASTY.to_owned();
        (results.command, results.commit, results.partial) = (nasty(), nasty(), Some(nasty()));
        results.servers[1].missing = Some(nasty());
        results.servers[1].durability = nasty();
        results.versions[0].version = Some(nasty());
        results.machine.processor = nasty();
        results.measurements[0].notes.push(nasty());
        results.measurements[0].variant = Some(NASTY.into());
        let experiment = &mut results.experiments[0];
        (experiment.title, experiment.command) = (nasty(), nasty());
        let findings = experiment.findings.as_mut().unwrap();
        (findings.title, findings.partial) = (nasty(), Some(nasty()));
        findings.notes.push(nasty());
        findings.figures[0].name = nasty();
        findings.figures[0].value = Value::text(nasty());
        findings.tables[0].rows[0][0] = nasty();
        findings.plots[0].title = nasty();
        findings.plots[0].lines[0].name = nasty();
        findings.plots[0].x.label = nasty();
        results.experiments.push(Experiment { table: nasty(), ..results.experiments[0].clone() });
        let page = render(&results);
        html::well_formed(&page).unwrap();
        let without_names = page.replace("http://www.w3.org/2000/svg", "");
        for outside in ["<script", "<link", "<img", "src=\"", "url(", "@import", "href=\"http"] {
            assert!(!without_names.contains(outside), "{outside}");
        }
    }

    #[test]
    fn an_empty_run_has_a_page() {
        let page = render(&sample());
        html::well_formed(&page).unwrap();
        assert!(page.contains("Nothing was measured."));
    }
}
