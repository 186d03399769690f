//! A Swift account: sends requests with a login's token.

use std::time::Duration;

use bytes::Bytes;
use gnudi_http::{Method, Request, StatusCode, header::CONTENT_LENGTH};
use gnudi_model::python::quote;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    SwiftOptions,
    auth::{self, LoginError, Session},
};
use crate::{
    OpenError,
    objects::{
        ObjectError,
        http::{Answer, Http, Tries},
    },
};

const LIST_PAGE: usize = 1000;
/// While requests fail, how long a login's URL is used before it is looked up again.
const URL_AGE_MIN: Duration = Duration::from_secs(10);

/// One call, sent until it is answered.
pub(super) struct Call<'a> {
    pub method: Method,
    pub container: &'a str,
    /// The raw name in the container; "" for the container.
    pub name: &'a str,
    pub query: String,
    pub headers: Vec<(&'static str, &'a str)>,
    pub body: Bytes,
}

impl<'a> Call<'a> {
    pub fn new(method: Method, container: &'a str, name: &'a str) -> Self {
        Call { method, container, name, query: String::new(), headers: Vec::new(), body: Bytes::new() }
    }
}

/// A Swift account, logged in on demand.
pub(super) struct Account {
    http: Http,
    pub options: SwiftOptions,
    /// What is read or written there, for messages.
    pub place: String,
    login: tokio::sync::Mutex<Option<Login>>,
}

struct Login {
    session: Session,
    /// When its URL may be looked up again.
    again_from: Instant,
}

impl Login {
    fn new(session: Session) -> Self {
        Self { session, again_from: Instant::now() + URL_AGE_MIN }
    }
}

impl Account {
    /// Logs in with the first request.
    pub fn new(options: &SwiftOptions, place: String) -> Result<Self, OpenError> {
        let secure = [Some(&options.authurl), options.url.as_ref()];
        // Keystone's catalogue may contain HTTPS URLs.
        let secure = options.auth_version.starts_with('3')
            || secure.into_iter().flatten().any(|url| url.starts_with("https"));
        let http = Http::new(&options.http, secure && !options.http.insecure)
            .map_err(|reason| OpenError::Engine { engine: place.clone(), reason })?;
        let login = tokio::sync::Mutex::new(auth::given(options).map(Login::new));
        Ok(Account { http, options: options.clone(), place, login })
    }

    /// The response of a call that must succeed.
    pub async fn expect(&self, call: &Call<'_>) -> Result<Answer, ObjectError> {
        let answer = self.request(call).await?;
        if answer.status.is_success() { Ok(answer) } else { Err(self.refusal(call, &answer)) }
    }

    /// Sends until the response is not "retry later", logging in if needed.
    pub async fn request(&self, call: &Call<'_>) -> Result<Answer, ObjectError> {
        let mut tries = self.http.tries();
        let mut logins = 0;
        loop {
            let reason = match self.session(&tries).await {
                Err(LoginError::Never(error)) => return Err(error),
                Err(LoginError::Again(reason)) => reason,
                Ok(session) => {
                    let reason = match self.send(&tries, &session, call).await {
                        Err(reason) => reason,
                        Ok(answer) if answer.status == StatusCode::UNAUTHORIZED && logins < 2 => {
                            logins += 1;
                            self.forget(&session).await;
                            continue;
                        }
                        Ok(answer) if is_for_later(answer.status) => answer.text(),
                        Ok(answer) => return Ok(answer),
                    };
                    self.look_up_again(&tries, &session).await;
                    reason
                }
            };
            tries.again(&self.place, &reason).await?;
        }
    }

    /// The session; one login at a time.
    async fn session(&self, tries: &Tries) -> Result<Session, LoginError> {
        let mut login = self.login.lock().await;
        if let Some(login) = &*login {
            return Ok(login.session.clone());
        }
        let fresh = auth::login(&self.http, tries, &self.options).await?;
        *login = Some(Login::new(fresh.clone()));
        Ok(fresh)
    }

    /// Makes the next request log in, unless another call already has.
    async fn forget(&self, expired: &Session) {
        let mut login = self.login.lock().await;
        if login.as_ref().is_some_and(|login| login.session == *expired) {
            *login = None;
        }
    }

    /// Logs in again after a failure, if the URL is from a login that is not new: the account may have moved. If that
    /// fails, the session stays, so that an outage of the login alone does no harm.
    async fn look_up_again(&self, tries: &Tries, failed: &Session) {
        if self.options.url.is_some() {
            return;
        }
        let now = Instant::now();
        match &mut *self.login.lock().await {
            Some(login) if login.session == *failed && login.again_from <= now => {
                // Others go on with the session meanwhile.
                login.again_from = now + URL_AGE_MIN;
            }
            _ => return,
        }
        match auth::login(&self.http, tries, &self.options).await {
            Ok(fresh) => {
                let mut login = self.login.lock().await;
                if login.as_ref().is_some_and(|login| login.session == *failed) {
                    *login = Some(Login::new(fresh));
                }
            }
            Err(error) => tracing::debug!(place = self.place, ?error, "its URL cannot be looked up again"),
        }
    }

    async fn send(&self, tries: &Tries, session: &Session, call: &Call<'_>) -> Result<Answer, String> {
        let mut url = format!("{}/{}", session.url, call.container);
        if !call.name.is_empty() {
            url = format!("{url}/{}", quote(call.name, "/"));
        }
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(url + &call.query)
            .header("x-auth-token", session.token.reveal());
        for (name, value) in &call.headers {
            request = request.header(*name, *value);
        }
        if call.method == Method::PUT {
            request = request.header(CONTENT_LENGTH, call.body.len());
        }
        let request = request.body(call.body.clone()).map_err(|error| error.to_string())?;
        self.http.send(tries, request).await
    }

    pub fn refusal(&self, call: &Call<'_>, answer: &Answer) -> ObjectError {
        let text = format!("{}: {} /{}: {}", self.place, call.method, call.name, answer.text());
        match answer.status {
            // Swift's response for an exhausted quota.
            StatusCode::INSUFFICIENT_STORAGE | StatusCode::PAYLOAD_TOO_LARGE => ObjectError::NoSpace(text),
            _ => ObjectError::Refused(text),
        }
    }

    /// All names in a container with the prefix, sorted by bytes; `None` if there is no such container.
    pub async fn names(&self, container: &str, prefix: &str) -> Result<Option<Vec<String>>, ObjectError> {
        let mut names: Vec<String> = Vec::new();
        loop {
            let after = names.last().map_or("", String::as_str);
            let marker = quote(after, "/");
            let query =
                format!("?format=json&limit={LIST_PAGE}&prefix={}&marker={marker}", quote(prefix, "/"));
            let call = Call { query, ..Call::new(Method::GET, container, "") };
            let answer = self.request(&call).await?;
            match answer.status {
                StatusCode::NOT_FOUND => return Ok(None),
                status if !status.is_success() => return Err(self.refusal(&call, &answer)),
                _ if answer.body.is_empty() => return Ok(Some(names)),
                _ => {}
            }
            let page: Vec<Value> = serde_json::from_slice(&answer.body).map_err(|error| {
                ObjectError::Refused(format!("{}: not a Swift listing: {error}", self.place))
            })?;
            let page = page.iter().filter_map(|entry| entry["name"].as_str().map(str::to_owned));
            let page: Vec<String> = page.collect();
            let Some(last) = page.last() else { return Ok(Some(names)) };
            if last.as_str() <= after {
                let text = format!("{}: a listing does not go on behind its marker", self.place);
                return Err(ObjectError::Unavailable(text));
            }
            names.extend(page);
        }
    }
}

fn is_for_later(status: StatusCode) -> bool {
    let is_final = [StatusCode::INSUFFICIENT_STORAGE, StatusCode::NOT_IMPLEMENTED].contains(&status);
    let is_early = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status);
    // 498: Swift's rate limit.
    is_early || status.as_u16() == 498 || status.is_server_error() && !is_final
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{Secret, http::tests::server};

    /// An account on a server that gives this answer to all requests.
    async fn account_with(answer: &'static str) -> Account {
        let options = SwiftOptions {
            url: Some(server("200 OK", answer).await),
            preauthtoken: Some(Secret::new("tok")),
            ..SwiftOptions::default()
        };
        Account::new(&options, "swift".to_owned()).unwrap()
    }

    #[tokio::test]
    async fn an_answer_that_is_no_listing_is_no_empty_one() {
        let account = account_with(r#"{"status": "maintenance"}"#).await;
        let refused = account.names("container", "").await.unwrap_err();
        assert!(matches!(refused, ObjectError::Refused(_)), "{refused}");
    }

    /// The account moved: its former address answers no requests any more.
    #[tokio::test]
    async fn a_url_that_fails_is_looked_up_again() {
        let new = server("200 OK", "[]").await;
        let login = format!("200 OK\r\nx-auth-token: tok\r\nx-storage-url: {new}").leak();
        let options = SwiftOptions { authurl: server(login, "").await, ..SwiftOptions::default() };
        let account = Account::new(&options, "swift".to_owned()).unwrap();
        let url = server("503 Service Unavailable", "moved").await;
        let session = Session { url, token: Secret::new("tok") };
        *account.login.lock().await = Some(Login { session, again_from: Instant::now() });
        assert_eq!(account.names("container", "").await.unwrap(), Some(vec![]));
        assert_eq!(account.login.lock().await.as_ref().unwrap().session.url, new);
    }

    /// The store fails for a moment, and the login does not answer: the session is used again.
    #[tokio::test]
    async fn a_session_stays_if_its_url_cannot_be_looked_up_again() {
        let authurl = server("503 Service Unavailable", "").await;
        let options = SwiftOptions { authurl, ..SwiftOptions::default() };
        let account = Account::new(&options, "swift".to_owned()).unwrap();
        let session = Session { url: server("200 OK", "[]").await, token: Secret::new("tok") };
        *account.login.lock().await = Some(Login { session: session.clone(), again_from: Instant::now() });
        account.look_up_again(&account.http.tries(), &session).await;
        assert_eq!(account.names("container", "").await.unwrap(), Some(vec![]));
    }

    /// A proxy that drops arguments of URLs: all pages are the first one.
    #[tokio::test]
    async fn a_listing_that_repeats_a_page_ends() {
        let account = account_with(r#"[{"name":"a"},{"name":"b"}]"#).await;
        let listing = account.names("container", "");
        let refused =
            tokio::time::timeout(Duration::from_secs(20), listing).await.expect("it ends").unwrap_err();
        assert!(matches!(refused, ObjectError::Unavailable(_)), "{refused}");
    }
}
