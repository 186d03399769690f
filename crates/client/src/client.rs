//! A client of one server: a connection pool, and requests with their responses.

use std::time::Duration;

use bytes::Bytes;
use gnudi_http::{
    Answer, ClientIdentity, HeaderMap, HttpClient, HttpOptions, Request, Trust, TrustError, Uri,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, LINK},
};
use gnudi_model::Secret;
use serde::de::DeserializeOwned;

use crate::{
    Result,
    error::{ClientError, Refused},
    non_finite,
};

/// Options of a client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Sent with basic authentication; `None` sends no `Authorization`.
    pub user: Option<String>,
    /// The user's password, which Gnocchi's server ignores.
    pub password: Secret,
    /// A Keystone token, sent as `X-Auth-Token` instead of user and password.
    pub token: Option<Secret>,
    /// Identity headers instead of user, password and token: trusted by servers without authentication (`auth_mode =
    /// noauth`) and by those behind a proxy.
    pub asserted: Option<AssertedIdentity>,
    /// Trusted authorities for https://.
    pub trust: Trust,
    /// Client certificate for https:// servers that ask for one.
    pub certificate: Option<ClientIdentity>,
    /// Timeout from the start of a call to the last byte of its response.
    pub timeout: Duration,
    /// Idle connections kept for later calls.
    pub idle_connections_max: usize,
    /// A longer response is an error.
    pub answer_bytes_max: usize,
}

/// `X-User-Id`, `X-Project-Id` and `X-Roles`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssertedIdentity {
    pub user_id: String,
    pub project_id: String,
    /// Comma separated.
    pub roles: String,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            user: Some("admin".to_owned()),
            password: Secret::default(),
            token: None,
            asserted: None,
            trust: Trust::default(),
            certificate: None,
            timeout: Duration::from_mins(1),
            idle_connections_max: 32,
            answer_bytes_max: 256 << 20,
        }
    }
}

/// A client of one server. Clones share the connection pool.
#[derive(Clone, Debug)]
pub struct Client {
    http: HttpClient,
    /// `http://host:port/prefix`, without a trailing slash.
    base: String,
    /// The headers with the caller's identity.
    identity: Vec<(HeaderName, HeaderValue)>,
}

/// A page of a listing, in JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPage {
    pub value: serde_json::Value,
    /// The query string, without `?`, of the next page; `None`: there is none.
    pub next_query: Option<String>,
}

/// A request, with its name in errors.
struct Call {
    method: &'static str,
    path: String,
    body: Option<Bytes>,
}

impl Client {
    /// A client of the server at `base_url`, such as `http://127.0.0.1:8041` or `https://host/gnocchi`. Connects with
    /// the first call. Fails with `InvalidOptions` only.
    pub fn new(base_url: &str, options: &ClientOptions) -> Result<Self> {
        // A password would be in messages and logs, but not in requests.
        if let Some((_, place)) = base_url.rsplit_once('@') {
            return Err(ClientError::InvalidOptions(format!(
                "{place}: a user and a password cannot be part of a base URL"
            )));
        }
        let invalid = |why: &str| ClientError::InvalidOptions(format!("{base_url}: {why}"));
        let uri: Uri = base_url.parse().map_err(|_| invalid("not a URL"))?;
        // Do not load certificates that are not needed.
        let (trust, certificate) = match uri.scheme_str() {
            Some("http") => (&Trust::Anyone, None),
            Some("https") => (&options.trust, options.certificate.clone()),
            _ => return Err(invalid("the scheme must be http or https")),
        };
        if uri.host().is_none_or(str::is_empty) {
            return Err(invalid("no host"));
        }
        if uri.query().is_some() {
            return Err(invalid("a query string cannot be part of a base URL"));
        }
        // As in the address of a browser that shows the page; the parser drops it.
        if base_url.contains('#') {
            return Err(invalid("a fragment (# and what follows) cannot be part of a base URL"));
        }
        let identity = options.identity()?;
        let http = HttpClient::new(&HttpOptions {
            trust: trust.clone(),
            identity: certificate,
            timeout: options.timeout,
            connect_timeout: options.timeout,
            idle_connections_max: options.idle_connections_max,
            answer_bytes_max: options.answer_bytes_max,
            ..HttpOptions::default()
        })
        .map_err(|TrustError(text)| ClientError::InvalidOptions(text))?;
        Ok(Client { http, base: base_url.trim_end_matches('/').to_owned(), identity })
    }

    /// The server's URL without a trailing slash.
    pub fn base_url(&self) -> &str {
        &self.base
    }

    /// GET of a path below the base URL, such as `/v1/metric?limit=7`, with any JSON as the response. Path and query
    /// must be escaped ([`crate::uri`]).
    pub async fn get_json(&self, path: String) -> Result<serde_json::Value> {
        self.get(path).await
    }

    /// GET of a listing, with the next page from the header `Link`.
    pub async fn get_json_page(&self, path: String) -> Result<JsonPage> {
        self.page_of(Call { method: "GET", path, body: None }, decode).await
    }

    /// As [`Client::get_json_page`], by POST, for searches. Without a body the query string holds all parameters.
    pub async fn post_json_page(&self, path: String, body: Option<Bytes>) -> Result<JsonPage> {
        self.page_of(Call { method: "POST", path, body }, decode).await
    }

    /// As [`Client::post_json_page`], for responses with numbers that JSON cannot represent: `NaN` and infinities
    /// become texts.
    pub async fn post_series_page(&self, path: String, body: Bytes) -> Result<JsonPage> {
        let call = Call { method: "POST", path, body: Some(body) };
        self.page_of(call, |body| decode(&non_finite::quoted(body))).await
    }

    async fn page_of(
        &self,
        call: Call,
        read: impl FnOnce(&[u8]) -> Result<serde_json::Value, String>,
    ) -> Result<JsonPage> {
        let answer = self.answer(&call).await?;
        let value = read(&answer.body).map_err(|reason| call.unexpected(reason))?;
        Ok(JsonPage { value, next_query: next_query(&answer.headers) })
    }

    /// Sends a modifying request (POST, PATCH or DELETE), with or without a JSON body; returns the response body. A
    /// patch of a resource type has the content type of a JSON patch.
    pub async fn send_json(&self, method: &str, path: String, body: Option<Bytes>) -> Result<Bytes> {
        let Some(method) = ["POST", "PATCH", "DELETE"].into_iter().find(|known| *known == method) else {
            return Err(ClientError::InvalidOptions(format!("{method} changes nothing")));
        };
        self.send(&Call { method, path, body }).await
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: String) -> Result<T> {
        self.get_with(path, decode).await
    }

    /// GET with a custom parser of the response.
    pub(crate) async fn get_with<T>(
        &self,
        path: String,
        read: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<T> {
        let call = Call { method: "GET", path, body: None };
        let body = self.send(&call).await?;
        read(&body).map_err(|reason| call.unexpected(reason))
    }

    pub(crate) async fn post<T: DeserializeOwned>(&self, path: String, body: Vec<u8>) -> Result<T> {
        let call = Call { method: "POST", path, body: Some(body.into()) };
        let body = self.send(&call).await?;
        decode(&body).map_err(|reason| call.unexpected(reason))
    }

    /// POST whose response body is ignored.
    pub(crate) async fn post_only(&self, path: String, body: Vec<u8>) -> Result<()> {
        self.send(&Call { method: "POST", path, body: Some(body.into()) }).await.map(drop)
    }

    async fn send(&self, call: &Call) -> Result<Bytes> {
        self.answer(call).await.map(|answer| answer.body)
    }

    async fn answer(&self, call: &Call) -> Result<Answer> {
        let answer = self.http.send(self.request(call)?).await;
        let answer = answer.map_err(|error| call.no_answer(error.to_string()))?;
        if answer.status.is_success() {
            return Ok(answer);
        }
        // The body of a redirect, if there is one, is a page for people.
        let location = answer.header("location").filter(|_| answer.status.is_redirection());
        let message =
            location.map_or_else(|| message_of(&answer.body), |location| format!("redirected to {location}"));
        Err(ClientError::Refused {
            method: call.method,
            path: call.path.clone(),
            refused: Refused { status: answer.status.as_u16(), message, retry_after: answer.retry_after() },
        })
    }

    fn request(&self, call: &Call) -> Result<Request<Bytes>> {
        let mut request = Request::builder()
            .method(call.method)
            .uri(format!("{}{}", self.base, call.path))
            .header(ACCEPT, "application/json");
        for (name, value) in &self.identity {
            request = request.header(name, value);
        }
        if call.body.is_some() {
            request = request.header(CONTENT_TYPE, call.content_type());
        }
        request
            .body(call.body.clone().unwrap_or_default())
            .map_err(|error| ClientError::InvalidOptions(format!("{}{}: {error}", self.base, call.path)))
    }
}

impl Call {
    fn content_type(&self) -> &'static str {
        let is_type = self.path.starts_with("/v1/resource_type/");
        if self.method == "PATCH" && is_type { "application/json-patch+json" } else { "application/json" }
    }

    fn no_answer(&self, reason: String) -> ClientError {
        ClientError::NoAnswer { method: self.method, path: self.path.clone(), reason }
    }

    fn unexpected(&self, reason: String) -> ClientError {
        ClientError::UnexpectedAnswer { method: self.method, path: self.path.clone(), reason }
    }
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

impl ClientOptions {
    /// The headers with the caller's identity; none without one. Fails with `InvalidOptions` only.
    pub fn identity(&self) -> Result<Vec<(HeaderName, HeaderValue)>> {
        if let Some(AssertedIdentity { user_id, project_id, roles }) = &self.asserted {
            return [("x-user-id", user_id), ("x-project-id", project_id), ("x-roles", roles)]
                .into_iter()
                .map(|(name, text)| Ok((HeaderName::from_static(name), asserted_value(name, text)?)))
                .collect();
        }
        if let Some(token) = &self.token {
            return Ok(vec![(HeaderName::from_static("x-auth-token"), token_value(token.reveal())?)]);
        }
        let Some(user) = &self.user else { return Ok(Vec::new()) };
        Ok(vec![(AUTHORIZATION, basic_authorization(user, self.password.reveal())?)])
    }
}

fn asserted_value(name: &str, text: &str) -> Result<HeaderValue> {
    HeaderValue::from_str(text)
        .map_err(|_| ClientError::InvalidOptions(format!("{text:?} cannot be sent as {name}")))
}

/// A token as a header value, hidden from debug output.
fn token_value(token: &str) -> Result<HeaderValue> {
    let invalid = || ClientError::InvalidOptions("the token holds more than a token".to_owned());
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(invalid());
    }
    let mut value = HeaderValue::from_str(token).map_err(|_| invalid())?;
    value.set_sensitive(true);
    Ok(value)
}

fn basic_authorization(user: &str, password: &str) -> Result<HeaderValue> {
    if user.contains(':') || user.chars().any(char::is_control) {
        return Err(ClientError::InvalidOptions(format!("{user:?}: not a user's name")));
    }
    Ok(gnudi_http::basic_authorization(user, password))
}

/// The query string of the next page in a header `Link`: `<http://h/v1/metric?marker=m>; rel="next"`.
fn next_query(headers: &HeaderMap) -> Option<String> {
    headers.get_all(LINK).iter().filter_map(|link| link.to_str().ok()).find_map(|link| {
        let (url, rest) = link.trim().strip_prefix('<')?.split_once('>')?;
        let (_, query) = url.split_once('?')?;
        rest.contains("rel=\"next\"").then(|| query.to_owned())
    })
}

/// The text of an error response: Gnocchi's errors are `{"code": ..., "title": ..., "description": ...}`; a description
/// that is an object (`{"cause": ..., "detail": ...}`) is kept as JSON.
pub fn message_of(body: &[u8]) -> String {
    const MESSAGE_CHARS_MAX: usize = 2000;
    let description = serde_json::from_slice::<serde_json::Value>(body).ok().and_then(|value| {
        match value.get("description")? {
            serde_json::Value::String(text) => Some(text.clone()),
            serde_json::Value::Null => None,
            other => Some(other.to_string()),
        }
    });
    let text = description.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    text.trim().chars().take(MESSAGE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_unusable_urls_and_names() {
        for url in [
            "",
            "127.0.0.1:8041",
            "https://",
            "http://",
            "http://h/?a=b",
            "http://h/#/",
            "ftp://h",
            "http://h h",
        ] {
            assert!(Client::new(url, &ClientOptions::default()).is_err(), "{url}");
        }
        let error = Client::new("http://u:hunter2@h:1", &ClientOptions::default()).unwrap_err().to_string();
        assert!(error.starts_with("h:1: a user and a password") && !error.contains("hunter2"), "{error}");
        let options = ClientOptions { user: Some("a:b".to_owned()), ..ClientOptions::default() };
        assert!(Client::new("http://h", &options).is_err());
        let client = Client::new("http://h:1/gnocchi/", &ClientOptions::default()).unwrap();
        assert_eq!(client.base_url(), "http://h:1/gnocchi");
        let options = ClientOptions { trust: Trust::File("/nowhere.pem".into()), ..ClientOptions::default() };
        let error = Client::new("https://h", &options).unwrap_err().to_string();
        assert!(error.contains("/nowhere.pem"), "{error}");
        Client::new("http://h", &options).expect("certificates do not matter");
        let certificate = ClientIdentity { certificate: "/nowhere.crt".into(), key: None };
        let options = ClientOptions {
            trust: Trust::Anyone,
            certificate: Some(certificate),
            ..ClientOptions::default()
        };
        let error = Client::new("https://h", &options).unwrap_err().to_string();
        assert!(error.contains("/nowhere.crt"), "{error}");
        Client::new("http://h", &options).expect("nobody asks for it");
    }

    #[test]
    fn debug_output_holds_no_secret() {
        let secret = || "hunter2".into();
        let options = ClientOptions { password: secret(), token: Some(secret()), ..ClientOptions::default() };
        assert!(!format!("{options:?}").contains("hunter2"));
    }

    #[test]
    fn a_token_goes_before_a_user() {
        let options = ClientOptions { token: Some("gAAA-_=".into()), ..ClientOptions::default() };
        let [(name, value)] = &options.identity().unwrap()[..] else { panic!("one header") };
        assert_eq!((name.as_str(), value.as_bytes()), ("x-auth-token", &b"gAAA-_="[..]));
        assert!(value.is_sensitive());
        assert_eq!(ClientOptions::default().identity().unwrap()[0].0, AUTHORIZATION);
        let nobody = ClientOptions { user: None, ..ClientOptions::default() };
        assert_eq!(nobody.identity().unwrap(), []);
        let asserted =
            AssertedIdentity { user_id: "u".to_owned(), project_id: "p".to_owned(), roles: "a,b".to_owned() };
        let options = ClientOptions { asserted: Some(asserted.clone()), ..options };
        let sent = options.identity().unwrap();
        let sent: Vec<_> =
            sent.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(sent, [("x-user-id", "u"), ("x-project-id", "p"), ("x-roles", "a,b")]);
        let options = ClientOptions {
            asserted: Some(AssertedIdentity { roles: "a\nb".to_owned(), ..asserted }),
            ..options
        };
        assert!(options.identity().is_err());
        for token in ["", "a b", "a\r\nX: b"] {
            let options = ClientOptions { token: Some(token.into()), ..ClientOptions::default() };
            assert!(options.identity().is_err(), "{token:?}");
        }
    }

    #[test]
    fn finds_the_next_page_of_a_link() {
        let query = |link: &'static str| {
            let headers = HeaderMap::from_iter([(LINK, HeaderValue::from_static(link))]);
            next_query(&headers)
        };
        assert_eq!(
            query("<http://h/v1/metric?limit=7&marker=m>; rel=\"next\"").as_deref(),
            Some("limit=7&marker=m")
        );
        for link in
            ["", "<http://h/v1/metric>; rel=\"next\"", "<http://h/?a=b>; rel=\"prev\"", "http://h/?a=b"]
        {
            assert_eq!(query(link), None, "{link}");
        }
        assert_eq!(next_query(&HeaderMap::new()), None);
    }

    #[test]
    fn finds_the_message_of_an_error_body() {
        for (body, message) in [
            (
                r#"{"code": 404, "title": "Not Found", "description": "Metric x does not exist"}"#,
                "Metric x does not exist",
            ),
            (
                r#"{"code": 400, "description": {"cause": "Unknown metrics"}}"#,
                r#"{"cause":"Unknown metrics"}"#,
            ),
            ("<html>502</html>\n", "<html>502</html>"),
            ("", ""),
        ] {
            assert_eq!(message_of(body.as_bytes()), message);
        }
    }
}
