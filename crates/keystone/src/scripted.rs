//! A scripted Keystone for tests. It distinguishes logins, catalogue requests and validations, and records all
//! requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use gnudi_http::Trust;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::{Credentials, DomainRef, Interface, KeystoneOptions, ProjectRef, Scope, Session, UserRef};

const TRIES: usize = 20;

/// What `test` returns beside the time when a pause began, of a call that ended before the pause was over: on a machine
/// that stood still it may have passed.
pub async fn within<T>(pause: Duration, test: impl AsyncFn() -> (Instant, T)) -> T {
    for _ in 0..TRIES {
        let (began, found) = test().await;
        if began.elapsed() < pause {
            return found;
        }
    }
    panic!("{TRIES} calls have taken longer than {pause:?}");
}

/// A recorded request.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// `login`, `catalog` or `validate`.
    pub kind: &'static str,
    pub target: String,
    /// The caller's token.
    pub token: Option<String>,
    /// The token to validate.
    pub subject: Option<String>,
    pub body: String,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    body: String,
    delay_ms: u64,
}

impl Reply {
    pub fn ok(body: String) -> Self {
        Reply::of(200, body)
    }

    /// An error of Keystone.
    pub fn status(status: u16) -> Self {
        Reply::of(status, format!(r#"{{"error": {{"code": {status}}}}}"#))
    }

    pub fn of(status: u16, body: String) -> Self {
        Reply { status, body, delay_ms: 0 }
    }

    pub fn after_ms(self, delay_ms: u64) -> Self {
        Reply { delay_ms, ..self }
    }
}

type Answers = Box<dyn Fn(&RecordedRequest) -> Reply + Send + Sync>;

/// A running server. Logins succeed and return tokens `own-1`, `own-2` ..., unless the script says otherwise.
pub struct Script {
    pub port: u16,
    state: Arc<State>,
}

struct State {
    answers: Answers,
    /// Overrides the script's responses unless 0.
    status: AtomicU16,
    logins: AtomicUsize,
    /// Lifetime of the tokens of logins.
    lifetime_seconds: u64,
    requests: Mutex<Vec<RecordedRequest>>,
}

impl Script {
    /// `answers` gives the responses to everything except logins.
    pub async fn start(answers: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static) -> Self {
        Script::start_with_lifetime(3600, answers).await
    }

    pub async fn start_with_lifetime(
        lifetime_seconds: u64,
        answers: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            answers: Box::new(answers),
            status: AtomicU16::new(0),
            logins: AtomicUsize::new(0),
            lifetime_seconds,
            requests: Mutex::default(),
        });
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, shared.clone(), port));
            }
        });
        Script { port, state }
    }

    pub fn options(&self) -> KeystoneOptions {
        KeystoneOptions {
            auth_url: format!("http://127.0.0.1:{}/v3", self.port),
            credentials: Credentials::Password {
                user: UserRef::Name { name: "gnocchi".into(), domain: DomainRef::Name("Default".into()) },
                password: "the password".into(),
                scope: Some(Scope::Project(ProjectRef::Id("p".into()))),
            },
            region_name: Some("R1".into()),
            interface: Interface::Internal,
            trust: Trust::System,
            identity: None,
            timeout: Duration::from_mins(1),
        }
    }

    pub fn session(&self) -> Session {
        Session::new(self.options()).unwrap()
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state.requests.lock().clone()
    }

    pub fn count(&self, kind: &str) -> usize {
        self.state.requests.lock().iter().filter(|request| request.kind == kind).count()
    }

    pub fn answer_all_with(&self, status: u16) {
        self.state.status.store(status, Ordering::SeqCst);
    }

    pub fn answer_as_before(&self) {
        self.answer_all_with(0);
    }
}

/// A token of a user of project `p1`, valid until `end`.
pub fn token_body(user: &str, end: &str) -> String {
    format!(
        r#"{{"token": {{"expires_at": "{end}", "roles": [{{"id": "r", "name": "member"}}],
        "user": {{"id": "{user}", "name": "alice", "domain": {{"id": "default", "name": "Default"}}}},
        "project": {{"id": "p1", "name": "demo", "domain": {{"id": "default", "name": "Default"}}}}}}}}"#
    )
}

async fn serve(mut stream: TcpStream, state: Arc<State>, port: u16) {
    let mut received = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut received).await {
        state.requests.lock().push(request.clone());
        let (reply, token) = match (state.status.load(Ordering::SeqCst), request.kind) {
            (0, "login") => {
                let number = state.logins.fetch_add(1, Ordering::SeqCst) + 1;
                (login(state.lifetime_seconds, port), format!("X-Subject-Token: own-{number}\r\n"))
            }
            (0, _) => ((state.answers)(&request), String::new()),
            (status, _) => (Reply::status(status), String::new()),
        };
        tokio::time::sleep(Duration::from_millis(reply.delay_ms)).await;
        let (status, length) = (reply.status, reply.body.len());
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n{token}\r\n");
        if stream.write_all((head + &reply.body).as_bytes()).await.is_err() {
            return;
        }
    }
}

fn login(lifetime_seconds: u64, port: u16) -> Reply {
    let (hours, minutes, seconds) =
        (lifetime_seconds / 3600, lifetime_seconds / 60 % 60, lifetime_seconds % 60);
    let end = format!("2026-11-21T{:02}:{minutes:02}:{seconds:02}Z", 10 + hours);
    let catalog = catalog(port);
    let body = format!(
        r#"{{"token": {{"issued_at": "2026-11-21T10:00:00Z", "expires_at": "{end}", "catalog": {catalog},
        "user": {{"id": "own", "name": "gnocchi", "domain": {{"id": "default", "name": "Default"}}}}}}}}"#
    );
    Reply { status: 201, body, delay_ms: 20 }
}

/// A catalogue with Keystone itself at this port.
pub fn catalog(port: u16) -> String {
    format!(
        r#"[{{"type": "identity", "endpoints": [
        {{"interface": "internal", "region": "R1", "url": "http://127.0.0.1:{port}"}}]}}]"#
    )
}

async fn read_request(stream: &mut TcpStream, received: &mut Vec<u8>) -> Option<RecordedRequest> {
    let mut buffer = [0; 4096];
    loop {
        let head_end = received.windows(4).position(|window| window == b"\r\n\r\n").map(|start| start + 4);
        if let Some(head_end) = head_end {
            let head = String::from_utf8_lossy(&received[..head_end]).into_owned();
            let header = |name: &str| {
                head.lines().filter_map(|line| line.split_once(": ")).find_map(|(found, value)| {
                    found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
                })
            };
            let length: usize = header("content-length").map_or(0, |length| length.parse().unwrap());
            if received.len() >= head_end + length {
                let request: Vec<u8> = received.drain(..head_end + length).collect();
                let mut words = head.split(' ');
                let (method, target) = (words.next()?, words.next()?.to_owned());
                let kind = match method {
                    "POST" => "login",
                    _ if target.ends_with("/auth/catalog") => "catalog",
                    _ => "validate",
                };
                return Some(RecordedRequest {
                    kind,
                    target,
                    token: header("x-auth-token"),
                    subject: header("x-subject-token"),
                    body: String::from_utf8_lossy(&request[head_end..]).into_owned(),
                });
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => received.extend_from_slice(&buffer[..count]),
        }
    }
}
