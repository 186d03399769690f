//! Batch requests: measures of many metrics in one call.

use std::{io::Write as _, ops::Range};

use anyhow::Result;
use gnudi_model::MetricId;

use super::{Bench, setup};
use crate::{
    body::{Span, Values},
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

    /// One request with the span's measures of each metric in the range.
    pub fn request(&self, server: &Server, range: Range<usize>, span: Span, values: &mut Values) -> Vec<u8> {
        let mut body = Vec::new();
        match self {
            Metrics::Ids(ids) => {
                for (index, id) in ids[range].iter().enumerate() {
                    let separator = if index == 0 { "{" } else { ", " };
                    write!(body, "{separator}\"{id}\": ").expect("a Vec takes it");
                    span.write_gnocchi(values, &mut body);
                }
                body.push(b'}');
                server.headers.post("/v1/batch/metrics/measures", &body)
            }
            Metrics::Numbered(numbers) if server.peer == Peer::InfluxDb => {
                for metric in within(numbers, &range) {
                    span.write_influx(&influxdb::series_name(metric), values, &mut body);
                }
                server.headers.post_text(influxdb::WRITE_PATH, &body)
            }
            Metrics::Numbered(numbers) if span.count == 1 => {
                for metric in within(numbers, &range) {
                    span.write_lines(&setup::series_name(metric), values, &mut body);
                }
                server.headers.post_text("/api/v1/import/prometheus", &body)
            }
            Metrics::Numbered(numbers) => {
                for metric in within(numbers, &range) {
                    body.extend_from_slice(setup::series_object(metric).as_bytes());
                    span.write_columns(values, &mut body);
                }
                server.headers.post("/api/v1/import", &body)
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
    pub fn fill(&self, bench: &Bench, server: &Server, spans: &[Span]) -> Result<()> {
        let mut values = Values::new(1);
        for span in spans {
            setup::send(bench, server, self.requests(server, 1, *span, &mut values), 1)?;
        }
        setup::wait_processed(bench, server)?;
        Ok(())
    }
}

/// The numbers at these positions.
fn within(numbers: &Range<usize>, places: &Range<usize>) -> Range<usize> {
    numbers.start + places.start..numbers.start + places.end
}

/// Creates metrics of the policy on a server that needs it, else uses numbers.
pub fn metrics(bench: &Bench, server: &Server, policy: &str, count: usize) -> Result<Metrics> {
    if !server.peer.has_gnocchi_api() {
        return Ok(Metrics::Numbered(bench.number(count)));
    }
    Ok(Metrics::Ids(setup::create_metrics(bench, server, policy, count)?.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::START_MS;

    /// The requests' lines: of the header, then of the body.
    fn requests(peer: Peer, metrics: &Metrics, count: usize) -> Vec<Vec<String>> {
        let span = Span::minutes(0, count);
        let requests = metrics.requests(&Server::nowhere(peer), 2, span, &mut Values::new(1));
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
