//! Stores the samples as measures in a server with Gnocchi's API: gnudi, or Gnocchi itself.

use std::time::Duration;

use anyhow::{Context as _, Result};
use gnudi_model::MetricId;

use super::{
    Loaded, Store,
    plan::{Plan, Point},
};
use crate::{
    body::Values,
    context::Context,
    load::Requests,
    peers::{Peer, Server},
    rows::{
        batch::{BATCH_PATH, json_batch},
        process, setup,
    },
};

const POLICY: &str = "gnudi-bench-samples";

/// Wait for background work before the disk use is read.
const REST: Duration = Duration::from_secs(2);

pub struct Http<'a> {
    server: Server<'a>,
    metrics: Vec<MetricId>,
}

impl<'a> Http<'a> {
    /// Starts a server, and creates the policy and a metric per instance.
    pub fn start(peer: Peer, plan: &Plan, context: &'a Context) -> Result<Self> {
        let server = Server::start(peer, context)?;
        // Everything is kept by the minute and by the hour, with Gnocchi's six default methods.
        let hours = plan.minutes.div_ceil(60) + 1;
        setup::create_policy(&server, &setup::policy(POLICY, &[(60, hours * 60), (3600, hours)]))?;
        let (metrics, _) = setup::create_metrics(&server, POLICY, plan.instances)?;
        Ok(Http { server, metrics })
    }
}

/// Batches of all metrics of a connection, in the connection's turn.
fn requests(server: &Server, plan: &Plan, metrics: &[MetricId]) -> Vec<Vec<u8>> {
    let shares = plan.shares();
    let mut values: Vec<Values> = (0..plan.instances).map(Plan::values).collect();
    let mut requests = Vec::new();
    for span in plan.batches() {
        for share in &shares {
            let (ids, values) = (&metrics[share.clone()], &mut values[share.clone()]);
            let body = json_batch(ids, |index, out| span.write_gnocchi(&mut values[index], out));
            requests.push(server.headers.post(BATCH_PATH, &body));
        }
    }
    requests
}

impl Store for Http<'_> {
    fn load(&mut self, plan: &Plan) -> Result<Loaded> {
        let requests = Requests::Listed(requests(&self.server, plan, &self.metrics));
        let connections = plan.shares().len();
        // All measures of a metric use the same connection, in order of time.
        let work = process::until_processed(&self.server, &requests, connections, plan.samples())?;
        // Let background writes finish before the disk use is measured.
        std::thread::sleep(REST);
        Ok(Loaded { samples: work.done as usize, elapsed: work.elapsed, note: work.notes.concat() })
    }

    fn read(&mut self, instance: usize, granularity_s: i64) -> Result<(Duration, Vec<Point>)> {
        let metric = self.metrics[instance];
        let path = format!("/v1/metric/{metric}/measures?aggregation=mean&granularity={granularity_s}");
        let requests = Requests::Listed(vec![self.server.headers.bare("GET", &path)]);
        let (answer, elapsed) = setup::first_answer(&self.server, &requests)?;
        let points: Vec<(String, f64, f64)> = serde_json::from_slice(&answer).context("the answer")?;
        Ok((elapsed, points.into_iter().map(|(time, _, value)| (time, value)).collect()))
    }

    fn disk_bytes(&mut self) -> Result<Option<u64>> {
        Ok(self.server.disk_bytes())
    }
}
