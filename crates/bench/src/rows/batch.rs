//! Batch requests: measures of many metrics in one call.

use std::{io::Write as _, ops::Range};

use anyhow::Result;
use gnudi_model::MetricId;

use super::{Bench, setup};
use crate::{
    body::{Span, Values},
    load::{Requests, Until, requests::with_length},
    peers::{Peer, Server, influxdb},
};

/// The metrics of a peer: by id where the server gives ids, else by number.
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

    /// One request with the span's measures of each metric of the range.
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
                let mut request = server.headers.open_head("POST", influxdb::WRITE_PATH);
                request.extend_from_slice(&with_length(&body, 0));
                request
            }
            Metrics::Numbered(numbers) if span.count == 1 => {
                for metric in within(numbers, &range) {
                    span.write_lines(&setup::series_name(metric), values, &mut body);
                }
                let mut request = server.headers.open_head("POST", "/api/v1/import/prometheus");
                request.extend_from_slice(&with_length(&body, 0));
                request
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

    /// Requests of at most `batch` metrics each that together give every metric the span's measures.
    pub fn requests(&self, server: &Server, batch: usize, span: Span, values: &mut Values) -> Vec<Vec<u8>> {
        (0..self.len())
            .step_by(batch)
            .map(|start| self.request(server, start..self.len().min(start + batch), span, values))
            .collect()
    }

    /// Gives every metric the spans' measures, metric by metric, and waits until they are processed.
    pub fn fill(&self, bench: &Bench, server: &Server, spans: &[Span]) -> Result<()> {
        let mut values = Values::new(1);
        for span in spans {
            let requests = Requests::Listed(self.requests(server, 1, *span, &mut values));
            setup::check(&bench.load(server, &requests, 1, Until::Count(self.len() as u64)).run())?;
        }
        setup::wait_processed(bench, server)?;
        Ok(())
    }
}

/// The numbers at these places.
fn within(numbers: &Range<usize>, places: &Range<usize>) -> Range<usize> {
    numbers.start + places.start..numbers.start + places.end
}

/// Metrics of the policy on a server that wants them created, else numbers.
pub fn metrics(bench: &Bench, server: &Server, policy: &str, count: usize) -> Result<Metrics> {
    if !server.peer.speaks_gnocchi() {
        return Ok(Metrics::Numbered(bench.number(count)));
    }
    Ok(Metrics::Ids(setup::create_metrics(bench, server, policy, count)?.0))
}
