//! Objects in Swift, on a real radosgw, and logins on a fake Keystone and Swift.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_drivers::{
    conformance,
    coordination::{Arbiter, CoordinationError, memory::MemoryArbiter},
    objects::{
        HttpOptions, ObjectError, Objects, Secret,
        swift::{SwiftObjects, SwiftOptions},
    },
};
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};

#[path = "engines/ceph.rs"]
mod ceph;
#[path = "engines/radosgw.rs"]
mod radosgw;
#[path = "engines/server.rs"]
mod server;
mod support;
use radosgw::{Radosgw, swift_at as options};
use server::fresh_name;
use support::{
    proxy::{Proxy, create_names, impatient, troubled},
    random::Random,
};

/// Counts requests to the arbiter; can be down.
#[derive(Default)]
struct Counted {
    inner: MemoryArbiter,
    looked_up: AtomicUsize,
    is_down: Mutex<bool>,
}

impl Counted {
    fn up(&self) -> Result<(), CoordinationError> {
        if *self.is_down.lock() {
            Err(CoordinationError::Unavailable("it is down".to_owned()))
        } else {
            Ok(())
        }
    }
}

#[async_trait]
impl Arbiter for Counted {
    async fn claim(&self, name: &str, value: &str) -> Result<String, CoordinationError> {
        self.up()?;
        self.inner.claim(name, value).await
    }

    async fn claimed(&self, names: &[String]) -> Result<Vec<Option<String>>, CoordinationError> {
        self.looked_up.fetch_add(1, Ordering::Relaxed);
        self.up()?;
        self.inner.claimed(names).await
    }

    async fn unclaim(&self, names: &[String]) -> Result<(), CoordinationError> {
        self.up()?;
        self.inner.unclaim(names).await
    }
}

async fn open(options: &SwiftOptions, purpose: &str, arbiter: &Arc<Counted>) -> Arc<SwiftObjects> {
    Arc::new(SwiftObjects::open(options, purpose, arbiter.clone()).await.unwrap())
}

async fn conforms(options: &SwiftOptions) {
    let arbiter = Arc::new(Counted::default());
    conformance::objects(async || {
        // One arbiter for all containers, as in a cluster.
        let purpose = fresh_name();
        [open(options, &purpose, &arbiter).await, open(options, &purpose, &arbiter).await]
    })
    .await;
}

/// Put objects need no look-up, and created ones need one each.
async fn look_ups_are_few(options: &SwiftOptions) {
    let arbiter = Arc::new(Counted::default());
    let store = open(options, "few", &arbiter).await;
    let asked = |since: usize| arbiter.looked_up.load(Ordering::Relaxed) - since;
    for number in 0..10 {
        store.put(&format!("put/{number}"), Bytes::from_static(b"put")).await.unwrap();
        assert!(store.get(&format!("put/{number}")).await.unwrap().is_some());
    }
    assert_eq!(asked(0), 0);
    for number in 0..10 {
        store.create(&format!("log/{number}"), Bytes::from_static(b"created")).await.unwrap();
    }
    assert_eq!(asked(0), 0);
    let reader = open(options, "few", &arbiter).await;
    for number in 0..10 {
        assert!(reader.get(&format!("log/{number}")).await.unwrap().is_some());
    }
    assert_eq!(asked(0), 10);
}

/// While the arbiter is down nothing is created, and no created object counts as absent.
async fn the_arbiter_may_be_down(options: &SwiftOptions) {
    let arbiter = Arc::new(Counted::default());
    let store = open(options, "down", &arbiter).await;
    store.create("log/1", Bytes::from_static(b"1")).await.unwrap();
    store.put("put/1", Bytes::from_static(b"1")).await.unwrap();
    *arbiter.is_down.lock() = true;
    let unavailable =
        |text: &ObjectError| matches!(text, ObjectError::Unavailable(text) if text.contains("down"));
    let late = store.create("log/2", Bytes::from_static(b"2")).await;
    assert!(late.as_ref().is_err_and(unavailable), "{late:?}");
    assert!(store.get("log/1").await.as_ref().is_err_and(unavailable));
    assert!(store.delete(&["log/1".to_owned()]).await.as_ref().is_err_and(unavailable));
    assert_eq!(store.get("put/1").await.unwrap().unwrap(), "1");
    *arbiter.is_down.lock() = false;
    assert_eq!(store.get("log/1").await.unwrap().unwrap(), "1");
    assert_eq!(store.get("log/2").await, Ok(None));
    assert_eq!(store.list("").await.unwrap(), ["log/1", "put/1"], "bytes that nobody claimed are no object");
    store.create("log/2", Bytes::from_static(b"2")).await.unwrap();
}

async fn wrong_keys_are_refused(right: &SwiftOptions) {
    let secret = "not-the-secret-at-all";
    let wrong = SwiftOptions { key: Secret::new(secret), ..right.clone() };
    let nobody = SwiftOptions { user: "gnudi:nobody".to_owned(), ..right.clone() };
    let second = SwiftOptions { auth_version: "2".to_owned(), ..right.clone() };
    for (options, words) in
        [(&wrong, "swift_key"), (&nobody, "swift_user"), (&second, "swift_auth_version 2")]
    {
        let arbiter = Arc::new(MemoryArbiter::default());
        let error = SwiftObjects::open(options, "x", arbiter).await.err().expect("it is wrong");
        let text = format!("{error} {error:?} {options:?}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(!text.contains(secret) && !text.contains(radosgw::SWIFT_KEY), "{text}");
    }
}

/// A network with all kinds of failures: each name has one creator, which knows it or gets an unknown
/// outcome.
async fn nothing_is_claimed_twice(gateway: &Radosgw) {
    const NAMES: usize = 40;
    let random = Mutex::new(Random::new(11));
    let proxy = Proxy::start(&gateway.endpoint(), move |_, _| troubled(&mut random.lock())).await;
    let arbiter = Arc::new(Counted::default());
    // The gateway's storage URL has the host of the request: everything goes through the proxy.
    let impatient = SwiftOptions { http: impatient(), ..options(&format!("{}/auth/1.0", proxy.endpoint())) };
    let drivers = [open(&impatient, "proxy", &arbiter).await, open(&impatient, "proxy", &arbiter).await];
    let direct = open(&options(&gateway.swift_auth()), "proxy", &arbiter).await;
    let bytes = |number: usize, creator: usize| Bytes::from(format!("{number} of {creator}"));
    create_names(&drivers, &direct, NAMES, bytes).await;
    let names = drivers[0].list("").await.unwrap();
    assert_eq!(names.len(), NAMES);
    drivers[1].delete(&names).await.unwrap();
    assert!(direct.list("").await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn radosgw_swift() {
    let ceph = ceph::Ceph::start();
    let mut gateway = Radosgw::start(ceph.conf());
    let right = options(&gateway.swift_auth());
    conforms(&right).await;
    look_ups_are_few(&right).await;
    the_arbiter_may_be_down(&right).await;
    wrong_keys_are_refused(&right).await;
    nothing_is_claimed_twice(&gateway).await;
    let http = HttpOptions { deadline: Duration::from_secs(1), ..HttpOptions::default() };
    let store = open(&SwiftOptions { http, ..right }, "again", &Arc::default()).await;
    assert!(store.place().starts_with("swift container gnocchi-gnudi-again of http://127.0.0.1:"));
    store.put("a", Bytes::from_static(b"a")).await.unwrap();
    gateway.process.stop();
    let start = Instant::now();
    let answer = store.get("a").await;
    assert!(matches!(&answer, Err(ObjectError::Unavailable(text)) if text.contains("refused")), "{answer:?}");
    assert!(start.elapsed() < Duration::from_secs(20));
    gateway.process.start_again();
    assert_eq!(store.get("a").await.unwrap().unwrap(), "a");
}

/// A Keystone and a Swift in one; its tokens expire after some requests.
struct Cloud {
    address: SocketAddr,
    requests_per_token: usize,
    logins: AtomicUsize,
    left: AtomicUsize,
    objects: Mutex<HashMap<String, Bytes>>,
}

impl Cloud {
    async fn start(requests_per_token: usize) -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (logins, left, objects) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::default());
        let cloud = Arc::new(Cloud { address, requests_per_token, logins, left, objects });
        let serving = cloud.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let cloud = serving.clone();
                let service = service_fn(move |request| cloud.clone().answer(request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        cloud
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> hyper::Result<Response<Full<Bytes>>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        if head.uri.path() == "/v3/auth/tokens" {
            return Ok(self.login(&body));
        }
        let token = format!("token-{}", self.logins.load(Ordering::Relaxed));
        let is_good = head.headers["x-auth-token"] == token.as_str() && self.left.load(Ordering::Relaxed) > 0;
        if !is_good {
            return Ok(Response::builder().status(401).body(Full::default()).unwrap());
        }
        self.left.fetch_sub(1, Ordering::Relaxed);
        let path = head.uri.path().to_owned();
        let mut objects = self.objects.lock();
        if head.method == "PUT" {
            objects.insert(path, body);
            return Ok(Response::builder().status(201).body(Full::default()).unwrap());
        }
        let found = objects.get(&path).cloned();
        let status = if found.is_some() { 200 } else { 404 };
        let body = found.unwrap_or_default();
        Ok(Response::builder().status(status).body(Full::new(body)).unwrap())
    }

    fn login(&self, body: &Bytes) -> Response<Full<Bytes>> {
        let asked: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(asked["auth"]["identity"]["password"]["user"]["password"], "secret");
        let login = self.logins.fetch_add(1, Ordering::Relaxed) + 1;
        self.left.store(self.requests_per_token, Ordering::Relaxed);
        let endpoint = json!({"interface": "public", "url": format!("http://{}/v1/AUTH_a", self.address)});
        let catalog = json!([{"type": "object-store", "endpoints": [endpoint]}]);
        let body = json!({"token": {"catalog": catalog}}).to_string();
        let answer = Response::builder().status(201).header("x-subject-token", format!("token-{login}"));
        answer.body(Full::from(body)).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keystone_tokens_are_renewed() {
    let cloud = Cloud::start(5).await;
    let options = SwiftOptions {
        auth_version: "3".to_owned(),
        authurl: format!("http://{}/v3", cloud.address),
        user: "gnudi".to_owned(),
        key: Secret::new("secret"),
        project_name: Some("service".to_owned()),
        ..SwiftOptions::default()
    };
    let store = open(&options, "tokens", &Arc::default()).await;
    for number in 0..12 {
        let (name, bytes) = (format!("put/{number}"), Bytes::from(number.to_string()));
        store.put(&name, bytes.clone()).await.unwrap();
        assert_eq!(store.get(&name).await.unwrap().unwrap(), bytes);
    }
    // The container and 24 calls, five per token.
    assert_eq!(cloud.logins.load(Ordering::Relaxed), 5);
}
