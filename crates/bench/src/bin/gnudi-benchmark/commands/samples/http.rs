//! The samples as measures of a server that speaks Gnocchi's API: gnudi, and Gnocchi itself.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use gnudi_client::MetricSpec;
use gnudi_model::MetricId;

use super::{
    Loaded, Store,
    plan::{Plan, Point},
};
use crate::{
    body::{Span, Values},
    context::Context,
    load::{Load, Order, Requests, Until},
    peers::{Peer, Server},
    rows::setup,
};

const POLICY: &str = "gnudi-bench-samples";

/// What a server may take to come to rest.
const REST: Duration = Duration::from_secs(2);

pub struct Http<'a> {
    context: &'a Context,
    server: Server,
    metrics: Vec<MetricId>,
}

impl<'a> Http<'a> {
    /// Starts a server, and creates the policy and a metric for each instance.
    pub fn start(peer: Peer, plan: &Plan, context: &'a Context) -> Result<Self> {
        let server = Server::start(peer, context)?;
        // Everything is kept by the minute and by the hour, with Gnocchi's six default methods.
        let hours = plan.minutes.div_ceil(60) + 1;
        setup::create_policy(context, &server, POLICY, &[(60, hours * 60), (3600, hours)])?;
        let client = server.client()?;
        let spec = MetricSpec { archive_policy_name: Some(POLICY.to_owned()), ..MetricSpec::default() };
        let metrics = (0..plan.instances)
            .map(|_| Ok(context.runtime.block_on(client.create_metric(&spec))?.id))
            .collect::<Result<_>>()?;
        Ok(Http { context, server, metrics })
    }
}

/// Batches of all metrics of a connection, whose turn is the connection's.
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
        let mut load = Load::new(self.server.address, &requests, until, &self.context.stop);
        // A metric's measures all come by the same connection, in the order of time.
        (load.connections, load.order) = (plan.shares().len(), Order::Lanes);
        let start = Instant::now();
        let outcome = load.run();
        setup::check(&outcome)?;
        let waited = setup::wait_backlog(self.context, &self.server)?;
        let elapsed = start.elapsed();
        // Before it is looked at: what it writes in the background.
        std::thread::sleep(REST);
        let samples = plan.samples() * outcome.calls as usize / requests.distinct() as usize;
        let note = format!(
            "accepted in {:.2} s, processed {:.2} s later",
            outcome.elapsed.as_secs_f64(),
            waited.as_secs_f64()
        );
        Ok(Loaded { samples, elapsed, note })
    }

    fn read(&mut self, instance: usize, granularity_s: i64) -> Result<(Duration, Vec<Point>)> {
        let metric = self.metrics[instance];
        let path = format!("/v1/metric/{metric}/measures?aggregation=mean&granularity={granularity_s}");
        let requests = Requests::Listed(vec![self.server.headers.bare("GET", &path)]);
        let mut load = Load::new(self.server.address, &requests, Until::Count(1), &self.context.stop);
        load.keep_bodies = true;
        let mut outcome = load.run();
        setup::check(&outcome)?;
        let (_, answer) = outcome.bodies.pop().context("interrupted")?;
        let points: Vec<(String, f64, f64)> = serde_json::from_slice(&answer).context("the answer")?;
        Ok((outcome.elapsed, points.into_iter().map(|(time, _, value)| (time, value)).collect()))
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
