//! The API as a value: takes a request, returns a response. `gnudi_server` binds it to sockets; tests call it
//! directly.

use std::{io, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use gnudi_access::{Audit, Caller, Peer, QuotaFigures, Quotas};
use gnudi_drivers::incoming::Batch;
use gnudi_engine::Engine;
use gnudi_model::Timestamp;
use gnudi_server::{
    Application, BodyBudget, HttpLimits, LongWork, RequestBody, Response, Watch, head, join_accept, reply,
};
use hyper::{
    Method, Request, StatusCode,
    body::Incoming,
    header::{
        ACCEPT, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, DATE, EXPECT, HeaderValue, RETRY_AFTER,
        WWW_AUTHENTICATE,
    },
    http::request::Parts,
};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;

use crate::{
    answer_budget::AnswerBudget,
    buffers::MeasureBuffers,
    document::{self, RequestFacts},
    error::{ApiError, Result},
    figures::Figures,
    http_date,
    links::Secure,
    options::ApiOptions,
    provision::KnownResources,
    router::{Route, RouteMatch, Router, dispatch, is_version_1},
};

/// A body that is longer than this is not drained after a 401.
const UNKNOWN_DRAINED_BYTES_MAX: u64 = 64 << 10;

/// How long `/metrics` waits for the size of the backlog: less than a scrape of Prometheus may take (10 seconds).
const BACKLOG_TIMEOUT: Duration = Duration::from_secs(3);

/// How caches treat a response without directives of its own. It is for its caller only, and caches do not know the header that
/// names the caller: `X-Auth-Token`, or a proxy's.
const OF_ITS_CALLER: HeaderValue = HeaderValue::from_static("private, no-cache");

/// Everything needed to answer requests.
pub struct App {
    engine: Arc<Engine>,
    options: ApiOptions,
    router: Router,
    registry: Mutex<Registry>,
    pub figures: Figures,
    pub(crate) quotas: Arc<Quotas>,
    audit: Audit,
    pub measure_buffers: MeasureBuffers,
    pub(crate) known_resources: KnownResources,
    /// When the log last named what a write has left out.
    pub(crate) left_out_logged_at: Mutex<Option<Timestamp>>,
    bodies: BodyBudget,
    long_work: LongWork,
    /// Limits the memory of responses that are not read yet.
    pub(crate) answers: AnswerBudget,
    pub(crate) clock: fn() -> Timestamp,
    started: Timestamp,
}

impl App {
    /// `registry` holds the other metrics that `/metrics` shows. `clock` resolves relative timestamps and
    /// sets creation dates. `routes` are those of all APIs.
    pub fn new(
        engine: Arc<Engine>,
        options: ApiOptions,
        mut registry: Registry,
        clock: fn() -> Timestamp,
        routes: Vec<Route>,
    ) -> Self {
        let figures = Figures::new(&mut registry);
        let audit = Audit::new(&mut registry);
        let quotas = Arc::new(Quotas::default());
        let answers = AnswerBudget::new(options.limits.answers_bytes_max);
        registry.register_collector(Box::new(QuotaFigures(quotas.clone())));
        App {
            engine,
            options,
            router: Router::new(routes),
            registry: Mutex::new(registry),
            figures,
            quotas,
            audit,
            measure_buffers: MeasureBuffers::default(),
            known_resources: KnownResources::default(),
            left_out_logged_at: Mutex::default(),
            bodies: BodyBudget::default(),
            long_work: LongWork::default(),
            answers,
            clock,
            started: clock(),
        }
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// For responses that are computed after their handler has returned.
    pub fn shared_engine(&self) -> Arc<Engine> {
        self.engine.clone()
    }

    pub fn options(&self) -> &ApiOptions {
        &self.options
    }

    /// When the server was started.
    pub fn started(&self) -> Timestamp {
        self.started
    }

    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Appends a caller's measures to the log. They are durable once this returns.
    ///
    /// # Errors
    /// 429 if the caller's project or the whole backlog exceeds its limit; 503 if they cannot be stored.
    pub(crate) async fn append(&self, caller: &Caller, batch: Batch) -> Result<()> {
        let measures = batch.measures();
        // Not `measures > 0`: a batch that deletes measures has entries without any.
        if !batch.entries.is_empty() {
            self.quotas.admit_measures(&self.options.quotas, caller, self.now(), measures)?;
            self.engine.append(batch).await?;
            self.figures.measures.inc_by(measures);
        }
        Ok(())
    }

    /// All metrics in Prometheus' text format.
    pub async fn figures_text(&self) -> String {
        // On an error, or without an answer, the other metrics are still shown: they are needed most when a store fails.
        let asked = tokio::time::timeout(BACKLOG_TIMEOUT, self.engine.backlog()).await;
        let backlog = match asked {
            Ok(Ok(backlog)) => Some(backlog),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the backlog is not known");
                None
            }
            Err(_) => {
                tracing::warn!("the backlog is not known: no answer in time");
                None
            }
        };
        self.figures.backlog.set(backlog);
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry.lock());
        text
    }

    /// Drains the body of a refused request, so that the client reads the response and the connection can be
    /// reused. A body that is too large, whatever the reason of the refusal, unauthenticated and long, or still held back
    /// (`Expect`) closes the connection. Handlers refuse requests by errors, or by responses of their own.
    async fn drain_or_close(
        &self,
        parts: &Parts,
        body: &mut RequestBody<'_>,
        watch: Option<&Watch>,
        mut response: Response,
    ) -> Response {
        if body.is_read() {
            return response;
        }
        let status = response.status();
        if !status.is_client_error() && !status.is_server_error() {
            // The handler has no use for it. hyper takes what has arrived, or closes the connection.
            if let Some(watch) = watch {
                watch.will_close_early();
            }
            return response;
        }
        let length = body.bytes_left();
        let is_long = length.is_none_or(|bytes| bytes > UNKNOWN_DRAINED_BYTES_MAX);
        let is_not_worth_reading = status == StatusCode::UNAUTHORIZED && is_long;
        let bytes_max = self.options.http_limits.body_bytes_max as u64;
        let is_left = status == StatusCode::PAYLOAD_TOO_LARGE
            || length.is_some_and(|bytes| bytes > bytes_max)
            || is_not_worth_reading
            || parts.headers.contains_key(EXPECT);
        if is_left || !body.drain().await {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            if let Some(watch) = watch {
                watch.will_close_early();
            }
        }
        response
    }

    async fn handle(
        &self,
        found: Result<RouteMatch<'_>>,
        parts: &Parts,
        body: &mut RequestBody<'_>,
    ) -> Result<Response> {
        head::check(parts, &self.options.http_limits)?;
        if self.options.cors.forbids(&parts.method, &parts.headers) {
            let text = "The request comes from a page of an origin that [cors] allowed_origin does not name";
            return Err(ApiError::new(StatusCode::FORBIDDEN, text));
        }
        let auth_mode = &self.options.auth_mode;
        let leads_to_version_1 = || match &found {
            Ok(found) => found.is_version_1(),
            Err(_) => is_version_1(parts.uri.path(), &self.options.path_prefix),
        };
        let is_guarded = auth_mode.guards_version_1() && leads_to_version_1();
        let caller = if is_guarded { Some(auth_mode.caller(parts, self.now()).await?) } else { None };
        let found = found?;
        let handled = AssertUnwindSafe(dispatch(self, &found, parts, body, caller)).catch_unwind().await;
        handled.unwrap_or_else(|panic| {
            let reason = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("unknown");
            tracing::error!(reason, method = %parts.method, path = parts.uri.path(), "a handler panicked");
            self.figures.panics.inc();
            Err(ApiError::internal())
        })
    }
}

impl Application for App {
    fn limits(&self) -> &HttpLimits {
        &self.options.http_limits
    }

    async fn answer(&self, request: Request<Incoming>, watch: Option<Arc<Watch>>) -> Response {
        let (mut parts, incoming) = request.into_parts();
        join_accept(&mut parts.headers);
        if let Some(watch) = &watch {
            if self.options.auth_mode.needs_peer() {
                parts.extensions.insert(Peer(watch.peer()));
            }
            if watch.is_secure() {
                parts.extensions.insert(Secure);
            }
            watch.begin_handling();
        }
        let limits = &self.options.http_limits;
        let mut body = RequestBody::new(incoming, watch.clone(), &self.bodies, limits, &self.long_work);
        let found = self.router.find(&parts, &self.options.path_prefix);
        let route = found.as_ref().map_or("", |found| found.route);
        let result = self.handle(found, &parts, &mut body).await;
        let response = match result {
            Ok(response) => response,
            Err(error) => {
                let peer = watch.as_ref().map(|watch| watch.peer());
                self.audit.note(&error.refused(&parts, route, peer), self.now());
                refuse(&error, &parts)
            }
        };
        let mut response = self.drain_or_close(&parts, &mut body, watch.as_deref(), response).await;
        let cors = &self.options.cors;
        if parts.method == Method::OPTIONS || !cors.allowed_origin.is_empty() {
            response = cors.apply(&parts.method, &parts.headers, response);
        }
        if parts.method == Method::GET || parts.method == Method::HEAD {
            response.headers_mut().entry(CACHE_CONTROL).or_insert(OF_ITS_CALLER);
        }
        // hyper's own Date stands still while the clock is set back.
        response.headers_mut().insert(DATE, http_date::header(self.now()));
        self.figures.answered(method_name(&parts.method), route, response.status().as_u16());
        response
    }

    async fn follow(&self) -> io::Result<()> {
        self.options.auth_mode.follow().await
    }
}

/// The metric label of a method. Unusual methods share one label, so that clients cannot create time series.
fn method_name(method: &Method) -> &'static str {
    for known in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] {
        if method.as_str() == known {
            return known;
        }
    }
    "other"
}

fn refuse(error: &ApiError, parts: &Parts) -> Response {
    let header = |name| parts.headers.get(name).map(|value| value.to_str().unwrap_or(""));
    let asked = RequestFacts {
        method: parts.method.as_str(),
        accept: header(ACCEPT),
        content_type: header(CONTENT_TYPE).unwrap_or(""),
    };
    let (content_type, text) = document::of(error, asked);
    let mut response =
        reply::with_body(error.status, HeaderValue::from_static(content_type), text.into_bytes());
    let headers = response.headers_mut();
    if !error.allow.is_empty() {
        let allow = HeaderValue::from_str(&error.allow.join(", ")).expect("methods are tokens");
        headers.insert(ALLOW, allow);
    }
    if let Some(challenge) = &error.challenge
        && let Ok(challenge) = HeaderValue::from_str(challenge.header())
    {
        headers.insert(WWW_AUTHENTICATE, challenge);
    }
    if error.is_retryable() {
        headers.insert(RETRY_AFTER, error.retry_after_seconds.into());
    }
    response
}
