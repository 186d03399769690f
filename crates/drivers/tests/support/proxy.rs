//! An HTTP proxy in the test, between a driver and its engine, which does to requests what networks and engines do.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, StatusCode, Uri, body::Incoming, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::net::TcpListener;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Pass,
    /// The engine never sees it: 503, as S3 says it.
    SlowDown,
    /// The engine never sees it: the connection ends.
    Drop,
    /// The engine never sees it: 200, whatever was asked.
    Agree,
    /// It is carried out, and the connection ends before the answer.
    DropAnswer,
    /// It is carried out, and the answer takes this long.
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
    /// In front of `http://ADDRESS`; `choose` is given each request's method and path.
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
                    // It ends with an error where the mood says so.
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
    // The host stays as the driver has signed it.
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
