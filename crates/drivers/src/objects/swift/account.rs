//! An account of Swift: its requests, each with the token of a login.

use bytes::Bytes;
use gnudi_http::{Method, Request, StatusCode, header::CONTENT_LENGTH};
use gnudi_model::python::quote;
use serde_json::Value;

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

/// One request, to be sent as often as it takes.
pub(super) struct Ask<'a> {
    pub method: Method,
    pub container: &'a str,
    /// As it lies in the container; "" for the container.
    pub name: &'a str,
    pub query: String,
    pub headers: Vec<(&'static str, &'a str)>,
    pub body: Bytes,
}

impl<'a> Ask<'a> {
    pub fn new(method: Method, container: &'a str, name: &'a str) -> Self {
        Ask { method, container, name, query: String::new(), headers: Vec::new(), body: Bytes::new() }
    }
}

/// See the module.
pub(super) struct Account {
    http: Http,
    pub options: SwiftOptions,
    /// What is read or written there, for messages.
    pub place: String,
    session: tokio::sync::Mutex<Option<Session>>,
}

impl Account {
    /// Logs in with the first request.
    pub fn new(options: &SwiftOptions, place: String) -> Result<Self, OpenError> {
        let secure = [Some(&options.authurl), options.url.as_ref()];
        // Keystone may send us anywhere.
        let secure = options.auth_version.starts_with('3')
            || secure.into_iter().flatten().any(|url| url.starts_with("https"));
        let http = Http::new(&options.http, secure && !options.http.insecure)
            .map_err(|reason| OpenError::Engine { engine: place.clone(), reason })?;
        let session = tokio::sync::Mutex::new(auth::given(options));
        Ok(Account { http, options: options.clone(), place, session })
    }

    /// The answer to what must succeed.
    pub async fn expect(&self, ask: &Ask<'_>) -> Result<Answer, ObjectError> {
        let answer = self.ask(ask).await?;
        if answer.status.is_success() { Ok(answer) } else { Err(self.refusal(ask, &answer)) }
    }

    /// Sends until there is an answer that is not "later", logging in where that is needed.
    pub async fn ask(&self, ask: &Ask<'_>) -> Result<Answer, ObjectError> {
        let mut tries = self.http.tries();
        let mut logins = 0;
        loop {
            let reason = match self.session(&tries).await {
                Err(LoginError::Never(error)) => return Err(error),
                Err(LoginError::Again(reason)) => reason,
                Ok(session) => match self.send(&tries, &session, ask).await {
                    Err(reason) => reason,
                    Ok(answer) if answer.status == StatusCode::UNAUTHORIZED && logins < 2 => {
                        logins += 1;
                        self.forget(&session).await;
                        continue;
                    }
                    Ok(answer) if is_for_later(answer.status) => answer.text(),
                    Ok(answer) => return Ok(answer),
                },
            };
            tries.again(&self.place, &reason).await?;
        }
    }

    /// The session; one login at a time.
    async fn session(&self, tries: &Tries) -> Result<Session, LoginError> {
        let mut session = self.session.lock().await;
        if let Some(session) = &*session {
            return Ok(session.clone());
        }
        let fresh = auth::login(&self.http, tries, &self.options).await?;
        *session = Some(fresh.clone());
        Ok(fresh)
    }

    /// Has the next request log in, unless another has done so meanwhile.
    async fn forget(&self, expired: &Session) {
        let mut session = self.session.lock().await;
        if session.as_ref() == Some(expired) {
            *session = None;
        }
    }

    async fn send(&self, tries: &Tries, session: &Session, ask: &Ask<'_>) -> Result<Answer, String> {
        let mut url = format!("{}/{}", session.url, ask.container);
        if !ask.name.is_empty() {
            url = format!("{url}/{}", quote(ask.name, "/"));
        }
        let mut request = Request::builder()
            .method(ask.method.clone())
            .uri(url + &ask.query)
            .header("x-auth-token", session.token.reveal());
        for (name, value) in &ask.headers {
            request = request.header(*name, *value);
        }
        if ask.method == Method::PUT {
            request = request.header(CONTENT_LENGTH, ask.body.len());
        }
        let request = request.body(ask.body.clone()).map_err(|error| error.to_string())?;
        self.http.send(tries, request).await
    }

    pub fn refusal(&self, ask: &Ask<'_>, answer: &Answer) -> ObjectError {
        let text = format!("{}: {} /{}: {}", self.place, ask.method, ask.name, answer.text());
        match answer.status {
            // A quota is used up, as Swift says it.
            StatusCode::INSUFFICIENT_STORAGE | StatusCode::PAYLOAD_TOO_LARGE => ObjectError::NoSpace(text),
            _ => ObjectError::Refused(text),
        }
    }

    /// All names in a container that begin with the prefix, in the order of their bytes; `None` where there is
    /// no such container.
    pub async fn names(&self, container: &str, prefix: &str) -> Result<Option<Vec<String>>, ObjectError> {
        let mut names: Vec<String> = Vec::new();
        loop {
            let marker = names.last().map_or(String::new(), |last| quote(last, "/"));
            let query =
                format!("?format=json&limit={LIST_PAGE}&prefix={}&marker={marker}", quote(prefix, "/"));
            let ask = Ask { query, ..Ask::new(Method::GET, container, "") };
            let answer = self.ask(&ask).await?;
            match answer.status {
                StatusCode::NOT_FOUND => return Ok(None),
                status if !status.is_success() => return Err(self.refusal(&ask, &answer)),
                _ if answer.body.is_empty() => return Ok(Some(names)),
                _ => {}
            }
            let page: Value = serde_json::from_slice(&answer.body).map_err(|error| {
                ObjectError::Refused(format!("{}: the list is not of Swift: {error}", self.place))
            })?;
            let page = page.as_array().cloned().unwrap_or_default();
            let before = names.len();
            names.extend(page.iter().filter_map(|entry| entry["name"].as_str().map(str::to_owned)));
            if names.len() == before {
                return Ok(Some(names));
            }
        }
    }
}

fn is_for_later(status: StatusCode) -> bool {
    let is_final = [StatusCode::INSUFFICIENT_STORAGE, StatusCode::NOT_IMPLEMENTED].contains(&status);
    let is_early = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status);
    // 498: Swift's own limit of rates.
    is_early || status.as_u16() == 498 || status.is_server_error() && !is_final
}
