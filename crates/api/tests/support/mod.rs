//! A server with in-memory drivers, and an HTTP client without any logic of its own.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{net::SocketAddr, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use gnudi_app::{ApiOptions, App};
use gnudi_drivers::{aggregates::memory::MemoryAggregates, incoming::memory::MemoryIncoming};
use gnudi_engine::Engine;
use gnudi_indexer::{CacheOptions, CachedIndexer, Indexer, memory::MemoryIndexer};
use gnudi_model::{SackCount, Timestamp};
use gnudi_prometheus_api::{PrometheusApi, PrometheusOptions};
use gnudi_server::serve;
use prometheus_client::registry::Registry;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

/// 2026-11-21T12:34:56.789012345Z.
pub const NOW: Timestamp = Timestamp(1_795_264_496_789_012_345);

/// An archive policy `p`: aggregates by the second, kept forever.
pub const POLICY: &str = r#"{"name": "p", "definition": [{"granularity": 1}]}"#;

/// An empty engine.
pub fn engine() -> Engine {
    engine_of(Arc::new(MemoryIndexer::default()))
}

/// An engine without measures.
pub fn engine_of(index: Arc<dyn Indexer>) -> Engine {
    Engine::new(
        index,
        Arc::new(MemoryIncoming::new(SackCount::DEFAULT, u64::MAX)),
        Arc::new(MemoryAggregates::default()),
        || NOW,
    )
}

/// An application with all routes.
pub fn app(engine: Engine, options: ApiOptions, clock: fn() -> Timestamp) -> App {
    let engine = Arc::new(engine);
    let prometheus = PrometheusApi::new(engine.clone(), PrometheusOptions::default());
    let mut routes = gnudi_api::routes();
    routes.extend(gnudi_prometheus_api::routes(prometheus));
    App::new(engine, options, Registry::default(), clock, routes)
}

/// A server with a cache of a few items, and that cache. Its clock stands still.
pub async fn server_with_cache(options: ApiOptions) -> (Server, Arc<CachedIndexer<MemoryIndexer>>) {
    let few = CacheOptions { metrics_cached_max: 10, resources_cached_max: 10 };
    let cached = Arc::new(CachedIndexer::new(MemoryIndexer::default(), &few));
    let server = Server::of(app(engine_of(cached.clone()), options, || NOW)).await;
    (server, cached)
}

/// A running server; stops on request, or with the test's runtime.
pub struct Server {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Server {
    pub async fn start(options: ApiOptions) -> Self {
        Server::of(app(engine(), options, || NOW)).await
    }

    /// A server of an application.
    pub async fn of(app: App) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (stop, stopped) = oneshot::channel();
        #[expect(clippy::async_yields_async, reason = "the server awaits what ends its wait for requests")]
        let stop_requested = async {
            let _ = stopped.await;
            std::future::pending()
        };
        let task = tokio::spawn(serve(listener, Arc::new(app), stop_requested));
        Server { address, stop: Some(stop), task }
    }

    /// Stops the server and waits for it.
    pub async fn stop(mut self) {
        self.request_stop();
        self.task.await.expect("it does not panic").expect("it had an address");
    }

    pub fn request_stop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
    }

    pub async fn connect(&self) -> Connection {
        let stream = TcpStream::connect(self.address).await.expect("the server listens");
        Connection::new(stream)
    }

    /// One request on a connection of its own.
    pub async fn ask(&self, request: Request<'_>) -> Answer {
        self.connect().await.ask(request).await
    }

    /// Creates an item; returns its id, the end of its address.
    pub async fn create(&self, user: &str, path: &str, body: &str) -> String {
        let created = self.ask(Request::new("POST", path).body(body).user(Some(user))).await;
        assert_eq!(created.status, 201, "{path}: {created:?}");
        let address = created.header("location").expect("an item has an address");
        address.rsplit('/').next().expect("it ends in the id").to_owned()
    }
}

/// A request; the default is the administrator's, with JSON both ways.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub body: Option<&'a str>,
    pub user: Option<&'a str>,
    /// Override the default headers of the same name.
    pub headers: &'a [(&'a str, &'a str)],
}

impl<'a> Request<'a> {
    pub fn new(method: &'a str, path: &'a str) -> Self {
        Request { method, path, body: None, user: Some("admin"), headers: &[] }
    }

    pub fn body(self, body: &'a str) -> Self {
        Request { body: Some(body), ..self }
    }

    pub fn user(self, user: Option<&'a str>) -> Self {
        Request { user, ..self }
    }

    pub fn headers(self, headers: &'a [(&'a str, &'a str)]) -> Self {
        Request { headers, ..self }
    }

    pub fn to_bytes(self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\nHost: localhost:8041\r\n", self.method, self.path);
        let mut usual =
            vec![("Accept", "application/json".to_owned()), ("Content-Type", "application/json".to_owned())];
        if let Some(user) = self.user {
            usual.push(("Authorization", format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:")))));
        }
        if let Some(body) = self.body {
            usual.push(("Content-Length", body.len().to_string()));
        }
        usual.retain(|(name, _)| !self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)));
        for (name, value) in
            usual.iter().map(|(name, value)| (*name, value.as_str())).chain(self.headers.iter().copied())
        {
            text += &[name, ": ", value, "\r\n"].concat();
        }
        text += "\r\n";
        text += self.body.unwrap_or_default();
        text.into_bytes()
    }
}

/// A persistent connection.
pub struct Connection {
    pub stream: TcpStream,
    read: Vec<u8>,
}

/// A response; header names are in lower case.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Connection {
    pub fn new(stream: TcpStream) -> Self {
        Connection { stream, read: Vec::new() }
    }

    pub async fn ask(&mut self, request: Request<'_>) -> Answer {
        self.send(&request.to_bytes()).await;
        self.answer_to(request.method).await.expect("an answer")
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the server reads");
    }

    /// The next response; `None` if the connection ends first.
    pub async fn answer(&mut self) -> Option<Answer> {
        self.answer_to("GET").await
    }

    async fn answer_to(&mut self, method: &str) -> Option<Answer> {
        let end = loop {
            if let Some(end) = find(&self.read, b"\r\n\r\n") {
                break end;
            }
            self.more().await?;
        };
        let head = String::from_utf8(self.read.drain(..end + 4).collect()).expect("headers are text");
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut answer = Answer { status, headers, body: String::new() };
        if method == "HEAD" || matches!(status, 204 | 304) {
            return Some(answer);
        }
        let bytes = if answer.header("transfer-encoding") == Some("chunked") {
            self.chunks().await?
        } else {
            let length =
                answer.header("content-length").map_or(0, |length| length.parse().expect("a number"));
            self.take(length).await?
        };
        answer.body = String::from_utf8(bytes).expect("bodies are text");
        Some(answer)
    }

    async fn chunks(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                if let Some(end) = find(&self.read, b"\r\n") {
                    break end;
                }
                self.more().await?;
            };
            let line = String::from_utf8(self.take(end + 2).await?).expect("a length");
            let length = usize::from_str_radix(line.trim(), 16).expect("a length");
            body.extend(self.take(length).await?);
            self.take(2).await?;
            if length == 0 {
                return Some(body);
            }
        }
    }

    async fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.read.len() < length {
            self.more().await?;
        }
        Some(self.read.drain(..length).collect())
    }

    async fn more(&mut self) -> Option<()> {
        // On the heap: an array would be part of every caller's future.
        let mut buffer = vec![0; 64 << 10];
        let length = self.stream.read(&mut buffer).await.ok()?;
        self.read.extend_from_slice(&buffer[..length]);
        (length > 0).then_some(())
    }

    /// Whether the server closes the connection without another byte.
    pub async fn is_closed(&mut self) -> bool {
        self.read.is_empty() && self.more().await.is_none()
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
