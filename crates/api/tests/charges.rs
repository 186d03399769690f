//! The cost of requests is charged to their callers, also if the client does not read the response.

mod support;

use std::{
    future::{pending, ready},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use gnudi_access::{QuotaOptions, Rule};
use gnudi_app::{Answer, ApiOptions, App, Call, Endpoint, Guard, Handled, Handler, JSON, Lookup, Route};
use gnudi_server::{ReplyBody, RequestBody, reply};
use prometheus_client::registry::Registry;
use support::{NOW, Request, Server};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

const SOON: Duration = Duration::from_mins(1);

/// Reports that it is called, and never answers.
struct Never(Arc<Notify>);

impl Handler for Never {
    fn handle<'a>(&'a self, _: &'a Call<'a>, _: &'a mut RequestBody<'_>) -> Handled<'a> {
        self.0.notify_one();
        Box::pin(pending::<Answer>())
    }
}

/// Answers four times 64 KiB, in pieces.
struct Pieces;

impl Handler for Pieces {
    fn handle<'a>(&'a self, _: &'a Call<'a>, _: &'a mut RequestBody<'_>) -> Handled<'a> {
        let pieces = [3, 1].map(|blocks: usize| Bytes::from(vec![b' '; blocks << 16]));
        let answer: Answer = Ok(reply::ok(ReplyBody::Pieces(Box::new(pieces.into_iter()))));
        Box::pin(ready(answer))
    }
}

/// A server that also serves `/own` by this handler.
async fn start(handler: Box<dyn Handler>) -> Server {
    let endpoint = Endpoint::new("GET", Guard::Caller(Rule::ListArchivePolicy), &JSON, handler);
    let own = Route { path: "/own", lookup: Lookup::Nothing, endpoints: vec![endpoint], also_below: None };
    let routes = gnudi_api::routes().into_iter().chain([own]).collect();
    let quotas = QuotaOptions { figures: true, ..QuotaOptions::default() };
    let options = ApiOptions { quotas, ..ApiOptions::default() };
    let engine = Arc::new(support::engine());
    Server::of(App::new(engine, options, Registry::default(), || NOW, routes)).await
}

/// The cost of all requests of `jd`.
async fn cost(server: &Server) -> Option<f64> {
    let figures = server.ask(Request::new("GET", "/metrics")).await.body;
    let (_, rest) = figures.split_once("gnudi_project_request_cost_total{project=\"jd\"} ")?;
    rest.lines().next()?.parse().ok()
}

/// Waits for a cost.
async fn becomes(server: &Server, expected: f64) -> bool {
    let wait = async {
        while cost(server).await != Some(expected) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, wait).await.is_ok()
}

#[tokio::test]
async fn a_request_is_charged_even_if_its_client_does_not_wait() {
    let begun = Arc::new(Notify::new());
    let server = start(Box::new(Never(begun.clone()))).await;
    let mut connection = server.connect().await;
    connection.send(&Request::new("GET", "/own").user(Some("jd")).to_bytes()).await;
    begun.notified().await;
    assert_eq!(cost(&server).await, Some(0.0));
    drop(connection);
    assert!(becomes(&server, 1.0).await);
}

#[tokio::test]
async fn a_response_in_pieces_is_charged_by_its_size() {
    let server = start(Box::new(Pieces)).await;
    let answer = server.ask(Request::new("GET", "/own").user(Some("jd"))).await;
    assert_eq!((answer.status, answer.body.len()), (200, 4 << 16));
    assert!(becomes(&server, 5.0).await);
}
