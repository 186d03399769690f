//! Authenticated requests to a cloud's services.
//!
//! The number of concurrent requests is limited, so that no service is flooded. There are no retries: a failed request
//! is repeated in the next round.

use std::{collections::HashSet, sync::Arc, time::Duration};

use gnudi_http::{Answer, Bytes, HttpClient, HttpOptions, Method, Request, StatusCode, Uri};
use gnudi_keystone::{KeystoneError, KeystoneOptions, Session};
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::messaging::surrogates::parse;

/// Maximum number of pages, against endless lists.
const PAGES_MAX: usize = 10_000;

/// How often a list is read whose later pages are refused.
const LIST_TRIES_MAX: u32 = 3;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloudError {
    /// No token, or no catalogue.
    #[error(transparent)]
    Login(#[from] KeystoneError),
    /// The catalogue has no such service.
    #[error("the catalogue has no service {0}")]
    NoService(String),
    /// It responded with this status.
    #[error("{url}: {text}")]
    Refused { url: String, status: u16, text: String },
    #[error("{0}")]
    Failed(String),
}

/// Clones share the limit.
#[derive(Clone, Debug)]
pub struct Cloud {
    http: HttpClient,
    session: Session,
    places: Arc<Semaphore>,
    timeout: Duration,
}

/// Headers of a request.
pub type Headers<'a> = &'a [(&'a str, &'a str)];

impl Cloud {
    /// Logs in as `keystone` says; its trust, client certificate and timeout are those of requests to services, too. Loads
    /// certificates; sends nothing. `requests_max`: concurrent requests to all services together.
    pub fn new(keystone: KeystoneOptions, requests_max: usize) -> Result<Self, KeystoneError> {
        let timeout = keystone.timeout;
        let http = HttpClient::new_or_plain(&HttpOptions {
            trust: keystone.trust.clone(),
            identity: keystone.identity.clone(),
            timeout,
            ..HttpOptions::default()
        })
        .map_err(|error| KeystoneError::InvalidOptions(error.to_string()))?;
        let places = Arc::new(Semaphore::new(requests_max.clamp(1, Semaphore::MAX_PERMITS)));
        Ok(Cloud { http, session: Session::new(keystone)?, places, timeout })
    }

    /// A service's URL in the catalogue, without a trailing slash.
    pub async fn endpoint(&self, service: &str) -> Result<Arc<str>, CloudError> {
        self.endpoint_named(Some(service), None).await
    }

    /// The URL of a service by its type, its name, or both.
    pub async fn endpoint_named(
        &self,
        service: Option<&str>,
        name: Option<&str>,
    ) -> Result<Arc<str>, CloudError> {
        Ok(self.endpoints(service, name).await?.swap_remove(0))
    }

    /// All URLs of a service by its type, its name, or both; at least one. A service that is missing is looked up anew
    /// the next time: it may be registered later than this agent is started.
    pub async fn endpoints(
        &self,
        service: Option<&str>,
        name: Option<&str>,
    ) -> Result<Vec<Arc<str>>, CloudError> {
        let endpoints = self.session.endpoints(service, name).await?;
        if endpoints.is_empty() {
            self.session.forget_endpoints();
            return Err(CloudError::NoService(service.or(name).unwrap_or_default().to_owned()));
        }
        Ok(endpoints)
    }

    /// Waits for a permit to send a request; the permit is released on drop.
    pub async fn place(&self) -> SemaphorePermit<'_> {
        self.places.acquire().await.expect("it is never closed")
    }

    /// The URL with the API version appended if the catalogue leaves it out.
    pub async fn versioned(&self, service: &str, version: &str) -> Result<String, CloudError> {
        let endpoint = self.endpoint(service).await?;
        Ok(if has_version(&endpoint) { endpoint.to_string() } else { format!("{endpoint}/{version}") })
    }

    /// Like [`Cloud::get`], for the headers alone.
    pub async fn head(&self, url: &str) -> Result<Answer, CloudError> {
        self.exchange(&Method::HEAD, url, &[], &Bytes::new(), self.timeout).await
    }

    /// A successful response to the agent's token. A rejected token is renewed once.
    pub async fn get(
        &self,
        url: &str,
        headers: Headers<'_>,
        timeout: Duration,
    ) -> Result<Answer, CloudError> {
        self.exchange(&Method::GET, url, headers, &Bytes::new(), timeout).await
    }

    /// Posts a body; its type is among the headers.
    pub async fn post(&self, url: &str, headers: Headers<'_>, body: &Bytes) -> Result<Answer, CloudError> {
        self.exchange(&Method::POST, url, headers, body, self.timeout).await
    }

    async fn exchange(
        &self,
        method: &Method,
        url: &str,
        headers: Headers<'_>,
        body: &Bytes,
        timeout: Duration,
    ) -> Result<Answer, CloudError> {
        let failed = |error: String| CloudError::Failed(format!("{url}: {error}"));
        let _place = self.place().await;
        let mut is_renewed = false;
        loop {
            let token = self.session.token().await?;
            let mut request = Request::builder().method(method).uri(url);
            for (name, value) in all_headers(&token, headers) {
                request = request.header(name, value);
            }
            let request = request.body(body.clone()).map_err(|error| failed(error.to_string()))?;
            let answer = self.http.send_within(request, timeout).await.map_err(|error| {
                // The service may have moved.
                self.session.forget_endpoints();
                failed(error.to_string())
            })?;
            if answer.status == StatusCode::UNAUTHORIZED && !std::mem::replace(&mut is_renewed, true) {
                self.session.forget_token(&token);
                continue;
            }
            if answer.status.is_success() {
                return Ok(answer);
            }
            let (status, text) = (answer.status.as_u16(), answer.text());
            if status >= 502 {
                // It may have moved; a proxy at its old address still answers.
                self.session.forget_endpoints();
            }
            return Err(CloudError::Refused { url: url.to_owned(), status, text });
        }
    }

    pub async fn get_json(&self, url: &str, headers: Headers<'_>) -> Result<Value, CloudError> {
        let answer = self.get(url, headers, self.timeout).await?;
        parse(&answer.body).map_err(|error| CloudError::Failed(format!("{url}: {error}")))
    }

    /// All items of a paginated list. A link back to a page that was read ends it.
    ///
    /// Services refuse a page whose link names an item that was deleted meanwhile: then the list is read again. That is
    /// never `Refused`, which says that there is no such list.
    pub async fn list(&self, url: &str, key: &str, headers: Headers<'_>) -> Result<Vec<Value>, CloudError> {
        let mut tries = 1;
        loop {
            let mut items = Vec::new();
            match self.add_pages(&mut items, url, key, headers).await {
                Ok(()) => return Ok(items),
                Err(error @ CloudError::Refused { .. }) if !items.is_empty() => {
                    // The page's first item was deleted: Cinder and Glance answer 404, Nova 400.
                    let is_lost = matches!(error, CloudError::Refused { status: 400 | 404, .. });
                    if tries >= LIST_TRIES_MAX || !is_lost {
                        return Err(CloudError::Failed(error.to_string()));
                    }
                    tries += 1;
                    tracing::debug!(%error, "a page of a list is gone: the list is read again");
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn add_pages(
        &self,
        items: &mut Vec<Value>,
        url: &str,
        key: &str,
        headers: Headers<'_>,
    ) -> Result<(), CloudError> {
        let mut page_url = url.to_owned();
        let mut asked = HashSet::from([page_url.clone()]);
        for _ in 0..PAGES_MAX {
            let mut page = self.get_json(&page_url, headers).await?;
            let next = next_page(&page, key).map(str::to_owned);
            let list = page.get_mut(key).and_then(Value::as_array_mut).map(std::mem::take);
            let list = list.ok_or_else(|| CloudError::Failed(format!("{page_url}: no list {key}")))?;
            let is_empty = list.is_empty();
            items.extend(list);
            let next = next.filter(|_| !is_empty).and_then(|next| same_origin(&page_url, &next));
            match next.filter(|next| asked.insert(next.clone())) {
                Some(next) => page_url = next,
                None => return Ok(()),
            }
        }
        Err(CloudError::Failed(format!("{url}: a list without an end")))
    }
}

/// The headers of a request, each once: the agent's token, the caller's headers, and the usual ones that these lack.
fn all_headers<'a>(token: &'a str, headers: Headers<'a>) -> Vec<(&'a str, &'a str)> {
    let usual = [("accept", "application/json"), ("user-agent", "gnudi")];
    let mut all = vec![("x-auth-token", token)];
    for &(name, value) in headers.iter().chain(&usual) {
        if all.iter().all(|(known, _)| !known.eq_ignore_ascii_case(name)) {
            all.push((name, value));
        }
    }
    all
}

fn has_version(endpoint: &str) -> bool {
    let path = endpoint.parse::<Uri>().map(|uri| uri.path().to_owned()).unwrap_or_default();
    path.split('/').any(is_version)
}

/// `v3`, `v2.0`
fn is_version(part: &str) -> bool {
    let digits = part.strip_prefix('v').unwrap_or_default();
    digits.starts_with(|first: char| first.is_ascii_digit())
        && digits.chars().all(|letter| letter.is_ascii_digit() || letter == '.')
}

/// The link to the next page, in the services' forms: `KEY_links` with `rel`, `next`, or `links.next`.
fn next_page<'a>(page: &'a Value, key: &str) -> Option<&'a str> {
    let links = page.get(format!("{key}_links")).and_then(Value::as_array);
    let next = links.into_iter().flatten().find(|link| link.get("rel").is_some_and(|rel| rel == "next"));
    next.and_then(|link| link.get("href"))
        .or_else(|| page.get("next"))
        .or_else(|| page.pointer("/links/next"))?
        .as_str()
        .filter(|next| !next.is_empty())
}

/// A link's path on the requested origin. Services behind a proxy do not know their public name, nor (Glance) their
/// path prefix, and the token must go nowhere else.
pub(super) fn same_origin(asked: &str, link: &str) -> Option<String> {
    let asked: Uri = asked.parse().ok()?;
    let link: Uri = link.parse().ok()?;
    let target = link.path_and_query()?;
    let below = path_before(asked.path(), link.path());
    Some(format!("{}://{}{below}{target}", asked.scheme_str()?, asked.authority()?))
}

/// The path prefix missing in a link: `/image` for `/image/v2/images` and the link `/v2/images`; empty if nothing is
/// missing or the paths differ.
fn path_before<'a>(asked: &'a str, link: &str) -> &'a str {
    let version = link.split('/').nth(1).filter(|part| is_version(part));
    let at = version.and_then(|version| asked.find(&format!("/{version}/")));
    at.map_or("", |at| &asked[..at])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn next_pages_are_found_as_services_write_them() {
        let next = |page: Value| next_page(&page, "volumes").map(str::to_owned);
        assert_eq!(next(json!({"volumes": []})), None);
        let links = json!([{"rel": "self", "href": "/a"}, {"rel": "next", "href": "/b"}]);
        assert_eq!(next(json!({ "volumes_links": links })).as_deref(), Some("/b"));
        assert_eq!(next(json!({"next": "/v2/images?marker=1"})).as_deref(), Some("/v2/images?marker=1"));
        assert_eq!(next(json!({"links": {"self": "/x", "next": "/y"}})).as_deref(), Some("/y"));
        assert_eq!(next(json!({"next": null})), None);
    }

    #[test]
    fn links_stay_where_the_service_is() {
        let to = |link| same_origin("https://a:1/v3/volumes?x=1", link).unwrap();
        assert_eq!(to("/v3/volumes?marker=2"), "https://a:1/v3/volumes?marker=2");
        assert_eq!(to("http://elsewhere/v3/volumes?marker=2"), "https://a:1/v3/volumes?marker=2");
        let to = |link| same_origin("https://a/image/v2/images", link).unwrap();
        assert_eq!(to("/v2/images?marker=2"), "https://a/image/v2/images?marker=2");
        assert_eq!(to("http://elsewhere:9292/v2/images?marker=2"), "https://a/image/v2/images?marker=2");
        assert_eq!(to("/image/v2/images?marker=2"), "https://a/image/v2/images?marker=2");
        assert_eq!(to("/other?marker=2"), "https://a/other?marker=2");
    }

    #[test]
    fn headers_of_the_caller_replace_the_usual_ones() {
        let headers = [("Accept", "application/xml"), ("X-Auth-Token", "another"), ("x-more", "1")];
        let all =
            [("x-auth-token", "t"), ("Accept", "application/xml"), ("x-more", "1"), ("user-agent", "gnudi")];
        assert_eq!(all_headers("t", &headers), all);
        let usual = [("x-auth-token", "t"), ("accept", "application/json"), ("user-agent", "gnudi")];
        assert_eq!(all_headers("t", &[]), usual);
    }

    #[test]
    fn versions_are_added_where_they_lack() {
        for (endpoint, has) in [
            ("http://a:9292", false),
            ("http://a/image", false),
            ("http://a/volume/v3/0123", true),
            ("http://v1.example/x", false),
            ("http://a:9696/v2.0", true),
        ] {
            assert_eq!(has_version(endpoint), has, "{endpoint}");
        }
    }
}
