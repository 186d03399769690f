//! `gnudi-benchmark authentication`: what the validation of tokens costs.
//!
//! Two gnudis, one with `auth_mode = basic` and one with `keystone`, get the same requests in short turns, so that a machine
//! whose speed changes favours nobody. Processor time a request tells the cost also where others use the machine. Keystone is a scripted one within this process that knows one token: what is measured
//! is gnudi with a warm cache, and not Keystone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::{
    context::Context,
    findings::{Better, Findings, Table, Value},
    load::{Headers, Keep, Load, Requests, Until},
    peers::Server,
    table::short,
};

/// Connections of the load.
const CONNECTIONS: usize = 8;

/// Measures in a request that posts some.
const MEASURES: usize = 100;

/// As long as a fernet token.
const TOKEN_BYTES: usize = 183;

/// Compare requests with a token, whose validity is known, to requests with basic authentication.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// How often each is measured.
    #[arg(short, long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// How long a measurement takes.
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    turn_ms: u64,
}

/// What is asked of both.
struct RequestPair {
    name: &'static str,
    /// The requests of the two, basic first.
    requests: [Requests; 2],
}

pub fn run(options: &Options, context: &mut Context) -> Result<Findings> {
    let keystone = Scripted::start(context)?;
    let mut with_token = Server::start_configured(&keystone.configuration(), context)?;
    with_token.headers.identity = format!("X-Auth-Token: {}\r\n", token());
    let servers = [Server::start_configured("", context)?, with_token];
    let kinds = kinds(&servers, context)?;
    let mut findings = Findings::new(
        "authentication",
        format!(
            "keystone with a known token against basic: {} rounds of {} ms each",
            options.rounds, options.turn_ms
        ),
    );
    let mut table = Table {
        title: "medians of requests a second; the ratio is that of keystone's rate to basic's, round by round; µs of processor time \
                a request, over all rounds"
            .to_owned(),
        headings: ["request", "basic", "keystone", "ratio", "least", "greatest", "basic µs", "keystone µs"].map(str::to_owned).to_vec(),
        rows: Vec::new(),
    };
    for kind in &kinds {
        let Some(Measured { mut rates, microseconds }) = measured(kind, &servers, options, context)? else {
            findings.partial = Some("interrupted".to_owned());
            break;
        };
        let mut ratios: Vec<f64> = rates.iter().map(|[basic, keystone]| keystone / basic).collect();
        ratios.sort_by(f64::total_cmp);
        let mut median = |side: usize| {
            rates.sort_by(|one, other| one[side].total_cmp(&other[side]));
            rates[rates.len() / 2][side]
        };
        let (basic, keystone, ratio) = (median(0), median(1), ratios[ratios.len() / 2]);
        findings.compare(format!("{}, basic", kind.name), Value::Rate(basic, "request"), Better::Higher);
        findings.compare(
            format!("{}, keystone", kind.name),
            Value::Rate(keystone, "request"),
            Better::Higher,
        );
        findings.compare(
            format!("{}, keystone to basic", kind.name),
            Value::Percent(100.0 * ratio),
            Better::Higher,
        );
        let [basic_us, keystone_us] = microseconds;
        let cost = 100.0 * (keystone_us / basic_us - 1.0);
        findings.compare(
            format!("{}, cost in processor time", kind.name),
            Value::Percent(cost),
            Better::Lower,
        );
        let row =
            [basic, keystone, ratio, ratios[0], ratios[ratios.len() - 1], basic_us, keystone_us].map(short);
        table.rows.push(std::iter::once(kind.name.to_owned()).chain(row).collect());
    }
    findings.tables.push(table);
    findings.tell("validations", Value::Count(keystone.validations.load(Ordering::Relaxed)));
    Ok(findings)
}

/// What became of a kind of requests on both servers, basic first.
struct Measured {
    /// Requests a second, round by round.
    rates: Vec<[f64; 2]>,
    /// Processor time of the server for a request.
    microseconds: [f64; 2],
}

/// `None` where the run was told to end.
fn measured(
    kind: &RequestPair,
    servers: &[Server; 2],
    options: &Options,
    context: &Context,
) -> Result<Option<Measured>> {
    let (mut rates, mut calls, mut seconds) = (Vec::new(), [0; 2], [0.0; 2]);
    // The first round warms up.
    for round in 0..=options.rounds {
        let mut pair = [0.0; 2];
        for side in if round.is_multiple_of(2) { [0, 1] } else { [1, 0] } {
            let until = Until::Elapsed(Duration::from_millis(options.turn_ms));
            let load = Load {
                connections: CONNECTIONS,
                ..Load::new(servers[side].address, &kind.requests[side], until, &context.stop)
            };
            let used = || servers[side].probe.cpu_seconds().context("a server's processor time");
            let before = used()?;
            let outcome = load.run();
            if context.stop.is_set() {
                return Ok(None);
            }
            if let Some(failure) = outcome.failure {
                anyhow::bail!("{}: {failure}", kind.name);
            }
            pair[side] = outcome.calls as f64 / outcome.elapsed.as_secs_f64();
            if round > 0 {
                calls[side] += outcome.calls;
                seconds[side] += used()? - before;
            }
        }
        if round > 0 {
            rates.push(pair);
        }
    }
    let microseconds = [0, 1].map(|side: usize| 1e6 * seconds[side] / calls[side] as f64);
    Ok(Some(Measured { rates, microseconds }))
}

fn kinds(servers: &[Server; 2], context: &Context) -> Result<Vec<RequestPair>> {
    let metrics = [metric(&servers[0], context)?, metric(&servers[1], context)?];
    let of = |make: &dyn Fn(&Headers, &str) -> Vec<u8>| {
        [0, 1].map(|side: usize| Requests::Listed(vec![make(&servers[side].headers, &metrics[side])]))
    };
    let measures: Vec<String> = (0..MEASURES)
        .map(|index| format!("{{\"timestamp\":{},\"value\":{index}}}", 1_700_000_000 + index))
        .collect();
    let body = format!("[{}]", measures.join(","));
    Ok(vec![
        RequestPair {
            name: "get a metric",
            requests: of(&|headers, metric| headers.bare("GET", &format!("/v1/metric/{metric}"))),
        },
        RequestPair {
            name: "post 100 measures",
            requests: of(&|headers, metric| {
                headers.post(&format!("/v1/metric/{metric}/measures"), body.as_bytes())
            }),
        },
    ])
}

/// The id of a new metric.
fn metric(server: &Server, context: &Context) -> Result<String> {
    let body = br#"{"archive_policy_name":"low"}"#;
    let requests = Requests::Listed(vec![server.headers.post("/v1/metric", body)]);
    let load =
        Load { keep: Keep::Ids, ..Load::new(server.address, &requests, Until::Count(1), &context.stop) };
    let outcome = load.run();
    ensure!(outcome.failure.is_none(), "creating a metric: {}", outcome.failure.unwrap_or_default());
    let id = outcome.ids.first().context("creating a metric was interrupted")?;
    Ok(String::from_utf8_lossy(id).into_owned())
}

fn token() -> String {
    "gAAAAA".chars().chain("0123456789abcdef".chars().cycle()).take(TOKEN_BYTES).collect()
}

/// A Keystone that knows one user and one token.
struct Scripted {
    port: u16,
    validations: Arc<AtomicU64>,
}

impl Scripted {
    fn start(context: &Context) -> Result<Self> {
        let listener = context.runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let port = listener.local_addr()?.port();
        let validations = Arc::new(AtomicU64::new(0));
        let counted = validations.clone();
        context.runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let counted = counted.clone();
                tokio::spawn(async move {
                    // Who hangs up needs no answer.
                    let _ = answer(stream, port, &counted).await;
                });
            }
        });
        Ok(Scripted { port, validations })
    }

    /// Lines of gnocchi.conf.
    fn configuration(&self) -> String {
        format!(
            "[api]\nauth_mode = keystone\n[keystone_authtoken]\nauth_url = http://127.0.0.1:{}\nuser_id = u\n\
             password = p\nproject_id = p\n",
            self.port
        )
    }
}

/// Answers the requests of a connection: logins, which have a body without line ends, and validations.
async fn answer(mut stream: TcpStream, port: u16, validations: &AtomicU64) -> std::io::Result<()> {
    const HEAD_BYTES_MAX: usize = 64 << 10;
    let mut received: Vec<u8> = Vec::new();
    loop {
        let head_end = received.windows(4).position(|window| window == b"\r\n\r\n").map(|start| start + 4);
        let length = head_end.map(|end| content_length(&received[..end]));
        if let (Some(end), Some(length)) = (head_end, length)
            && received.len() >= end + length
        {
            let is_login = received.starts_with(b"POST ");
            received.drain(..end + length);
            let (status, header) = if is_login {
                ("201 Created", "X-Subject-Token: own\r\n")
            } else {
                validations.fetch_add(1, Ordering::Relaxed);
                ("200 OK", "")
            };
            let body = document(port);
            let length = body.len();
            let text = format!("HTTP/1.1 {status}\r\n{header}Content-Length: {length}\r\n\r\n{body}");
            stream.write_all(text.as_bytes()).await?;
            continue;
        }
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await?;
        if count == 0 || received.len() > HEAD_BYTES_MAX {
            return Ok(());
        }
        received.extend_from_slice(&buffer[..count]);
    }
}

fn content_length(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let value = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// The token's contents, for logins and validations alike: an administrator's, as the user of basic authentication is.
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
    fn a_body_is_as_long_as_its_head_says() {
        assert_eq!(content_length(b"POST / HTTP/1.1\r\nContent-Length: 12\r\n\r\n"), 12);
        assert_eq!(content_length(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n"), 0);
        assert_eq!(token().len(), TOKEN_BYTES);
    }

    #[test]
    fn the_scripted_document_is_json() {
        let document: serde_json::Value = serde_json::from_str(&document(1)).unwrap();
        assert_eq!(document["token"]["roles"][0]["name"], "admin");
    }
}
