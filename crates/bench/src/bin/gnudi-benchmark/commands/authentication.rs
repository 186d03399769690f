//! `gnudi-benchmark authentication`: the cost of token validation.
//!
//! Two gnudis, with `auth_mode = basic` and `keystone`, get the same requests in short alternating turns, so that
//! changes of the machine's speed affect both. Processor time per request is meaningful even on a busy machine.
//! Keystone is simulated in this process with one known token: gnudi is measured with a warm cache, and Keystone is
//! not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use gnudi_model::MetricId;

use super::within;
use crate::{
    context::Context,
    findings::{Findings, Value},
    load::{Headers, Load, Requests, Until},
    noop::{self, NoopServer},
    peers::{Peer, Server},
    rows::setup,
    sheet::Sheet,
    spread::Spread,
    table::short,
};

/// Connections of the load.
const CONNECTIONS: usize = 8;

/// Measures per request.
const MEASURES: usize = 100;

/// The length of a fernet token.
const TOKEN_BYTES: usize = 183;

/// Compare requests with a cached token to requests with basic authentication.
#[derive(Clone, Debug, Args)]
pub struct AuthenticationOptions {
    /// Rounds.
    #[arg(short, long, value_name = "N", default_value_t = 15, value_parser = within(1..=1_000))]
    rounds: usize,
    /// Duration of a measurement.
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    turn_ms: u64,
}

/// A kind of request: its name, and the requests to both servers, basic first.
type Kind = (&'static str, [Requests; 2]);

pub fn run(options: &AuthenticationOptions, context: &Context) -> Result<Findings> {
    let validations = Arc::new(AtomicU64::new(0));
    let keystone = NoopServer::start_with(|address| Keystone::new(address.port(), validations.clone()))?;
    let configuration = configuration(keystone.address.port());
    let mut with_token = Server::start_configured(Peer::Gnudi, &configuration, context)?;
    with_token.headers.identity = format!("X-Auth-Token: {}\r\n", token());
    let servers = [Server::start_configured(Peer::Gnudi, "", context)?, with_token];
    let AuthenticationOptions { rounds, turn_ms } = options;
    let title = format!("keystone with a known token against basic: {rounds} rounds of {turn_ms} ms each");
    let mut findings = Findings::new(title);
    let mut all = Vec::new();
    for kind in &kinds(&servers)? {
        all.extend(measured(kind, &servers, options, context)?);
    }
    tell(&all, &mut findings);
    findings.tell("validations", Value::Count(validations.load(Ordering::Relaxed)));
    Ok(findings)
}

fn tell(all: &[Measured], findings: &mut Findings) {
    let mut sheet = Sheet::<Measured>::new();
    sheet.text("request", |one| one.name.to_owned());
    sheet.figure("basic", "basic", |one| Value::rate(one.rates(0).median, "request"));
    sheet.figure("keystone", "keystone", |one| Value::rate(one.rates(1).median, "request"));
    sheet.figure("ratio", "keystone to basic", |one| Value::Percent(100.0 * one.ratio().median));
    sheet.value("least", |one| Value::Percent(100.0 * one.ratio().least));
    sheet.value("greatest", |one| Value::Percent(100.0 * one.ratio().greatest));
    sheet.text("basic µs", |one| short(one.microseconds[0]));
    sheet.text("keystone µs", |one| short(one.microseconds[1]));
    for one in all {
        sheet.add_figures(one, |figure| format!("{}, {figure}", one.name), findings);
        let percent = 100.0 * (one.microseconds[1] / one.microseconds[0] - 1.0);
        findings.compare(format!("{}, cost in processor time", one.name), Value::each(percent, "%"));
    }
    let title = "medians of requests a second; the ratio is that of keystone's rate to basic's, round by round; µs of processor time \
                 a request, over all rounds";
    findings.tables.push(sheet.table(title, all, |_| None));
}

/// The results of one kind of requests on both servers, basic first.
struct Measured {
    name: &'static str,
    /// Requests per second, by round; at least one.
    rounds: Vec<[f64; 2]>,
    /// The server's processor time per request.
    microseconds: [f64; 2],
}

impl Measured {
    fn spread(&self, of: impl Fn(&[f64; 2]) -> f64) -> Spread {
        Spread::of(self.rounds.iter().map(of)).expect("a round was measured")
    }

    fn rates(&self, side: usize) -> Spread {
        self.spread(|rates| rates[side])
    }

    fn ratio(&self) -> Spread {
        self.spread(|[basic, keystone]| keystone / basic)
    }
}

/// `None` if the run was stopped.
fn measured(
    (name, requests): &Kind,
    servers: &[Server; 2],
    options: &AuthenticationOptions,
    context: &Context,
) -> Result<Option<Measured>> {
    let (mut rounds, mut calls, mut seconds) = (Vec::new(), [0; 2], [0.0; 2]);
    // The first round is a warm-up.
    for round in 0..=options.rounds {
        let mut pair = [0.0; 2];
        for side in if round.is_multiple_of(2) { [0, 1] } else { [1, 0] } {
            let until = Until::Elapsed(Duration::from_millis(options.turn_ms));
            let load = Load {
                connections: CONNECTIONS,
                ..Load::new(servers[side].address, &requests[side], until, &context.stop)
            };
            let used = || servers[side].probe.cpu_seconds().context("a server's processor time");
            let before = used()?;
            let outcome = load.run();
            if context.stop.is_set() {
                return Ok(None);
            }
            if let Some(failure) = outcome.failure {
                bail!("{name}: {failure}");
            }
            pair[side] = outcome.calls as f64 / outcome.elapsed.as_secs_f64();
            if round > 0 {
                calls[side] += outcome.calls;
                seconds[side] += used()? - before;
            }
        }
        if round > 0 {
            rounds.push(pair);
        }
    }
    let microseconds = [0, 1].map(|side: usize| 1e6 * seconds[side] / calls[side] as f64);
    Ok(Some(Measured { name, rounds, microseconds }))
}

fn kinds(servers: &[Server; 2]) -> Result<[Kind; 2]> {
    let metric = |server| anyhow::Ok(setup::create_metrics(server, "low", 1)?.0[0]);
    let metrics = [metric(&servers[0])?, metric(&servers[1])?];
    let of = |make: &dyn Fn(&Headers, MetricId) -> Vec<u8>| {
        [0, 1].map(|side: usize| Requests::Listed(vec![make(&servers[side].headers, metrics[side])]))
    };
    let measures: Vec<String> = (0..MEASURES)
        .map(|index| format!("{{\"timestamp\":{},\"value\":{index}}}", 1_700_000_000 + index))
        .collect();
    let body = format!("[{}]", measures.join(","));
    let get = of(&|headers, metric| headers.bare("GET", &format!("/v1/metric/{metric}")));
    let post = of(&|headers, metric| headers.post(&format!("/v1/metric/{metric}/measures"), body.as_bytes()));
    Ok([("get a metric", get), ("post 100 measures", post)])
}

fn token() -> String {
    "gAAAAA".chars().chain("0123456789abcdef".chars().cycle()).take(TOKEN_BYTES).collect()
}

/// A simulated Keystone that knows one user and one token.
struct Keystone {
    login: Vec<u8>,
    validation: Vec<u8>,
    validations: Arc<AtomicU64>,
}

impl Keystone {
    fn new(port: u16, validations: Arc<AtomicU64>) -> Self {
        let document = document(port);
        let login = noop::answer("201 Created\r\nX-Subject-Token: own", &document);
        Keystone { login, validation: noop::answer("200 OK", &document), validations }
    }
}

impl noop::Choice for Keystone {
    fn choose(&self, head: &[u8]) -> &[u8] {
        if head.starts_with(b"POST ") {
            return &self.login;
        }
        self.validations.fetch_add(1, Ordering::Relaxed);
        &self.validation
    }
}

/// Lines of gnocchi.conf for a Keystone on this port.
fn configuration(port: u16) -> String {
    format!(
        "[api]\nauth_mode = keystone\n[keystone_authtoken]\nauth_url = http://127.0.0.1:{port}\nuser_id = u\n\
         password = p\nproject_id = p\n"
    )
}

/// The token's contents, for logins and validations: an administrator, like the user of basic authentication.
fn document(port: u16) -> String {
    format!(
        r#"{{"token": {{"issued_at": "2098-12-31T00:00:00Z", "expires_at": "2099-01-01T00:00:00Z",
        "user": {{"id": "7e172c7f15944ae4b21300e069d539b0", "name": "alice", "domain": {{"id": "default", "name": "Default"}}}},
        "project": {{"id": "fb176a502dcb45c8885bb0d0ea02cec8", "name": "demo", "domain": {{"id": "default", "name": "Default"}}}},
        "roles": [{{"id": "1", "name": "admin"}}, {{"id": "2", "name": "member"}}, {{"id": "3", "name": "reader"}}],
        "catalog": [{{"type": "identity", "endpoints": [
            {{"interface": "internal", "region": "RegionOne", "url": "http://127.0.0.1:{port}"}}]}}]}}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripted_document_is_json() {
        let document: serde_json::Value = serde_json::from_str(&document(1)).unwrap();
        assert_eq!(document["token"]["roles"][0]["name"], "admin");
        assert_eq!(token().len(), TOKEN_BYTES);
    }
}
