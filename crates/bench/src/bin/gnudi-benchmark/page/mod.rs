//! The report as one self-contained HTML page, with embedded style.
//!
//! The page is a function of the raw results, by the template `report.html`, which escapes all texts. It reads without
//! scripts but for its plots, whose numbers it holds: `plots.js`, which it has within, draws them.

pub mod published;
mod rows;
pub mod words;

use std::collections::BTreeMap;

use askama::Template;
use clap::ValueEnum as _;
use gnudi_model::Timestamp;
use serde::Serialize;

use published::Published;

use crate::{
    experiments::Experiment,
    findings::{Figure, Findings, Table},
    measurement::Measurement,
    peers::Peer,
    results::Results,
    table as text,
};

pub const STYLE: &str = include_str!("style.css");
pub const SCRIPT: &str = include_str!("plots.js");

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    results: &'a Results,
    peers: Vec<Peer>,
}

pub fn render(results: &Results) -> String {
    Page { results, peers: peers(results) }.render().expect("a String takes it")
}

/// The known servers of the run, in order.
pub fn peers(results: &Results) -> Vec<Peer> {
    results.servers.iter().filter_map(|server| Peer::from_name(&server.name)).collect()
}

impl Page<'_> {
    fn when(&self) -> String {
        Timestamp::from_secs(self.results.written_at as i64).to_iso()
    }

    fn took(&self) -> String {
        let seconds = self.results.seconds;
        format!("{:.0} min {:02.0} s", (seconds / 60.0).floor(), (seconds % 60.0).floor())
    }

    fn words(&self) -> Vec<String> {
        let measurements = &self.results.measurements;
        let standings = words::standings(measurements, &self.peers);
        [standings, words::figures(measurements), words::aims(measurements)].concat()
    }

    fn versions(&self) -> Table {
        let versions = self.results.versions.iter().map(|version| {
            vec![version.name.clone(), version.version.clone().unwrap_or_else(|| "not here".to_owned())]
        });
        Table::new("versions", "program | version", versions)
    }

    fn durability(&self) -> Table {
        let servers = self.results.servers.iter();
        let promises = servers.map(|server| vec![server.name.clone(), server.durability.clone()]);
        Table::new("what an accepted request is worth when the power goes", "server | promise", promises)
    }

    fn experiments(&self, table: &str) -> Vec<&Experiment> {
        self.results.experiments.iter().filter(|experiment| experiment.table == table).collect()
    }

    /// Those of no other section.
    fn further_experiments(&self) -> Vec<&Experiment> {
        let sections: Vec<&str> =
            published::all().iter().map(|published| &*published.table).chain(["prometheus"]).collect();
        let all = self.results.experiments.iter();
        all.filter(|experiment| !sections.contains(&experiment.table.as_str())).collect()
    }

    /// Published figures, beside Gnocchi's and gnudi's.
    fn beside(&self, published: &Published) -> Table {
        let headings = "operation | published | its rate | Gnocchi here | gnudi here | gnudi to Gnocchi | gnudi to published";
        let rows = published.figures.iter().map(|figure| beside(figure, &self.results.measurements));
        Table::new("a second, on that machine and on this one", headings, rows)
    }
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
        figure.operation.clone(),
        figure.details.clone(),
        rate(Some(figure.rate)),
        rate(gnocchi),
        rate(gnudi),
        times(gnudi.zip(gnocchi).map(|(ours, theirs)| ours / theirs)),
        times(gnudi.map(|ours| ours / figure.rate)),
    ]
}

fn figures_table(findings: &Findings) -> Table {
    let row = |figure: &Figure| vec![figure.name.clone(), text::shown(&figure.value)];
    Table::new("", "figure | value", findings.figures.iter().map(row))
}

/// What the script reads.
fn json(data: &impl Serialize) -> String {
    serde_json::to_string(data).expect("it has text keys")
}

/// The servers' styles, for the script.
fn servers() -> String {
    let peers = Peer::value_variants().iter();
    json(&peers.map(|peer| (peer.name(), peer.style())).collect::<BTreeMap<_, _>>())
}

fn is_ours(row: &[String]) -> bool {
    row.first().is_some_and(|name| name == "gnudi")
}

/// Which columns are of figures: these are right-aligned.
fn figures(Table { headings, rows, .. }: &Table) -> Vec<bool> {
    let is_figure = |text: &String| {
        let text = text.trim_start_matches(['-', '+', '~', '<', '>', ' ']);
        // Two words: a number with its unit.
        text.is_empty()
            || text.starts_with(|first: char| first.is_ascii_digit()) && text.split(' ').count() <= 2
    };
    (0..headings.len())
        .map(|column| column > 0 && rows.iter().all(|row| row.get(column).is_none_or(is_figure)))
        .collect()
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
        let experiment = Experiment::new(["R3", "objects and omaps", "engines --only ceph"]);
        results.experiments.push(Experiment { findings: Some(findings), ..experiment });
        results
    }

    /// The values of an attribute of a page's figures; the page is well-formed XML.
    fn attributes(page: &str, name: &str) -> Vec<serde_json::Value> {
        let content = page.strip_prefix("<!doctype html>").unwrap();
        let document = roxmltree::Document::parse(content).unwrap_or_else(|error| panic!("{error}: {page}"));
        let texts = document.descendants().filter_map(|element| element.attribute(name));
        texts.map(|text| serde_json::from_str(text).unwrap()).collect()
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
        for part in ["gnudi-benchmark engines --only ceph", "<td>7</td>", "<td>11.7k/s</td>", "noted"] {
            assert!(r3.contains(part), "{part}: {r3}");
        }
        for (from, to) in [("R4", "R5"), ("R5", "prometheus"), ("prometheus", "further")] {
            assert!(between(&page, from, to).contains("Not measured in this run."));
        }
        assert!(between(&page, "side", "R1").contains("measures a second by measures a call"));
        let plots = attributes(&page, "data-plot");
        assert_eq!(plots[0]["lines"][1]["name"], "gnudi", "pushes by the size of a call");
        assert_eq!(plots[1]["lines"][0]["points"], serde_json::json!([[0.0, 1.0], [1.0, 2.0]]));
        assert!(page.find("data-standings").unwrap() < page.find("id=\"words\"").unwrap());
        let [standings] = &attributes(&page, "data-standings")[..] else { panic!("one drawing of all") };
        assert_eq!(
            standings["rows"][0],
            serde_json::json!(["push-1", "push, 1 measure a call, 8 connections"])
        );
        // The peers of the run, but not the no-op server.
        let names: Vec<_> =
            standings["servers"].as_array().unwrap().iter().map(|server| &server["name"]).collect();
        assert_eq!(names, ["gnudi", "gnocchi", "victoria-metrics"]);
        assert_eq!(standings["servers"][1]["ratios"], serde_json::json!([0.005, 0.005, 0.005]));
        assert_eq!(attributes(&page, "data-servers")[0]["gnocchi"], Peer::Gnocchi.style());
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
        findings.figures[0].value = Value::Text(nasty());
        findings.tables[0].rows[0][0] = nasty();
        findings.plots[0].title = nasty();
        findings.plots[0].lines[0].name = nasty();
        findings.plots[0].x.label = nasty();
        results.experiments.push(Experiment { table: nasty(), ..results.experiments[0].clone() });
        let page = render(&results);
        assert_eq!(attributes(&page, "data-plot").last().unwrap()["title"], NASTY);
        let other = page.replace(&format!("<script>//<![CDATA[\n{SCRIPT}//]]></script>"), "");
        assert!(other.len() < page.len());
        for outside in ["<script", "<link", "<img", "src=\"", "url(", "@import", "href=\"http"] {
            assert!(!other.contains(outside), "{outside}");
        }
    }

    #[test]
    fn figures_stand_right_and_bars_have_a_share() {
        let rows = [["gnudi", "1.5k/s", "7 batches of 1"], ["gnocchi", "-", "9 batches of 1"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert!(is_ours(&rows[0]) && !is_ours(&rows[1]));
        assert_eq!(figures(&Table::new("", "server | rate | word", rows)), [false, true, false]);
        let page = render(&full());
        assert!(
            page.contains("<td class=\"bar\"><span style=\"width:50.00%;background:var(--line-0)\">"),
            "{page}"
        );
        // The no-op server has none.
        assert!(
            page.contains("<td class=\"text\">limit</td><td>90.0k/s</td><td class=\"bar\"></td>"),
            "{page}"
        );
    }

    #[test]
    fn an_empty_run_has_a_page() {
        let page = render(&sample());
        assert!(attributes(&page, "data-plot").is_empty());
        assert!(page.contains("Nothing was measured."));
    }
}
