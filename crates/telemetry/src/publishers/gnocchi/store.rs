//! Sends requests to the store, with authentication and retries.
//!
//! If the store does not respond, is not available (408, 429, 5xx), rejects our credentials (401) or is elsewhere (3xx), the
//! request is retried without limit, with increasing pauses up to a maximum. The caller keeps what it posts, so nothing is
//! lost.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use bytes::Bytes;
use gnudi_http::{Answer, HttpClient, HttpOptions, Method, Request, Trust, basic_authorization, header};
use serde_json::Value;

use super::{
    GnocchiError, Result,
    figures::GnocchiFigures,
    options::{GnocchiOptions, StoreAccess},
};

const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Maximum `Retry-After` that is honoured.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(1);

/// 500 responses to a request, each after another request has succeeded, after which the request counts as bad; to a
/// batch of measures, in total.
pub const ERRORS_500_MAX: u32 = 5;

const BATCH_PATH: &str = "/v1/batch/resources/metrics/measures?create_metrics=True";

/// A request that the store rejects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

impl StoreError {
    pub fn refused(what: &str, answer: &Answer) -> Self {
        StoreError(format!("{what}: {}", answer.text()))
    }
}

#[derive(Debug)]
pub struct Store {
    http: HttpClient,
    access: StoreAccess,
    endpoint: Option<String>,
    figures: GnocchiFigures,
    is_away: AtomicBool,
    /// Successful requests so far, to tell a failing store from a bad request.
    answered: AtomicU64,
    /// Batches of measures that were stored so far.
    stored: AtomicU64,
}

impl Store {
    /// Loads certificates; sends nothing.
    pub fn new(options: &GnocchiOptions, timeout: Duration, figures: GnocchiFigures) -> Result<Self> {
        let endpoint = options.endpoint.as_deref().map(|endpoint| endpoint.trim_end_matches('/').to_owned());
        if endpoint.is_none() && !matches!(options.access, StoreAccess::Keystone(_)) {
            return Err(GnocchiError::Options("[gnocchi] endpoint is needed without Keystone".to_owned()));
        }
        if let Some(endpoint) = endpoint.as_deref()
            && !["http://", "https://"].iter().any(|scheme| endpoint.starts_with(scheme))
        {
            return Err(GnocchiError::Options(format!(
                "[gnocchi] endpoint = {endpoint}: not http:// or https://"
            )));
        }
        let is_plain = endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"));
        let trust = if is_plain { Trust::Anyone } else { options.trust.clone() };
        let client = HttpOptions {
            trust,
            identity: options.identity.clone().filter(|_| !is_plain),
            timeout,
            connect_timeout: timeout,
            ..HttpOptions::default()
        };
        // The endpoint in the catalogue may be a plain one.
        let http = match &endpoint {
            None => HttpClient::new_or_plain(&client),
            Some(_) => HttpClient::new(&client),
        };
        let http = http.map_err(|error| GnocchiError::Options(error.to_string()))?;
        Ok(Store {
            http,
            access: options.access.clone(),
            endpoint,
            figures,
            is_away: AtomicBool::new(false),
            answered: AtomicU64::new(0),
            stored: AtomicU64::new(0),
        })
    }

    pub fn figures(&self) -> &GnocchiFigures {
        &self.figures
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "", Bytes::new(), ERRORS_500_MAX).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, "application/json", body.to_string().into(), ERRORS_500_MAX).await
    }

    /// Posts measures. Unlike other requests, it ends with `errors_500_max` 500s even if nothing else succeeds: the caller
    /// finds out by parts whether the store fails, or one of the measures causes them.
    pub async fn post_batch(&self, body: Bytes, errors_500_max: u32) -> Answer {
        let answer = self.send(Method::POST, BATCH_PATH, "application/json", body, errors_500_max).await;
        if answer.status.is_success() {
            self.stored.fetch_add(1, Ordering::Relaxed);
        } else if answer.status.as_u16() == 404 {
            // Only a proxy without a store answers so.
            self.doubt_endpoint();
        }
        answer
    }

    pub async fn patch(&self, path: &str, content_type: &str, body: &Value) -> Answer {
        self.send(Method::PATCH, path, content_type, body.to_string().into(), ERRORS_500_MAX).await
    }

    /// Number of batches of measures that were stored so far.
    pub fn stored(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }

    /// Sends a request until there is a response that concerns the request itself: 2xx, 4xx except 401, 408 and 429, or
    /// 500s between which other requests succeed. Redirects are a proxy's: to https, a log-in or a page for maintenance. So is
    /// a 404 or 405 without the store's document, unless it is a 404 for a batch: its caller decides.
    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
        errors_500_max: u32,
    ) -> Answer {
        let mut pause = PAUSE_MIN;
        let (mut errors_500, mut has_renewed) = (0, false);
        let is_batch = path == BATCH_PATH;
        let mut answered = self.answered.load(Ordering::Relaxed);
        loop {
            let token = match self.authorization().await {
                Ok(token) => token,
                Err(why) => {
                    self.wait(&why, pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                    continue;
                }
            };
            let why = match self.exchange(&method, path, content_type, &body, &token).await {
                Err(why) => {
                    self.doubt_endpoint();
                    why
                }
                Ok(answer) => {
                    let status = answer.status.as_u16();
                    match status {
                        401 => {
                            if let StoreAccess::Keystone(session) = &self.access {
                                session.forget_token(&token.value);
                                if !std::mem::replace(&mut has_renewed, true) {
                                    continue;
                                }
                            }
                        }
                        408 | 429 | 501 => {}
                        300..=399 | 502.. => self.doubt_endpoint(),
                        404 | 405 if (status == 405 || !is_batch) && !is_of_store(&answer) => {
                            self.doubt_endpoint();
                        }
                        500 => {
                            let before =
                                std::mem::replace(&mut answered, self.answered.load(Ordering::Relaxed));
                            errors_500 += u32::from(is_batch || answered > before);
                            if errors_500 >= errors_500_max {
                                return answer;
                            }
                        }
                        _ => {
                            self.recovered(status < 300);
                            return answer;
                        }
                    }
                    if let Some(after) = retry_after(&answer) {
                        pause = after;
                    }
                    format!("{method} {path}: {}", answer.text())
                }
            };
            self.wait(&why, pause).await;
            pause = (pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        }
    }

    /// The store may have moved; a proxy at its old address still answers.
    fn doubt_endpoint(&self) {
        if let (StoreAccess::Keystone(session), None) = (&self.access, &self.endpoint) {
            session.forget_endpoints();
        }
    }

    fn recovered(&self, is_well: bool) {
        if is_well {
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
        if self.is_away.swap(false, Ordering::Relaxed) {
            tracing::info!("the store answers again");
        }
    }

    async fn wait(&self, why: &str, pause: Duration) {
        self.figures.retries.inc();
        if self.is_away.swap(true, Ordering::Relaxed) {
            tracing::debug!("{why}");
        } else {
            tracing::warn!("the store accepts nothing; retrying until it does: {why}");
        }
        tokio::time::sleep(pause).await;
    }

    async fn exchange(
        &self,
        method: &Method,
        path: &str,
        content_type: &str,
        body: &Bytes,
        token: &AuthHeader,
    ) -> Result<Answer, String> {
        let mut request = Request::builder()
            .method(method.clone())
            .uri(format!("{}{path}", token.endpoint))
            .header(header::ACCEPT, "application/json");
        for (name, value) in &token.headers {
            request = request.header(*name, value);
        }
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let request = request.body(body.clone()).map_err(|error| format!("{method} {path}: {error}"))?;
        self.http.send(request).await.map_err(|error| format!("{method} {path}: {error}"))
    }

    /// Authentication headers and the store's URL.
    async fn authorization(&self) -> Result<AuthHeader, String> {
        let mut value = String::new();
        let headers = match &self.access {
            StoreAccess::Noauth { user_id, project_id, roles } => Vec::from(
                [("X-User-Id", user_id), ("X-Project-Id", project_id), ("X-Roles", roles)]
                    .map(|(name, value)| (name, value.clone())),
            ),
            StoreAccess::Basic { user, password } => {
                let basic = basic_authorization(user, password.reveal());
                vec![("Authorization", basic.to_str().expect("base64 is ASCII").to_owned())]
            }
            StoreAccess::Keystone(session) => {
                value = session.token().await.map_err(|error| error.to_string())?.to_string();
                vec![("X-Auth-Token", value.clone())]
            }
        };
        Ok(AuthHeader { endpoint: self.endpoint().await?, headers, value })
    }

    async fn endpoint(&self) -> Result<String, String> {
        let (None, StoreAccess::Keystone(session)) = (&self.endpoint, &self.access) else {
            return Ok(self.endpoint.clone().unwrap_or_default());
        };
        let endpoint = session.endpoint("metric").await.map_err(|error| error.to_string())?;
        let nowhere = || {
            session.forget_endpoints();
            "Keystone's catalogue has no service of type metric".to_owned()
        };
        Ok(endpoint.ok_or_else(nowhere)?.to_string())
    }
}

/// The authentication header.
struct AuthHeader {
    endpoint: String,
    headers: Vec<(&'static str, String)>,
    /// Empty without Keystone.
    value: String,
}

/// Whether the document of an error is the store's: JSON with the status.
fn is_of_store(answer: &Answer) -> bool {
    let document: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    document["code"] == answer.status.as_u16()
}

fn retry_after(answer: &Answer) -> Option<Duration> {
    // A store that asks for no pause is not asked again at once.
    Some(answer.retry_after()?.clamp(PAUSE_MIN, RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use gnudi_http::StatusCode;

    use super::*;

    #[test]
    fn pauses_that_the_store_asks_for_have_bounds() {
        let asked = |text: &'static str| {
            let value = header::HeaderValue::from_static(text);
            let headers = std::iter::once((header::RETRY_AFTER, value)).collect();
            retry_after(&Answer { status: StatusCode::SERVICE_UNAVAILABLE, headers, body: Bytes::new() })
        };
        assert_eq!(asked("0"), Some(PAUSE_MIN));
        assert_eq!(asked(" 7"), Some(Duration::from_secs(7)));
        assert_eq!(asked("86400"), Some(RETRY_AFTER_MAX));
        assert_eq!(asked("Wed, 21 Oct 2026 07:28:00 GMT"), None);
    }
}
