//! `gnudi measures show|add`

use std::io::IsTerminal as _;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;
use gnudi_client::{Client, Point, uri::Query};
use gnudi_endpoint::{
    ServerArgs,
    output::{self, Cell, Format, Listing, Output},
};
use gnudi_http::Bytes;
use gnudi_model::{Timespan, Timestamp, python};
use jiff::tz::TimeZone;
use serde_json::Value;

use super::{completion, metric::OneMetric, sparkline};

/// `gnudi measures`
#[derive(Clone, Debug, Subcommand)]
pub enum MeasuresCommand {
    /// Show the measures of a metric: a sparkline and a table.
    Show(Show),
    /// Add measures to a metric.
    Add(Add),
}

/// The time range.
#[derive(Clone, Debug, Default, Args)]
pub struct Period {
    /// Start: a time (2026-11-21T10:00, UTC without a zone), seconds since 1970, or a span before now (-1h).
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    start: Option<String>,
    /// End (exclusive).
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    stop: Option<String>,
    /// The last 1h, 30min or 2 days, up to now.
    #[arg(long, value_name = "SPAN", conflicts_with_all = ["start", "stop"], value_parser = span)]
    last: Option<Timespan>,
}

fn span(text: &str) -> Result<Timespan, String> {
    let span = Timespan::parse(text).filter(|span| span.0 > 0);
    span.ok_or_else(|| "not a span of time such as 1h, 30min or 2 days".to_owned())
}

impl Period {
    /// With dates as Gnocchi's client reads them: it passes on times of `aggregates` only.
    fn with_normal_dates(&self) -> Self {
        let normal =
            |text: &Option<String>| text.as_deref().map(|text| python::normal_date(text).into_owned());
        Period { start: normal(&self.start), stop: normal(&self.stop), last: self.last }
    }

    pub fn add_to(&self, now: Timestamp, query: &mut Query) {
        let last = self.last.map(|span| Timestamp(now.0.saturating_sub(span.0)).to_iso_micros());
        query.add_some("start", self.start.as_deref().or(last.as_deref()));
        query.add_some("stop", self.stop.as_deref());
    }
}

#[derive(Clone, Debug, Args)]
pub struct Show {
    #[command(flatten)]
    metric: OneMetric,
    /// Aggregation method, such as max, 95pct or rate:mean [default: mean].
    #[arg(long, value_name = "METHOD", add = ArgValueCompleter::new(completion::aggregations))]
    aggregation: Option<String>,
    #[command(flatten)]
    period: Period,
    /// Only this granularity: seconds, or a span such as 5min.
    #[arg(long, value_name = "SPAN")]
    granularity: Option<String>,
    /// Process the backlog first.
    #[arg(long)]
    refresh: bool,
    /// Resample to this granularity.
    #[arg(long, value_name = "SPAN")]
    resample: Option<String>,
    /// Show times in UTC instead of this machine's zone.
    #[arg(long)]
    utc: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Clone, Debug, Args)]
pub struct Add {
    #[command(flatten)]
    metric: OneMetric,
    /// A time and a value: 2026-11-21T10:00@21.5; can be repeated. The server parses the time: now, -5min and seconds
    /// since 1970 are valid, too.
    #[arg(short, long = "measure", value_name = "TIME@VALUE", required = true, allow_hyphen_values = true, value_parser = measure)]
    measures: Vec<Measure>,
    #[command(flatten)]
    server: ServerArgs,
}

/// A value, and a time that the server parses.
#[derive(Clone, Debug, PartialEq)]
struct Measure {
    timestamp: String,
    value: f64,
}

fn measure(text: &str) -> Result<Measure, String> {
    let (timestamp, value) = text.rsplit_once('@').ok_or("not a time and a value such as now@21.5")?;
    let value = python::float_of_text(value).ok_or_else(|| format!("{value:?} is no number"))?;
    Ok(Measure { timestamp: python::normal_date(timestamp).into_owned(), value })
}

pub fn run(command: &MeasuresCommand) -> Result<()> {
    match command {
        MeasuresCommand::Show(args) => super::run(&args.server, async |client| show(client, args).await),
        MeasuresCommand::Add(args) => super::run(&args.server, async |client| {
            let path = args.metric.path(client).await? + "/measures";
            client.send_json("POST", path, Some(Bytes::from(body(&args.measures)))).await?;
            Ok(())
        }),
    }
}

fn body(measures: &[Measure]) -> String {
    let item = |Measure { timestamp, value }: &Measure| {
        let (timestamp, value) = (Value::from(timestamp.as_str()), Cell::Float(*value).json(""));
        format!("{{\"timestamp\": {timestamp}, \"value\": {value}}}")
    };
    format!("[{}]", measures.iter().map(item).collect::<Vec<_>>().join(", "))
}

async fn show(client: &Client, args: &Show) -> Result<()> {
    let path = args.metric.path(client).await?;
    let mut query = Query::new(&(path + "/measures"));
    args.period.with_normal_dates().add_to(crate::commands::now(), &mut query);
    query.add_some("aggregation", args.aggregation.as_deref());
    query.add_some("granularity", args.granularity.as_deref());
    query.add_some("resample", args.resample.as_deref());
    if args.refresh {
        query.add("refresh", "true");
    }
    let points = client.get_points(query.finish()).await?;
    let zone = if args.utc { TimeZone::UTC } else { TimeZone::system() };
    let rows = points.iter().map(|point| row(point, &zone)).collect::<Result<_>>()?;
    let columns = ["timestamp", "granularity", "value"].map(str::to_owned).to_vec();
    let table = args.output.listing(Listing { columns, rows })?;
    let lines = if args.output.format == Format::Table { lines(&points, width()) } else { String::new() };
    output::put(&(lines + &table))
}

/// Width of the terminal; 80 if unknown or not a terminal.
fn width() -> usize {
    const WIDTH: usize = 80;
    let out = std::io::stdout();
    if !out.is_terminal() {
        return WIDTH;
    }
    rustix::termios::tcgetwinsize(&out).map_or(WIDTH, |size| match size.ws_col {
        0 => WIDTH,
        columns => usize::from(columns),
    })
}

fn row(point: &Point, zone: &TimeZone) -> Result<Vec<Cell>> {
    let timestamp = Cell::from(in_zone(&point.timestamp, zone)?.as_str());
    Ok(vec![timestamp, Cell::Float(point.granularity_seconds), Cell::Float(point.value)])
}

/// A UTC time of the server, formatted in the zone as Python's `isoformat`.
fn in_zone(text: &str, zone: &TimeZone) -> Result<String> {
    if *zone == TimeZone::UTC {
        return Ok(text.to_owned());
    }
    let time: jiff::Timestamp = text.parse().with_context(|| format!("{text}: not a time"))?;
    let time = time.to_zoned(zone.clone());
    let pattern =
        if time.subsec_nanosecond() == 0 { "%Y-%m-%dT%H:%M:%S%:z" } else { "%Y-%m-%dT%H:%M:%S.%6f%:z" };
    Ok(time.strftime(pattern).to_string())
}

/// For each granularity in turn: a sparkline, and a note on values that it cannot show.
fn lines(points: &[Point], width: usize) -> String {
    let same = |a: &Point, b: &Point| a.granularity_seconds.to_bits() == b.granularity_seconds.to_bits();
    points.chunk_by(same).map(|points| line(points, width)).collect()
}

fn line(points: &[Point], width: usize) -> String {
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    let known = || values.iter().copied().filter(|value| value.is_finite());
    let (least, greatest) = (known().reduce(f64::min), known().reduce(f64::max));
    let granularity = match points[0].granularity_seconds {
        0.0 => "raw".to_owned(),
        seconds => format!("{} s", short(seconds)),
    };
    let range = match (least, greatest) {
        (Some(least), Some(greatest)) => format!(", {} to {}", short(least), short(greatest)),
        _ => String::new(),
    };
    let noun = if points.len() == 1 { "point" } else { "points" };
    format!("{}\n{granularity}: {} {noun}{range}\n", sparkline::draw(&values, width), points.len())
}

/// As Python prints floats, without a trailing `.0`.
fn short(number: f64) -> String {
    let text = python::text_of_float(number);
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(granularity_seconds: f64, value: f64) -> Point {
        Point { timestamp: "2026-01-01T00:00:00+00:00".to_owned(), granularity_seconds, value }
    }

    #[test]
    fn each_granularity_has_its_line() {
        let points = [
            point(300.0, 4.0),
            point(60.0, 1.0),
            point(60.0, f64::NAN),
            point(60.0, 2.5),
            point(0.0, f64::NAN),
        ];
        assert_eq!(
            lines(&points, 80),
            "▅\n300 s: 1 point, 4 to 4\n▁ █\n60 s: 3 points, 1 to 2.5\n \nraw: 1 point\n"
        );
        assert_eq!(lines(&[], 80), "");
    }

    #[test]
    fn a_measure_is_a_time_and_a_value() {
        let read = |text: &str| measure(text).map(|measure| body(&[measure]));
        assert_eq!(read("now@21.5").unwrap(), r#"[{"timestamp": "now", "value": 21.5}]"#);
        assert_eq!(read("a@b@nan").unwrap(), r#"[{"timestamp": "a@b", "value": NaN}]"#);
        assert_eq!(read("\"@-inf").unwrap(), r#"[{"timestamp": "\"", "value": -Infinity}]"#);
        assert_eq!(read("20261121@1").unwrap(), r#"[{"timestamp": "2026-11-21", "value": 1.0}]"#);
        for text in ["", "now", "now@", "now@x"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_shown_in_the_zone() {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        for (text, expected) in [
            ("2015-03-06T14:33:57+00:00", "2015-03-06T15:33:57+01:00"),
            ("2015-07-06T14:33:57.123456+00:00", "2015-07-06T16:33:57.123456+02:00"),
        ] {
            assert_eq!(in_zone(text, &berlin).unwrap(), expected);
            assert_eq!(in_zone(text, &TimeZone::UTC).unwrap(), text);
        }
        assert!(in_zone("yesterday", &berlin).is_err());
    }

    #[test]
    fn the_last_hour_begins_an_hour_ago() {
        let period = Period { last: Some(span("1h").unwrap()), ..Period::default() };
        let mut query = Query::new("/");
        period.add_to(Timestamp::from_secs(7200), &mut query);
        assert_eq!(query.finish(), "/?start=1970-01-01T01%3A00%3A00%2B00%3A00");
        for text in ["", "-1h", "0", "soon", "1 fortnight"] {
            assert!(span(text).is_err(), "{text}");
        }
    }
}
