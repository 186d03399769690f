//! gnudi's own token, and the catalogue that comes with it.
//!
//! All callers in the process share one login: while no token is valid they wait for the login request in progress.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use gnudi_http::{Answer, Bytes, HttpClient, HttpError, HttpOptions, Method, Request, StatusCode, header};
use parking_lot::Mutex;

use crate::{
    KeystoneError, KeystoneOptions, Result,
    login::{
        CATALOG_PAUSE, FAILED_PAUSE, REFUSED_PAUSE, find_endpoints, may_again, renew_after, request_body,
        v3_url,
    },
    token_document::{self, Endpoint},
};

/// A longer response is rejected: the catalogue of a large cloud has some hundred kilobytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Idle connections kept to Keystone.
const IDLE_CONNECTIONS_MAX: usize = 16;

/// The header with the caller's token.
pub const AUTH_TOKEN: &str = "x-auth-token";

/// The header with the token to validate, or with a new token.
pub const SUBJECT_TOKEN: &str = "x-subject-token";

/// A login at Keystone, made on first use and renewed before it expires. Clones share it.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    options: KeystoneOptions,
    /// Version 3, without a trailing slash.
    url: String,
    http: HttpClient,
    state: Mutex<State>,
    /// Held during a login.
    logging_in: tokio::sync::Mutex<()>,
    /// Held during a look-up of the catalogue.
    reading_catalog: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    login: Option<Login>,
    failed: Option<(Instant, KeystoneError)>,
    catalog: Option<Arc<[Endpoint]>>,
    catalog_is_doubted: bool,
    catalog_read_at: Option<Instant>,
}

struct Login {
    token: Arc<str>,
    renew_at: Instant,
}

impl State {
    fn token(&self, now: Instant) -> Option<Arc<str>> {
        self.login.as_ref().filter(|login| now < login.renew_at).map(|login| login.token.clone())
    }

    /// The error of a recent login, while no new attempt should be made.
    fn recent_failure(&self, now: Instant) -> Option<KeystoneError> {
        let (at, error) = self.failed.as_ref()?;
        let pause = match error {
            KeystoneError::Refused(_) => REFUSED_PAUSE,
            KeystoneError::InvalidOptions(_)
            | KeystoneError::Unavailable(_)
            | KeystoneError::InvalidResponse(_) => FAILED_PAUSE,
        };
        (!may_again(Some(*at), pause, now)).then(|| error.clone())
    }

    /// The catalogue, unless it should be looked up now.
    fn catalog(&self, now: Instant) -> Option<Arc<[Endpoint]>> {
        let is_due = self.catalog_is_doubted && may_again(self.catalog_read_at, CATALOG_PAUSE, now);
        self.catalog.clone().filter(|_| !is_due)
    }
}

/// Leaves out secrets.
impl std::fmt::Debug for Session {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Session").field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl Session {
    /// Loads certificates; sends nothing.
    pub fn new(options: KeystoneOptions) -> Result<Self> {
        let url = v3_url(&options.auth_url);
        let is_url = Request::get(&url).body(()).is_ok_and(|request| request.uri().host().is_some());
        if !is_url || !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(KeystoneError::InvalidOptions(
                "auth_url is not an address at http:// or https://".into(),
            ));
        }
        let client = HttpOptions {
            trust: options.trust.clone(),
            identity: options.identity.clone(),
            timeout: options.timeout,
            connect_timeout: options.timeout,
            idle_connections_max: IDLE_CONNECTIONS_MAX,
            answer_bytes_max: ANSWER_BYTES_MAX,
            ..HttpOptions::default()
        };
        let http = if url.starts_with("http://") {
            HttpClient::new_or_plain(&client)
        } else {
            HttpClient::new(&client)
        };
        let http = http.map_err(|error| KeystoneError::InvalidOptions(error.to_string()))?;
        Ok(Session(Arc::new(Inner {
            options,
            url,
            http,
            state: Mutex::default(),
            logging_in: tokio::sync::Mutex::default(),
            reading_catalog: tokio::sync::Mutex::default(),
        })))
    }

    /// A valid token. Concurrent callers share one request.
    pub async fn token(&self) -> Result<Arc<str>> {
        let shared = &*self.0;
        if let Some(token) = shared.state.lock().token(Instant::now()) {
            return Ok(token);
        }
        let _turn = shared.logging_in.lock().await;
        {
            let (state, now) = (shared.state.lock(), Instant::now());
            if let Some(token) = state.token(now) {
                return Ok(token);
            }
            if let Some(error) = state.recent_failure(now) {
                return Err(error);
            }
        }
        let outcome = self.log_in().await;
        let mut state = shared.state.lock();
        state.failed = outcome.as_ref().err().map(|error| (Instant::now(), error.clone()));
        outcome
    }

    async fn log_in(&self) -> Result<Arc<str>> {
        let shared = &*self.0;
        let asked_at = Instant::now();
        let body = request_body(&shared.options.credentials).to_string();
        let request = Request::post(format!("{}/auth/tokens", shared.url))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(Bytes::from(body))
            .map_err(|error| KeystoneError::InvalidOptions(format!("auth_url: {error}")))?;
        // Safe to repeat: an unused token just expires.
        let answer = self.send(request).await?;
        match answer.status {
            StatusCode::CREATED | StatusCode::OK => {}
            StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::BAD_REQUEST
            | StatusCode::NOT_FOUND => {
                return Err(KeystoneError::Refused(format!(
                    "{} refuses gnudi's login: {}",
                    shared.url, answer.status
                )));
            }
            status => return Err(self.unwell(status)),
        }
        let unreadable = |why: &str| KeystoneError::Unavailable(format!("{}: logging in: {why}", shared.url));
        let token: Arc<str> = match answer.header(SUBJECT_TOKEN) {
            Some(token) if !token.is_empty() => token.into(),
            _ => return Err(unreadable("an answer without a token")),
        };
        let document = token_document::login(&answer.body).map_err(|why| unreadable(&why))?;
        // Otherwise each caller would log in again.
        let lifetime = u64::try_from(document.lifetime_seconds).ok().filter(|seconds| *seconds > 0);
        let lifetime = lifetime.ok_or_else(|| unreadable("a token that has expired when it is issued"))?;
        let lifetime = Duration::from_secs(lifetime);
        let mut state = shared.state.lock();
        state.login = Some(Login { token: token.clone(), renew_at: asked_at + renew_after(lifetime) });
        if let Some(catalog) = document.catalog {
            state.catalog = Some(catalog.into());
            state.catalog_is_doubted = false;
            state.catalog_read_at = Some(Instant::now());
        }
        Ok(token)
    }

    /// Drops a token that a service has rejected with 401, unless it was renewed meanwhile.
    pub fn forget_token(&self, refused: &str) {
        let mut state = self.0.state.lock();
        if state.login.as_ref().is_some_and(|login| &*login.token == refused) {
            state.login = None;
        }
    }

    /// The URL of a service by its type (`metric`, `compute`, `volumev3` ...), without a trailing slash, from the
    /// catalogue. Cached until [`Session::forget_endpoints`]. `Ok(None)` if the catalogue does not have it.
    pub async fn endpoint(&self, service_type: &str) -> Result<Option<Arc<str>>> {
        Ok(self.endpoints(Some(service_type), None).await?.into_iter().next())
    }

    /// As [`Session::endpoint`], all of a service by its type, its name in the catalogue, or both, in the catalogue's
    /// order: without a configured region there may be one in each.
    pub async fn endpoints(&self, service_type: Option<&str>, name: Option<&str>) -> Result<Vec<Arc<str>>> {
        let catalog = self.catalog().await?;
        let options = &self.0.options;
        let region = options.region_name.as_deref();
        let found = find_endpoints(&catalog, service_type, name, options.interface, region);
        Ok(found.into_iter().map(|endpoint| endpoint.url.clone()).collect())
    }

    /// Requests a new look-up of the catalogue, because a service did not respond at its URL. The old catalogue is used
    /// until then; at most one look-up in five seconds.
    pub fn forget_endpoints(&self) {
        self.0.state.lock().catalog_is_doubted = true;
    }

    async fn catalog(&self) -> Result<Arc<[Endpoint]>> {
        let shared = &*self.0;
        if let Some(catalog) = shared.state.lock().catalog(Instant::now()) {
            return Ok(catalog);
        }
        let _turn = shared.reading_catalog.lock().await;
        // A login returns the catalogue, too, so that the first look-up needs no request of its own.
        let token = self.token().await;
        if let Some(catalog) = shared.state.lock().catalog(Instant::now()) {
            return Ok(catalog);
        }
        let read = match token {
            Ok(token) => self.read_catalog(&token).await,
            Err(error) => Err(error),
        };
        let mut state = shared.state.lock();
        state.catalog_read_at = Some(Instant::now());
        match (read, &state.catalog) {
            (Ok(catalog), _) => {
                let catalog: Arc<[Endpoint]> = catalog.into();
                state.catalog = Some(catalog.clone());
                state.catalog_is_doubted = false;
                Ok(catalog)
            }
            // The old catalogue is the best guess.
            (Err(error), Some(catalog)) => {
                tracing::warn!(%error, "the catalogue could not be fetched again; the old one is used");
                Ok(catalog.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    async fn read_catalog(&self, token: &str) -> Result<Vec<Endpoint>> {
        let url = format!("{}/auth/catalog", self.0.url);
        let answer = self.ask(&url, token, &[]).await?;
        match answer.status {
            StatusCode::OK => token_document::catalog(&answer.body)
                .map_err(|why| KeystoneError::Unavailable(format!("{url}: {why}"))),
            StatusCode::UNAUTHORIZED => {
                self.forget_token(token);
                Err(KeystoneError::Unavailable(format!("{url}: the token is refused")))
            }
            status => Err(self.unwell(status)),
        }
    }

    /// `GET url` with a token and further headers.
    pub(crate) async fn ask(&self, url: &str, token: &str, headers: &[(&str, &str)]) -> Result<Answer> {
        let mut request = Request::builder()
            .method(Method::GET)
            .uri(url)
            .header(header::ACCEPT, "application/json")
            .header(AUTH_TOKEN, token);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .body(Bytes::new())
            .map_err(|_| KeystoneError::Unavailable(format!("{url}: not a valid URL")))?;
        self.send(request).await
    }

    /// Sends an idempotent request, and retries once: a kept connection may have been closed.
    async fn send(&self, request: Request<Bytes>) -> Result<Answer> {
        let place = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        let (started_at, timeout) = (Instant::now(), self.0.options.timeout);
        let first = self.0.http.send(request.clone()).await;
        let answer = match first {
            Err(_) if started_at.elapsed() < timeout => {
                self.0.http.send_within(request, timeout.saturating_sub(started_at.elapsed())).await
            }
            answer => answer,
        };
        answer.map_err(|HttpError(why)| KeystoneError::Unavailable(format!("{place}: {why}")))
    }

    /// Keystone's version 3 URL.
    pub(crate) fn url(&self) -> &str {
        &self.0.url
    }

    pub(crate) fn unwell(&self, status: StatusCode) -> KeystoneError {
        KeystoneError::Unavailable(format!("{}: answered {status}", self.0.url))
    }
}

#[cfg(test)]
mod tests {
    use gnudi_http::Trust;

    use super::*;
    use crate::scripted::{Reply, Script, catalog, within};

    #[tokio::test]
    async fn callers_at_once_share_a_login() {
        let script = Script::start(|_| Reply::status(500)).await;
        let session = script.session();
        let asks: Vec<_> = (0..100)
            .map(|_| {
                let session = session.clone();
                tokio::spawn(async move { session.token().await.unwrap() })
            })
            .collect();
        for ask in asks {
            assert_eq!(&*ask.await.unwrap(), "own-1");
        }
        assert_eq!(script.count("login"), 1);
        assert!(script.requests()[0].body.contains("the password"));
        session.forget_token("another");
        assert_eq!(&*session.token().await.unwrap(), "own-1");
        session.forget_token("own-1");
        assert_eq!(&*session.token().await.unwrap(), "own-2");
    }

    #[tokio::test]
    async fn a_token_that_ends_is_renewed() {
        let script = Script::start_with_lifetime(1, |_| Reply::status(500)).await;
        let session = script.session();
        assert_eq!(&*session.token().await.unwrap(), "own-1");
        tokio::time::sleep(renew_after(Duration::from_secs(1))).await;
        assert_eq!(&*session.token().await.unwrap(), "own-2");
    }

    #[tokio::test]
    async fn a_token_without_a_lifetime_is_a_failure() {
        let (answers, logins) = within(FAILED_PAUSE, async || {
            let script = Script::start_with_lifetime(0, |_| Reply::status(500)).await;
            let (session, began) = (script.session(), Instant::now());
            let answers = [session.token().await, session.token().await, session.token().await];
            (began, (answers, script.count("login")))
        })
        .await;
        for answer in answers {
            assert!(matches!(answer, Err(KeystoneError::Unavailable(_))));
        }
        assert_eq!(logins, 1);
    }

    #[tokio::test]
    async fn a_failure_is_everybodys_answer_for_a_while() {
        for (status, is_refused) in [(503, false), (401, true)] {
            let (first, second, logins) = within(FAILED_PAUSE, async || {
                let script = Script::start(|_| Reply::status(500)).await;
                script.answer_all_with(status);
                let (session, began) = (script.session(), Instant::now());
                let first = session.token().await.unwrap_err();
                let second = session.token().await.unwrap_err();
                (began, (first, second, script.count("login")))
            })
            .await;
            assert_eq!(matches!(first, KeystoneError::Refused(_)), is_refused);
            assert_eq!(second, first);
            assert_eq!(logins, 1);
            assert!(!first.to_string().contains("the password"));
        }
    }

    #[tokio::test]
    async fn an_endpoint_is_looked_up_once_and_again_when_it_fails() {
        let script = Script::start(|_| Reply::ok(format!(r#"{{"catalog": {}}}"#, catalog(2)))).await;
        let session = script.session();
        let own = format!("http://127.0.0.1:{}", script.port);
        for _ in 0..3 {
            assert_eq!(session.endpoint("identity").await.unwrap().as_deref(), Some(own.as_str()));
            assert_eq!(session.endpoint("metric").await.unwrap(), None);
        }
        assert_eq!((script.count("login"), script.count("catalog")), (1, 0), "it came with the login");
        session.forget_endpoints();
        assert_eq!(session.endpoint("identity").await.unwrap().as_deref(), Some(own.as_str()));
        assert_eq!(script.count("catalog"), 0, "not so soon");
        session.0.state.lock().catalog_read_at = None;
        assert_eq!(session.endpoint("identity").await.unwrap().as_deref(), Some("http://127.0.0.1:2"));
        session.endpoint("identity").await.unwrap();
        assert_eq!(script.count("catalog"), 1);
        session.forget_endpoints();
        session.0.state.lock().catalog_read_at = None;
        script.answer_all_with(503);
        let found = session.endpoint("identity").await.unwrap();
        assert_eq!(found.as_deref(), Some("http://127.0.0.1:2"), "the old one counts");
        assert_eq!(script.count("catalog"), 2);
        session.endpoint("identity").await.unwrap();
        assert_eq!(script.count("catalog"), 2, "failed look-ups have a pause between them");
    }

    #[tokio::test]
    async fn bad_addresses_are_refused_at_once() {
        let script = Script::start(|_| Reply::status(500)).await;
        for auth_url in ["", "keystone", "ftp://h", "http://", "http://a b"] {
            let options = KeystoneOptions { auth_url: auth_url.into(), ..script.options() };
            assert!(matches!(Session::new(options), Err(KeystoneError::InvalidOptions(_))), "{auth_url}");
        }
        let trust = Trust::File("/nonexistent.pem".into());
        let error = Session::new(KeystoneOptions { trust, ..script.options() }).unwrap_err().to_string();
        assert!(error.contains("/nonexistent.pem"), "{error}");
    }
}
