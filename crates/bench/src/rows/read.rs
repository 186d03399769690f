//! Reading a month by the minute: 43,200 points of one metric a call.

use anyhow::{Context as _, Result, ensure};
use gnudi_client::{ArchivePolicySpec, DefinitionSpec, MeasuresFilter};

use super::{Bench, setup};
use crate::{
    body::{START_MS, Span, Values},
    load::{Requests, Until, requests::with_length},
    measurement::{Row, Unit, Work},
    noop::POINTS,
    peers::Server,
};

pub const ROWS: [Row; 1] =
    [Row { key: "read", title: "get 43,200 points of a metric, 4 connections", unit: Unit::Points }];

const CONNECTIONS: usize = 4;
const POLICY: &str = "gnudi-bench-minute";
/// Measures a call while the month is written.
const BATCH: usize = 4_320;

pub fn run(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let counts = bench.counts(server.peer);
    let requests = if server.peer.speaks_gnocchi() {
        gnocchi_requests(bench, server, counts.read_metrics)?
    } else {
        victoria_requests(bench, server, counts.read_metrics)?
    };
    let until = Until::Elapsed(counts.load);
    bench.measure(server, &ROWS[0], None, |bench| {
        let outcome = bench.load(server, &requests, CONNECTIONS, until).run();
        let bytes = crate::table::short(outcome.body_bytes as f64 / outcome.calls.max(1) as f64);
        Ok(Work::of(outcome, POINTS).note(format!("{bytes}B an answer")))
    })?;
    Ok(())
}

/// The month in pieces: the first measure of each, and how many.
fn pieces() -> impl Iterator<Item = Span> {
    (0..POINTS / BATCH).map(|piece| Span {
        start_ms: START_MS + (piece * BATCH) as i64 * 60_000,
        step_ms: 60_000,
        count: BATCH,
    })
}

fn gnocchi_requests(bench: &Bench, server: &Server, metrics: usize) -> Result<Requests> {
    let client = server.client()?;
    let policy = ArchivePolicySpec {
        name: POLICY.to_owned(),
        definition: vec![DefinitionSpec {
            granularity: Some("60".to_owned()),
            points: Some(31 * 24 * 60),
            ..DefinitionSpec::default()
        }],
        ..ArchivePolicySpec::default()
    };
    // On a server that was measured before, the policy is there.
    match bench.context.runtime.block_on(client.create_archive_policy(&policy)) {
        Err(error) if error.status() != Some(409) => return Err(error.into()),
        _ => {}
    }
    let (ids, _) = setup::create_metrics(bench, server, POLICY, metrics)?;
    let mut values = Values::new(1);
    for span in pieces() {
        let requests = ids.iter().map(|id| {
            let mut body = Vec::new();
            span.write_gnocchi(&mut values, &mut body);
            server.headers.post(&format!("/v1/metric/{id}/measures"), &body)
        });
        let requests = Requests::Listed(requests.collect());
        setup::check(&bench.load(server, &requests, 1, Until::Count(ids.len() as u64)).run())?;
    }
    setup::wait_processed(bench, server)?;
    for id in &ids {
        let points = bench.context.runtime.block_on(client.get_measures(*id, &MeasuresFilter::default()))?;
        ensure!(points.len() == POINTS, "metric {id} has {} points, not {POINTS}", points.len());
    }
    let get =
        |id| server.headers.bare("GET", &format!("/v1/metric/{id}/measures?aggregation=mean&granularity=60"));
    Ok(Requests::Listed(ids.iter().map(get).collect()))
}

fn victoria_requests(bench: &Bench, server: &Server, metrics: usize) -> Result<Requests> {
    let mut values = Values::new(1);
    let open_head = server.headers.open_json_head("/api/v1/import");
    for span in pieces() {
        let requests = (0..metrics).map(|metric| {
            let mut body = setup::series_object(metric).into_bytes();
            span.write_columns(&mut values, &mut body);
            [open_head.as_slice(), &with_length(&body, 0)].concat()
        });
        let requests = Requests::Listed(requests.collect());
        setup::check(&bench.load(server, &requests, 1, Until::Count(metrics as u64)).run())?;
    }
    setup::wait_processed(bench, server)?;
    let get = |metric| {
        let name = setup::series_name(metric).replace('{', "%7B").replace('}', "%7D").replace('"', "%22");
        server.headers.bare("GET", &format!("/api/v1/export?match[]={name}"))
    };
    let requests = Requests::Listed((0..metrics).map(get).collect());
    let mut load = bench.load(server, &requests, 1, Until::Count(1));
    load.keep_bodies = true;
    let outcome = load.run();
    setup::check(&outcome)?;
    let body = &outcome.bodies[0].1;
    let line = body.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let series: serde_json::Value = serde_json::from_slice(line).context("an exported line")?;
    let points = series["values"].as_array().map_or(0, Vec::len);
    ensure!(points == POINTS, "{points} points exported, not {POINTS}");
    Ok(requests)
}
