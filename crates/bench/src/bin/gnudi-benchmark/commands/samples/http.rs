//! Stores the samples as measures in a server with Gnocchi's API: gnudi, or Gnocchi itself.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use gnudi_model::MetricId;

use super::{
    Loaded, Store,
    plan::{Plan, Point},
};
use crate::{
    body::{Span, Values},
    context::Context,
    load::{Order, Requests, Until},
    peers::{Peer, Server},
    rows::{Bench, setup},
    table::seconds,
};

const POLICY: &str = "gnudi-bench-samples";

/// Wait for background work before the disk use is read.
const REST: Duration = Duration::from_secs(2);

pub struct Http<'a> {
    bench: Bench<'a>,
    server: Server,
    metrics: Vec<MetricId>,
}

impl<'a> Http<'a> {
    /// Starts a server, and creates the policy and a metric per instance.
    pub fn start(peer: Peer, plan: &Plan, context: &'a Context) -> Result<Self> {
        let bench = Bench::plain(context);
        let server = Server::start(peer, context)?;
        // Everything is kept by the minute and by the hour, with Gnocchi's six default methods.
        let hours = plan.minutes.div_ceil(60) + 1;
        setup::create_policy(context, &server, POLICY, &[(60, hours * 60), (3600, hours)], None)?;
        let (metrics, _) = setup::create_metrics(&bench, &server, POLICY, plan.instances)?;
        Ok(Http { bench, server, metrics })
    }
}

/// Batches of all metrics of a connection, in the connection's turn.
fn requests(server: &Server, plan: &Plan, metrics: &[MetricId]) -> Vec<Vec<u8>> {
    let shares = plan.shares();
    let mut values: Vec<Values> = (0..plan.instances).map(Plan::values).collect();
    let mut requests = Vec::new();
    for span in plan.batches() {
        for share in &shares {
            let body = body(&metrics[share.clone()], &mut values[share.clone()], span);
            requests.push(server.headers.post("/v1/batch/metrics/measures", &body));
        }
    }
    requests
}

/// `{"id": [{"timestamp": ..., "value": ...}, ...], ...}`.
fn body(metrics: &[MetricId], values: &mut [Values], span: Span) -> Vec<u8> {
    let mut body = Vec::new();
    for (index, (metric, values)) in metrics.iter().zip(values).enumerate() {
        let separator = if index == 0 { "{" } else { ", " };
        write!(body, "{separator}\"{metric}\": ").expect("a Vec takes it");
        span.write_gnocchi(values, &mut body);
    }
    body.push(b'}');
    body
}

impl Store for Http<'_> {
    fn load(&mut self, plan: &Plan) -> Result<Loaded> {
        let requests = Requests::Listed(requests(&self.server, plan, &self.metrics));
        let until = Until::Count(requests.distinct());
        let mut load = self.bench.load(&self.server, &requests, plan.shares().len(), until);
        // All measures of a metric use the same connection, in order of time.
        load.order = Order::Lanes;
        let start = Instant::now();
        let outcome = load.run();
        setup::check(&outcome)?;
        let waited = setup::wait_backlog(self.bench.context, &self.server)?;
        let elapsed = start.elapsed();
        // Let background writes finish before the disk use is measured.
        std::thread::sleep(REST);
        let samples = plan.samples() * outcome.calls as usize / requests.distinct() as usize;
        let note = format!("accepted in {}, processed {} later", seconds(outcome.elapsed), seconds(waited));
        Ok(Loaded { samples, elapsed, note })
    }

    fn read(&mut self, instance: usize, granularity_s: i64) -> Result<(Duration, Vec<Point>)> {
        let metric = self.metrics[instance];
        let path = format!("/v1/metric/{metric}/measures?aggregation=mean&granularity={granularity_s}");
        let requests = Requests::Listed(vec![self.server.headers.bare("GET", &path)]);
        let (answer, elapsed) = setup::first_answer(&self.bench, &self.server, &requests)?;
        let points: Vec<(String, f64, f64)> = serde_json::from_slice(&answer).context("the answer")?;
        Ok((elapsed, points.into_iter().map(|(time, _, value)| (time, value)).collect()))
    }

    fn disk_bytes(&mut self) -> Result<Option<u64>> {
        Ok(self.server.disk_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_holds_every_metric_once() {
        let metrics: Vec<MetricId> = (1..=2).map(|id| MetricId(uuid::Uuid::from_u128(id))).collect();
        let span = Span { start_ms: 0, step_ms: 60_000, count: 3 };
        let mut values: Vec<Values> = (0..2).map(Plan::values).collect();
        let batch: serde_json::Value = serde_json::from_slice(&body(&metrics, &mut values, span)).unwrap();
        let batch = batch.as_object().unwrap();
        assert_eq!(batch.len(), 2);
        for (instance, metric) in metrics.iter().enumerate() {
            let mut values = Plan::values(instance);
            let measures = batch[&metric.to_string()].as_array().unwrap();
            assert_eq!(measures.len(), 3);
            assert!(
                measures.iter().all(|item| item["value"] == values.next_hundredths() as f64 / 100.0),
                "{measures:?}"
            );
        }
    }
}
