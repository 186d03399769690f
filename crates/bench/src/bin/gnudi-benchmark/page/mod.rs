//! The report as one self-contained HTML page, with embedded style.
//!
//! The page is a function of the raw results, by the template `report.html`, which escapes all texts. Only the plots need
//! scripts: the page contains their numbers and `plots.js`, which draws them.

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
