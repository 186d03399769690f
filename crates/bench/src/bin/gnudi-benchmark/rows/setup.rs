//! Common steps before and after measurements: creating metrics and policies, waiting for an empty backlog, checking
//! results.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use gnudi_bench::progress;
use gnudi_client::{ArchivePolicySpec, Client, DefinitionSpec, MeasuresFilter, RawSpec};
use gnudi_model::{AggregationMethod, MetricId, Statistic};
use uuid::Uuid;

use crate::{
    load::{Keep, Load, Outcome, Requests, Until},
    peers::{Peer, Server},
};

/// Connections that create, show and delete metrics, as in the published runs (`gnocchi benchmark -w 48`).
pub const METADATA_CONNECTIONS: usize = 48;

/// Creates metrics: their ids in order of creation, and the outcome.
pub fn create_metrics(server: &Server, policy: &str, count: usize) -> Result<(Vec<MetricId>, Outcome)> {
    let body = serde_json::json!({ "archive_policy_name": policy });
    let requests = Requests::listed(vec![server.headers.post_json("/v1/metric", &body)]);
    create_metrics_by(server, &requests, count)
}

/// Creates this number of metrics with these requests: their ids in order of creation, and the outcome.
pub fn create_metrics_by(
    server: &Server,
    requests: &Requests,
    count: usize,
) -> Result<(Vec<MetricId>, Outcome)> {
    let until = Until::Count(count as u64);
    let load = Load { keep: Keep::Ids, ..server.load(requests, METADATA_CONNECTIONS, until) };
    let outcome = load.run();
    check(&outcome)?;
    let ids = outcome.ids.iter().map(|id| Ok(MetricId(Uuid::try_parse_ascii(id)?)));
    let ids: Vec<MetricId> = ids.collect::<Result<_>>().context("an answer to the creation of a metric")?;
    ensure!(ids.len() == count, "{} metrics created, not {count}", ids.len());
    Ok((ids, outcome))
}

/// An archive policy: granularities in seconds with their points, and the server's default methods.
pub fn policy(name: &str, definitions: &[(u32, usize)]) -> ArchivePolicySpec {
    let definition = |(granularity_s, points): &(u32, usize)| DefinitionSpec {
        granularity: Some(granularity_s.to_string()),
        points: Some(*points as u64),
        ..DefinitionSpec::default()
    };
    ArchivePolicySpec {
        name: name.to_owned(),
        definition: definitions.iter().map(definition).collect(),
        ..ArchivePolicySpec::default()
    }
}

/// The policy with raw points for this number of seconds.
pub fn with_raw(seconds: usize, policy: ArchivePolicySpec) -> ArchivePolicySpec {
    ArchivePolicySpec { raw: Some(RawSpec { timespan: seconds.to_string() }), ..policy }
}

/// Creates an archive policy; an existing one of this name is accepted.
pub fn create_policy(server: &Server, policy: &ArchivePolicySpec) -> Result<()> {
    match server.context.runtime.block_on(server.client()?.create_archive_policy(policy)) {
        Err(error) if error.status() != Some(409) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Sends each of these requests once; all must succeed.
pub fn send(server: &Server, requests: Vec<Vec<u8>>, connections: usize) -> Result<Outcome> {
    let requests = Requests::listed(requests);
    let outcome = server.load(&requests, connections, Until::Count(requests.distinct())).run();
    check(&outcome)?;
    Ok(outcome)
}

/// The response to the first request, to be checked, and its time.
pub fn first_answer(server: &Server, requests: &Requests) -> Result<(Vec<u8>, Duration)> {
    let load = Load { keep: Keep::Bodies, ..server.load(requests, 1, Until::Count(1)) };
    let mut outcome = load.run();
    check(&outcome)?;
    outcome.bodies.pop().map(|(_, body)| (body, outcome.elapsed)).context("no answer")
}

/// Checks the response to the first request, unless the server does nothing.
pub fn check_answer(
    server: &Server,
    requests: &Requests,
    check: impl FnOnce(&[u8]) -> Result<()>,
) -> Result<()> {
    if server.peer == Peer::Limit { Ok(()) } else { check(&first_answer(server, requests)?.0) }
}

/// Fails if a call failed: results built on it would be wrong.
pub fn check(outcome: &Outcome) -> Result<()> {
    match &outcome.failure {
        Some(failure) => bail!("{} calls failed: {failure}", outcome.failures),
        None => Ok(()),
    }
}

/// Waits until the backlog is empty; returns the time. Servers without a backlog are asked to make accepted data
/// searchable.
pub fn wait_processed(server: &Server) -> Result<Duration> {
    let start = Instant::now();
    match server.peer {
        Peer::VictoriaMetrics => {
            send(server, vec![server.headers.bare("GET", "/internal/force_flush")], 1)?;
            Ok(start.elapsed())
        }
        // Acknowledged data is searchable.
        Peer::InfluxDb | Peer::Prometheus => Ok(Duration::ZERO),
        Peer::Limit | Peer::Gnudi | Peer::GnudiOs | Peer::Gnocchi => wait_backlog(server),
    }
}

/// Waits until the backlog of a server with Gnocchi's API is empty; returns the time.
pub fn wait_backlog(server: &Server) -> Result<Duration> {
    let client = server.client()?;
    let runtime = &server.context.runtime;
    progress::until_processed(|| Ok(runtime.block_on(client.status())?.backlog.measures), |_| Ok(()))
}

/// Checks the number of measures by the minute in some of the metrics: the sum of `count`.
pub fn check_counts(server: &Server, metrics: &[MetricId], measures: usize) -> Result<()> {
    const SAMPLE: usize = 5;
    // An interrupted run has fewer measures.
    if server.peer == Peer::Limit || !server.peer.has_gnocchi_api() || server.context.stop.is_set() {
        return Ok(());
    }
    let client = server.client()?;
    for metric in metrics.iter().step_by((metrics.len() / SAMPLE).max(1)) {
        let found = measures_by_minute(server, &client, *metric)?;
        ensure!(found == measures as f64, "metric {metric} holds {found} measures, not {measures}");
    }
    Ok(())
}

/// Number of measures by the minute in a metric: the sum of `count`.
pub fn measures_by_minute(server: &Server, client: &Client, metric: MetricId) -> Result<f64> {
    let filter = MeasuresFilter {
        aggregation: Some(AggregationMethod::new(Statistic::Count)),
        granularity: Some("60".to_owned()),
        ..MeasuresFilter::default()
    };
    let points = server.context.runtime.block_on(client.get_measures(metric, &filter))?;
    Ok(points.iter().map(|point| point.value).sum())
}

/// Checks that VictoriaMetrics has stored the data: it returns 204 for measures that it drops (too old, too new),
/// several times faster.
pub fn check_none_ignored(server: &Server) -> Result<()> {
    let requests = Requests::listed(vec![server.headers.bare("GET", "/metrics")]);
    let ignored = ignored_rows(&String::from_utf8_lossy(&first_answer(server, &requests)?.0));
    ensure!(ignored == 0.0, "the server has ignored {ignored} measures");
    Ok(())
}

/// The sum of VictoriaMetrics' counters of ignored measures.
fn ignored_rows(metrics: &str) -> f64 {
    metrics
        .lines()
        .filter(|line| line.starts_with("vm_rows_ignored_total"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

/// VictoriaMetrics' name of a metric, with a fixed length.
pub fn series_name(index: usize) -> String {
    format!("gnudi_bench{{metric=\"{index:08}\"}}")
}

/// The beginning of a line for `/api/v1/import`, up to the metric's end, with a fixed length.
pub fn series_object(index: usize) -> String {
    format!("{{\"metric\":{{\"__name__\":\"gnudi_bench\",\"metric\":\"{index:08}\"}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_rows_are_summed_over_reasons() {
        let text = "vm_rows_ignored_total{reason=\"big_timestamp\"} 2\nvm_rows_ignored_total{reason=\"nan_value\"} 3\nvm_rows 9\n";
        assert_eq!(ignored_rows(text), 5.0);
    }

    #[test]
    fn names_have_one_length() {
        assert_eq!(series_name(7).len(), series_name(99_999_999).len());
        assert_eq!(series_object(7).len(), series_object(99_999_999).len());
    }
}
