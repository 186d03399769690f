//! The server over sockets: connections, limits, shutdown.

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use gnudi_access::{AuthMode, KeystoneAuth, KeystoneAuthOptions, ProcessSecret};
use gnudi_app::ApiOptions;
use gnudi_drivers::{
    aggregates::memory::MemoryAggregates,
    incoming::{Append, Backlog, Batch, Consume, Incoming, IncomingError, Pending, Position, Positions},
};
use gnudi_engine::Engine;
use gnudi_http::Trust;
use gnudi_indexer::memory::MemoryIndexer;
use gnudi_keystone::{Credentials, Interface, KeystoneOptions, Session, Validator, ValidatorOptions};
use gnudi_model::{Fault, MetricId, Numbering, Sack, SackCount, Timestamp};
use gnudi_server::{CorsOptions, HttpLimits};
use support::{Connection, NOW, Request, Server};
use tokio::{io::AsyncWriteExt, net::TcpListener, time::timeout};

const SOON: Duration = Duration::from_mins(1);

fn with_limits(change: impl FnOnce(&mut HttpLimits)) -> ApiOptions {
    let mut options = ApiOptions::default();
    change(&mut options.http_limits);
    options
}

/// Creates a metric of the policy `p` (one second, kept forever); returns the path of its measures.
async fn create_metric(server: &Server) -> String {
    let policy =
        r#"{"name": "p", "definition": [{"granularity": 1}], "aggregation_methods": ["mean", "count"]}"#;
    server.create("admin", "/v1/archive_policy", policy).await;
    let id = server.create("admin", "/v1/metric", r#"{"archive_policy_name": "p"}"#).await;
    format!("/v1/metric/{id}/measures")
}

fn measures(count: usize) -> String {
    let measures: Vec<String> = (0..count)
        .map(|n| format!(r#"{{"timestamp": {}, "value": {}.5}}"#, 1_400_000_000 + n, n % 100))
        .collect();
    format!("[{}]", measures.join(", "))
}

async fn is_cut(connection: &mut Connection) -> bool {
    timeout(SOON, connection.is_closed()).await.unwrap_or(false)
}

#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let server = Server::start(ApiOptions::default()).await;
    let mut connection = server.connect().await;
    for _ in 0..3 {
        assert_eq!(connection.ask(Request::new("GET", "/v1/archive_policy")).await.body, "[]");
    }
    let refused = connection.ask(Request::new("POST", "/v1/metric").body("{").user(None)).await;
    assert_eq!(refused.status, 401);
    assert_eq!(connection.ask(Request::new("GET", "/v1/archive_policy")).await.status, 200);
    // Two pipelined requests.
    let twice = Request::new("GET", "/v1/archive_policy").to_bytes().repeat(2);
    connection.send(&twice).await;
    assert_eq!(connection.answer().await.unwrap().status, 200);
    assert_eq!(connection.answer().await.unwrap().status, 200);
    connection.send(b"GET /v1/capabilities HTTP/1.0\r\n\r\n").await;
    assert_eq!(connection.answer().await.unwrap().status, 200);
    assert!(is_cut(&mut connection).await);
}

/// The HTTP library's own Date would stand still until the clock has caught up.
#[tokio::test]
async fn the_date_goes_with_the_clock_also_backwards() {
    static SECONDS: AtomicI64 = AtomicI64::new(1_795_264_496);
    let clock = || Timestamp::from_secs(SECONDS.load(Ordering::Relaxed));
    let engine = support::engine();
    let server = Server::of(support::app(engine, ApiOptions::default(), clock)).await;
    let mut connection = server.connect().await;
    for (step, date) in [
        (0, "Sat, 21 Nov 2026 12:34:56 GMT"),
        (-3600, "Sat, 21 Nov 2026 11:34:56 GMT"),
        (-86_400, "Fri, 20 Nov 2026 11:34:56 GMT"),
        (1, "Fri, 20 Nov 2026 11:34:57 GMT"),
    ] {
        SECONDS.fetch_add(step, Ordering::Relaxed);
        assert_eq!(connection.ask(Request::new("GET", "/v1/metric")).await.header("date"), Some(date));
    }
}

#[tokio::test]
async fn head_is_served_where_pecan_serves_it() {
    let server = Server::start(ApiOptions::default()).await;
    let mut connection = server.connect().await;
    for (path, status) in
        [("/", 200), ("/v1/", 200), ("/v1", 302), ("/healthcheck", 204), ("/v1/metric", 405), ("/x", 404)]
    {
        assert_eq!(connection.ask(Request::new("HEAD", path)).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn what_stands_in_front_of_the_api_is_served_to_anybody() {
    let options = ApiOptions {
        path_prefix: "/gnocchi".to_owned(),
        enable_proxy_headers_parsing: true,
        cors: CorsOptions { allowed_origin: vec!["http://foobar.com".to_owned()], ..CorsOptions::default() },
        ..ApiOptions::default()
    };
    let server = Server::start(options).await;
    let anybody = |method, path| Request::new(method, path).user(None);
    let versions = server
        .ask(anybody("GET", "/gnocchi/").headers(&[("Forwarded", "for=192.0.2.60;proto=https;host=foobar")]))
        .await;
    assert!(versions.body.contains(r#""href": "https://foobar/gnocchi/v1/""#), "{versions:?}");
    assert!(versions.body.contains(r#""build": "4.7.1""#), "{versions:?}");
    let moved = server.ask(anybody("GET", "/gnocchi/v1?a=b")).await;
    assert_eq!(
        (moved.status, moved.header("location")),
        (302, Some("http://localhost:8041/gnocchi/v1/?a=b"))
    );
    let index = server.ask(anybody("GET", "/gnocchi/v1/")).await;
    assert!(
        index.body.contains(r#"{"rel": "metric", "href": "http://localhost:8041/gnocchi/v1/metric"}"#),
        "{index:?}"
    );
    for path in ["/healthcheck", "/gnocchi/healthcheck", "/metrics", "/gnocchi/metrics"] {
        assert_eq!(server.ask(anybody("GET", path)).await.status, 200, "{path}");
    }
    assert_eq!(server.ask(anybody("GET", "/v1/")).await.status, 404);
    let preflight = server
        .ask(
            anybody("OPTIONS", "/gnocchi/v1/status")
                .headers(&[("Origin", "http://foobar.com"), ("Access-Control-Request-Method", "GET")]),
        )
        .await;
    assert_eq!(preflight.status, 200);
    assert_eq!(preflight.header("access-control-allow-origin"), Some("http://foobar.com"));
    let figures = server.ask(anybody("GET", "/metrics")).await.body;
    assert!(
        figures.contains(r#"gnudi_api_requests_total{method="GET",route="/v1",status="302"} 1"#),
        "{figures}"
    );
}

#[tokio::test]
async fn a_long_answer_comes_in_pieces() {
    const POINTS: usize = 20_000;
    let server = Server::start(ApiOptions::default()).await;
    let path = create_metric(&server).await;
    let posted = server.ask(Request::new("POST", &path).body(&measures(POINTS))).await;
    assert_eq!((posted.status, posted.body.as_str()), (202, ""));
    let query = format!("{path}?refresh=true");
    let answer = server.ask(Request::new("GET", &query)).await;
    assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
    let rows: Vec<String> = (0..POINTS)
        .map(|n| {
            let time = gnudi_model::Timestamp::from_secs(1_400_000_000 + n as i64).to_iso();
            format!("[\"{time}\", 1.0, {}.5]", n % 100)
        })
        .collect();
    assert_eq!(answer.body, format!("[{}]", rows.join(", ")));
}

#[tokio::test]
async fn an_idle_connection_is_cut_and_one_in_use_is_not() {
    let limits = |limits: &mut HttpLimits| limits.idle_timeout = Duration::from_millis(1500);
    let server = Server::start(with_limits(limits)).await;
    let (mut idle, mut used) = (server.connect().await, server.connect().await);
    idle.ask(Request::new("GET", "/v1/archive_policy")).await;
    for _ in 0..8 {
        assert_eq!(used.ask(Request::new("GET", "/v1/archive_policy")).await.status, 200);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(is_cut(&mut idle).await);
}

#[tokio::test]
async fn a_body_must_arrive_fast_enough() {
    let limits = |limits: &mut HttpLimits| {
        limits.body_grace = Duration::from_millis(500);
        limits.body_bytes_per_second_min = 1000;
    };
    let server = Server::start(with_limits(limits)).await;
    let path = create_metric(&server).await;
    let body = format!("[{}]", " ".repeat(9_998));
    let request = Request::new("POST", &path).body(&body).to_bytes();
    let (head, body) = request.split_at(request.len() - body.len());
    let (mut slow, mut steady) = (server.connect().await, server.connect().await);
    slow.send(head).await;
    steady.send(head).await;
    slow.send(&body[..10]).await;
    for part in body.chunks(1_000) {
        steady.send(part).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(steady.answer().await.unwrap().status, 202);
    assert!(is_cut(&mut slow).await);
}

/// A Keystone that accepts requests and never answers.
async fn silent_keystone() -> Validator {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = KeystoneOptions {
        auth_url: format!("http://{}", listener.local_addr().unwrap()),
        credentials: Credentials::ApplicationCredential { id: "id".into(), secret: "secret".into() },
        region_name: None,
        interface: Interface::Public,
        trust: Trust::default(),
        identity: None,
        timeout: Duration::from_secs(3),
    };
    tokio::spawn(async move {
        let mut taken = Vec::new();
        while let Ok(connection) = listener.accept().await {
            taken.push(connection);
        }
    });
    Validator::new(Session::new(options).unwrap(), ValidatorOptions::default())
}

#[tokio::test]
async fn a_body_that_is_not_asked_for_yet_is_not_late() {
    let authtoken = KeystoneAuthOptions {
        www_authenticate_uri: String::new(),
        service_token_roles: Vec::new(),
        service_token_roles_required: false,
        service_type: None,
    };
    let keystone = KeystoneAuth::new(silent_keystone().await, authtoken, ProcessSecret::new("x".into()));
    let options = ApiOptions { auth_mode: AuthMode::Keystone(keystone.into()), ..ApiOptions::default() };
    let server = Server::start(ApiOptions {
        http_limits: HttpLimits { body_grace: Duration::from_millis(500), ..HttpLimits::default() },
        ..options
    })
    .await;
    let request = Request::new("POST", "/v1/metric").body("{}").headers(&[("X-Auth-Token", "any")]);
    let mut connection = server.connect().await;
    connection.send(&request.to_bytes()).await;
    let answer = timeout(SOON, connection.answer()).await.unwrap();
    assert_eq!(answer.expect("the connection is not cut").status, 503);
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut() {
    const POINTS: usize = 400_000;
    let limits = |limits: &mut HttpLimits| limits.write_timeout = Duration::from_millis(500);
    let server = Server::start(with_limits(limits)).await;
    let path = create_metric(&server).await;
    assert_eq!(server.ask(Request::new("POST", &path).body(&measures(POINTS))).await.status, 202);
    let mut connection = server.connect().await;
    connection.send(&Request::new("GET", &format!("{path}?refresh=true")).to_bytes()).await;
    // Until the response begins, and then four seconds in which the process does not stand still.
    timeout(SOON, connection.stream.peek(&mut [0])).await.expect("a response").unwrap();
    for _ in 0..40 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // What fits into the sockets' buffers arrives, then the connection ends.
    assert!(timeout(SOON, connection.answer()).await.expect("it ends").is_none());
}

#[tokio::test]
async fn connections_above_the_limit_are_turned_away() {
    let server = Server::start(with_limits(|limits| limits.connections_max = 2)).await;
    let (mut first, mut second) = (server.connect().await, server.connect().await);
    first.ask(Request::new("GET", "/")).await;
    second.ask(Request::new("GET", "/")).await;
    let mut third = server.connect().await;
    let answer = timeout(SOON, third.answer()).await.unwrap().expect("it is told");
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    drop(first);
    // The slot is free once the server has noticed that the first connection closed.
    let free = async {
        while server.connect().await.ask(Request::new("GET", "/")).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, free).await.expect("a place becomes free");
}

#[tokio::test]
async fn large_requests_are_refused() {
    let limits = |limits: &mut HttpLimits| {
        limits.body_bytes_max = 10_000;
        limits.header_bytes_max = 16 << 10;
    };
    let mut options = with_limits(limits);
    (options.limits.measures_max, options.limits.batch_metrics_max) = (10, 2);
    let server = Server::start(options).await;
    let path = create_metric(&server).await;
    let spaces = |count: usize| format!("[{}]", " ".repeat(count - 2));
    let post = |body: &str| Request::new("POST", &path).body(body).to_bytes();
    let status = async |bytes: Vec<u8>| {
        let mut connection = server.connect().await;
        // The server may answer and close before everything is sent.
        let _ = connection.stream.write_all(&bytes).await;
        timeout(SOON, connection.answer()).await.expect("an answer").map(|answer| answer.status)
    };
    assert_eq!(status(post(&spaces(10_000))).await, Some(202));
    assert_eq!(status(post(&spaces(10_001))).await, Some(413));
    assert_eq!(status(post(&spaces(3_000_000))).await, Some(413));
    assert_eq!(status(post(&measures(10))).await, Some(202));
    assert_eq!(status(post(&measures(11))).await, Some(413));
    // Irregular, to use the slow parser's count.
    assert_eq!(status(post(&measures(11).replacen("value", "v\\u0061lue", 1))).await, Some(413));
    let batch: Vec<String> =
        (0..3).map(|n| format!("\"00000000-0000-4000-8000-00000000000{n}\": []")).collect();
    let batch = format!("{{{}}}", batch.join(", "));
    let batch = Request::new("POST", "/v1/batch/metrics/measures").body(&batch).to_bytes();
    assert_eq!(status(batch).await, Some(413));
    let mut chunked = Request::new("POST", &path).headers(&[("Transfer-Encoding", "chunked")]).to_bytes();
    chunked.extend(format!("3e8\r\n{}\r\n", " ".repeat(1000)).into_bytes().repeat(20));
    assert_eq!(status(chunked).await, Some(413));
    let promised = [("Content-Length", "99999999999"), ("Expect", "100-continue")];
    assert_eq!(status(Request::new("POST", &path).headers(&promised).to_bytes()).await, Some(413));
    // The handler refuses it by a response of its own.
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let query = format!("query={}", "x".repeat(3_000_000));
    let query = Request::new("POST", "/api/v1/query").body(&query).headers(&form);
    assert_eq!(status(query.to_bytes()).await, Some(413));
    // The handler reads no body.
    let ignored = spaces(3_000_000);
    let ignored = Request::new("GET", "/v1/archive_policy").body(&ignored);
    assert_eq!(status(ignored.to_bytes()).await, Some(200));
    let arguments = format!("/v1/metric?{}", vec!["a"; 257].join("&"));
    assert_eq!(status(Request::new("GET", &arguments).to_bytes()).await, Some(400));
    let items = vec![r#"{"granularity": 1}"#; 101].join(",");
    let policy = format!(r#"{{"name": "x", "definition": [{items}]}}"#);
    assert_eq!(status(Request::new("POST", "/v1/archive_policy").body(&policy).to_bytes()).await, Some(400));
    assert_eq!(status(b"CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n".to_vec()).await, Some(405));
    let long = "x".repeat(20_000);
    assert_eq!(status(Request::new("GET", "/").headers(&[("X-Long", &long)]).to_bytes()).await, Some(431));
}

/// Closing on unread input would reset the connection, and the client might not see why it was refused.
#[tokio::test]
async fn a_refused_body_beyond_the_limit_resets_no_connection() {
    let server = Server::start(with_limits(|limits| limits.body_bytes_max = 10_000)).await;
    let spaces = " ".repeat(3_000_000);
    let known = Request::new("POST", "/v1/none").body(&spaces).to_bytes();
    let mut chunked =
        Request::new("POST", "/v1/none").headers(&[("Transfer-Encoding", "chunked")]).to_bytes();
    chunked.extend(format!("3e8\r\n{}\r\n", " ".repeat(1000)).into_bytes().repeat(3000));
    for bytes in [known, chunked] {
        let mut connection = server.connect().await;
        connection.send(&bytes).await;
        let refused = timeout(SOON, connection.answer()).await.expect("an answer").unwrap();
        assert_eq!((refused.status, refused.header("connection")), (404, Some("close")));
    }
}

#[tokio::test]
async fn the_memory_of_all_bodies_is_limited() {
    let server = Server::start(with_limits(|limits| limits.bodies_bytes_max = 10_000)).await;
    let path = create_metric(&server).await;
    let body = format!("[{}]", " ".repeat(7_998));
    let request = Request::new("POST", &path).body(&body).to_bytes();
    let mut first = server.connect().await;
    first.send(&request[..request.len() - 1]).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let refused = server.ask(Request::new("POST", &path).body(&body)).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    first.send(&request[request.len() - 1..]).await;
    assert_eq!(first.answer().await.unwrap().status, 202);
    assert_eq!(server.ask(Request::new("POST", &path).body(&body)).await.status, 202);
}

#[tokio::test]
async fn stopping_finishes_what_has_begun() {
    let mut server = Server::start(ApiOptions::default()).await;
    let path = create_metric(&server).await;
    let request = Request::new("POST", &path).body("[]").to_bytes();
    let (mut idle, mut busy) = (server.connect().await, server.connect().await);
    idle.ask(Request::new("GET", "/")).await;
    busy.send(&request[..request.len() - 1]).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.request_stop();
    assert!(is_cut(&mut idle).await);
    busy.send(&request[request.len() - 1..]).await;
    assert_eq!(busy.answer().await.unwrap().status, 202);
    assert!(is_cut(&mut busy).await);
    timeout(SOON, server.stop()).await.expect("it stops");
}

#[tokio::test]
async fn stopping_does_not_wait_for_ever() {
    let server = Server::start(with_limits(|limits| limits.drain_timeout = Duration::from_millis(300))).await;
    let mut connection = server.connect().await;
    connection.send(b"POST /v1/metric HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    timeout(SOON, server.stop()).await.expect("it stops");
}

/// An incoming store that panics on every use.
struct Panics;

impl Incoming for Panics {
    fn fault(&self) -> Option<Fault> {
        Some(Fault::OutOfOrder("it \"panics\" <always>".to_owned()))
    }
}

#[async_trait]
impl Append for Panics {
    async fn append(&self, _: Batch) -> Result<(), IncomingError> {
        panic!("on purpose: append");
    }

    async fn backlog(&self) -> Result<Backlog, IncomingError> {
        panic!("on purpose: backlog");
    }

    async fn backlog_by_metric(&self) -> Result<std::collections::HashMap<MetricId, u64>, IncomingError> {
        panic!("on purpose: backlog_by_metric");
    }
}

#[async_trait]
impl Consume for Panics {
    fn numbering(&self) -> Numbering {
        Numbering::settled(SackCount::DEFAULT)
    }

    async fn pending(&self, _: Sack, _: Position, _: usize) -> Result<Pending, IncomingError> {
        panic!("on purpose: pending");
    }

    async fn acknowledge(&self, _: Sack, _: Position) -> Result<(), IncomingError> {
        panic!("on purpose: acknowledge");
    }

    async fn trim(&self, _: &[(Sack, Position)]) -> Result<(), IncomingError> {
        panic!("on purpose: trim");
    }

    async fn positions(&self, _: &[Sack]) -> Result<Vec<Positions>, IncomingError> {
        panic!("on purpose: positions");
    }

    async fn arrivals(&self) -> Vec<Sack> {
        panic!("on purpose: arrivals");
    }
}

#[tokio::test]
async fn a_panic_is_answered_and_the_connection_goes_on() {
    let engine = Engine::new(
        Arc::new(MemoryIndexer::default()),
        Arc::new(Panics),
        Arc::new(MemoryAggregates::default()),
        || NOW,
    );
    let server = Server::of(support::app(engine, ApiOptions::default(), || NOW)).await;
    let mut connection = server.connect().await;
    let failed = connection.ask(Request::new("GET", "/v1/status")).await;
    assert_eq!(failed.status, 500);
    assert_eq!(failed.body, r#"{"code": 500, "title": "Internal Server Error", "description": null}"#);
    assert_eq!(connection.ask(Request::new("GET", "/v1/archive_policy")).await.status, 200);
    for (accept, body) in [
        ("text/plain", r#"it "panics" <always>"#),
        (
            "application/json",
            "{\n    \"detailed\": false,\n    \"reasons\": [\n        \"it \\\"panics\\\" <always>\"\n    ]\n}",
        ),
        (
            "text/html",
            "<HTML>\n<HEAD><TITLE>Healthcheck Status</TITLE></HEAD>\n<BODY>\n<P>it \"panics\" &lt;always&gt;</P>\n</BODY>\n</HTML>",
        ),
    ] {
        let headers = [("Accept", accept)];
        let health = connection.ask(Request::new("GET", "/healthcheck").headers(&headers)).await;
        assert_eq!((health.status, health.body.as_str()), (503, body));
    }
    assert_eq!(connection.ask(Request::new("HEAD", "/healthcheck")).await.status, 503);
}
