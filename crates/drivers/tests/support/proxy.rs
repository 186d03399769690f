//! An HTTP proxy in the test between a driver and its engine, which injects failures.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::join_all;
use gnudi_drivers::objects::{HttpOptions, ObjectError, Objects};
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, StatusCode, Uri, body::Incoming, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::net::TcpListener;

use super::random::Random;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Pass,
    /// Not forwarded: 503, as from S3.
    SlowDown,
    /// Not forwarded: the connection is closed.
    Drop,
    /// Not forwarded: 200 for any request.
    Agree,
    /// Forwarded, but the connection is closed before the response.
    DropAnswer,
    /// Forwarded, but the response is delayed by this time.
    Late(Duration),
}

type Choice = dyn Fn(&str, &Uri) -> Mood + Send + Sync;

pub struct Proxy {
    address: SocketAddr,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Proxy {
    /// In front of `http://ADDRESS`; `choose` gets each request's method and path.
    pub async fn start(engine: &str, choose: impl Fn(&str, &Uri) -> Mood + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client: Client<HttpConnector, Full<Bytes>> =
            Client::builder(TokioExecutor::new()).build(HttpConnector::new());
        let (engine, choose): (String, Arc<Choice>) = (engine.to_owned(), Arc::new(choose));
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (client, engine, choose) = (client.clone(), engine.clone(), choose.clone());
                let service = service_fn(move |request| {
                    let mood = choose(request.method().as_str(), request.uri());
                    forward(client.clone(), engine.clone(), mood, request)
                });
                tokio::spawn(async move {
                    let connection = hyper::server::conn::http1::Builder::new();
                    // Fails if the mood requires it.
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Proxy { address, serving }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

async fn forward(
    client: Client<HttpConnector, Full<Bytes>>,
    engine: String,
    mood: Mood,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, io::Error> {
    let gone = || io::Error::other("as the test wants it");
    let (mut head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    match mood {
        Mood::Drop => return Err(gone()),
        Mood::Agree => return Ok(Response::new(Full::default())),
        Mood::SlowDown => {
            let text =
                "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";
            let answer = Response::builder().status(StatusCode::SERVICE_UNAVAILABLE);
            return answer.body(Full::new(Bytes::from_static(text.as_bytes()))).map_err(io::Error::other);
        }
        _ => {}
    }
    // Keep the host that the driver has signed.
    head.uri = format!("{engine}{}", head.uri).parse().map_err(io::Error::other)?;
    let sent = client.request(Request::from_parts(head, Full::new(body))).await;
    let (head, body) = sent.map_err(io::Error::other)?.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    match mood {
        Mood::DropAnswer => return Err(gone()),
        Mood::Late(delay) => tokio::time::sleep(delay).await,
        _ => {}
    }
    Ok(Response::from_parts(head, Full::new(body)))
}

/// A network with all kinds of failures.
pub fn troubled(random: &mut Random) -> Mood {
    match random.below(20) {
        0 => Mood::SlowDown,
        1 => Mood::Drop,
        2 | 3 => Mood::DropAnswer,
        4 => Mood::Late(Duration::from_millis(900)),
        _ => Mood::Pass,
    }
}

/// Two drivers create the same names concurrently: each name has one creator, which knows it, and whose bytes
/// are stored.
pub async fn create_names<D: Objects>(
    drivers: &[Arc<D>],
    direct: &D,
    names: usize,
    bytes: impl Fn(usize, usize) -> Bytes,
) {
    let creating = (0..names).map(async |number| {
        let name = format!("name/{number}");
        let creates = (0..2).map(|creator| drivers[creator].create(&name, bytes(number, creator)));
        let answers = join_all(creates).await;
        let winners: Vec<usize> = (0..2).filter(|creator| answers[*creator].is_ok()).collect();
        assert_eq!(winners.len(), 1, "{name}: {answers:?}");
        assert_eq!(answers[1 - winners[0]], Err(ObjectError::Exists(name.clone())));
        let there = direct.get(&name).await.unwrap().unwrap();
        assert_eq!(there, bytes(number, winners[0]));
        assert_eq!(drivers[0].get(&name).await.unwrap().unwrap(), there);
    });
    join_all(creating).await;
}

/// Options of a client that soon tries again in such a network.
pub fn impatient() -> HttpOptions {
    HttpOptions {
        deadline: Duration::from_secs(30),
        attempt_timeout: Duration::from_millis(600),
        ..HttpOptions::default()
    }
}
