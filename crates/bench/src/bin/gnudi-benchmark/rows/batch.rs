//! Batch requests: measures of many metrics in one call.

use std::{io::Write as _, ops::Range};

use anyhow::Result;
use gnudi_model::MetricId;

use super::setup;
use crate::{
    body::{Span, Values},
    load::requests::with_length,
    peers::{Peer, Server, influxdb},
};

/// The metrics of a peer: by id if the server assigns ids, else by number.
pub enum Metrics {
    Ids(Vec<MetricId>),
    Numbered(Range<usize>),
}

impl Metrics {
    pub fn len(&self) -> usize {
        match self {
            Metrics::Ids(ids) => ids.len(),
            Metrics::Numbered(numbers) => numbers.len(),
        }
    }

    pub fn ids(&self) -> &[MetricId] {
        match self {
            Metrics::Ids(ids) => ids,
            Metrics::Numbered(_) => &[],
        }
    }

    /// One request with the span's measures of each metric in the range:
    /// `{"id": [{"timestamp": ..., "value": ...}, ...], ...}`, or lines of the server's dialect.
    pub fn request(&self, server: &Server, range: Range<usize>, span: Span, values: &mut Values) -> Vec<u8> {
        match self {
            Metrics::Ids(ids) => {
                let mut body = Vec::new();
                for (index, id) in ids[range].iter().enumerate() {
                    let separator = if index == 0 { "{" } else { ", " };
                    write!(body, "{separator}\"{id}\": ").expect("a Vec takes it");
                    span.write_gnocchi(values, &mut body);
                }
                body.push(b'}');
                server.headers.post("/v1/batch/metrics/measures", &body)
            }
            Metrics::Numbered(numbers) => {
                let dialect = match server.peer {
                    Peer::InfluxDb => &INFLUX,
                    _ if span.count == 1 => &LINES,
                    _ => &COLUMNS,
                };
                // The numbers at these positions.
                let metrics = numbers.start + range.start..numbers.start + range.end;
                dialect.request(server, metrics, span, values)
            }
        }
    }

    /// Requests of at most `batch` metrics each, which together have the span's measures of every metric.
    pub fn requests(&self, server: &Server, batch: usize, span: Span, values: &mut Values) -> Vec<Vec<u8>> {
        (0..self.len())
            .step_by(batch)
            .map(|start| self.request(server, start..self.len().min(start + batch), span, values))
            .collect()
    }

    /// Pushes the spans' measures of every metric, metric by metric, and waits until they are processed.
    pub fn fill(&self, server: &Server, spans: &[Span]) -> Result<()> {
        let mut values = Values::new(1);
        for span in spans {
            setup::send(server, self.requests(server, 1, *span, &mut values), 1)?;
        }
        setup::wait_processed(server)?;
        Ok(())
    }
}

/// How a server takes measures of numbered metrics.
pub struct Dialect {
    path: &'static str,
    is_json: bool,
    /// How a body names a metric, with a fixed length.
    pub name: fn(usize) -> String,
    /// Writes the measures of a metric with this name.
    write: fn(Span, &str, &mut Values, &mut Vec<u8>),
}

/// VictoriaMetrics' columns: a line per metric.
pub const COLUMNS: Dialect =
    Dialect { path: "/api/v1/import", is_json: true, name: setup::series_object, write: Span::write_columns };

/// VictoriaMetrics' form of Prometheus' text: a line per measure.
pub const LINES: Dialect = Dialect {
    path: "/api/v1/import/prometheus",
    is_json: false,
    name: setup::series_name,
    write: Span::write_lines,
};

pub const INFLUX: Dialect = Dialect {
    path: influxdb::WRITE_PATH,
    is_json: false,
    name: influxdb::series_name,
    write: Span::write_influx,
};

impl Dialect {
    /// The open header of a request.
    pub fn open_head(&self, server: &Server) -> Vec<u8> {
        let headers = &server.headers;
        if self.is_json { headers.open_json_head(self.path) } else { headers.open_head("POST", self.path) }
    }

    /// A request with the span's measures of each of the metrics.
    pub fn request(
        &self,
        server: &Server,
        metrics: Range<usize>,
        span: Span,
        values: &mut Values,
    ) -> Vec<u8> {
        let mut body = Vec::new();
        for metric in metrics {
            (self.write)(span, &(self.name)(metric), values, &mut body);
        }
        [self.open_head(server), with_length(&body, 0)].concat()
    }
}

/// Creates metrics of the policy on a server that needs it, else uses numbers.
pub fn metrics(server: &Server, policy: &str, count: usize) -> Result<Metrics> {
    if !server.peer.has_gnocchi_api() {
        return Ok(Metrics::Numbered(server.number(count)));
    }
    Ok(Metrics::Ids(setup::create_metrics(server, policy, count)?.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::START_MS;
    use crate::context::Context;

    /// The requests' lines: of the header, then of the body.
    fn requests(peer: Peer, metrics: &Metrics, count: usize) -> Vec<Vec<String>> {
        let span = Span::minutes(0, count);
        let requests =
            metrics.requests(&Server::nowhere(peer, &Context::of_tests()), 2, span, &mut Values::new(1));
        let lines = |request: &Vec<u8>| String::from_utf8_lossy(request).lines().map(str::to_owned).collect();
        requests.iter().map(lines).collect()
    }

    fn naming<'a>(lines: &'a [String], metric: &str) -> Vec<&'a String> {
        lines.iter().filter(|line| line.contains(metric)).collect()
    }

    #[test]
    fn numbered_metrics_get_lines_of_influxdb() {
        let requests = requests(Peer::InfluxDb, &Metrics::Numbered(5..8), 3);
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0][0], "POST /write?db=bench&precision=ms HTTP/1.1");
        for (request, metric, lines) in
            [(0, "00000005", 3), (0, "00000006", 3), (0, "00000007", 0), (1, "00000007", 3)]
        {
            assert_eq!(naming(&requests[request], metric).len(), lines, "{metric} in {request}");
        }
        let last = requests[1].last().unwrap();
        assert!(last.starts_with("gnudi_bench,metric=00000007 value="), "{last}");
        assert!(last.ends_with(&format!(" {}", START_MS + 120_000)), "{last}");
    }

    #[test]
    fn numbered_metrics_get_lines_or_columns_of_victoria_metrics() {
        let metrics = Metrics::Numbered(5..8);
        let singles = requests(Peer::VictoriaMetrics, &metrics, 1);
        assert_eq!(singles[0][0], "POST /api/v1/import/prometheus HTTP/1.1");
        assert_eq!(naming(&singles[0], "{metric=\"00000006\"}").len(), 1);
        let columns = requests(Peer::VictoriaMetrics, &metrics, 3);
        assert_eq!(columns[1][0], "POST /api/v1/import HTTP/1.1");
        let line: serde_json::Value = serde_json::from_str(columns[1].last().unwrap()).unwrap();
        assert_eq!(line["metric"]["metric"], "00000007");
        assert_eq!(line["values"].as_array().map(Vec::len), Some(3));
    }
}
