//! A server that does nothing, as fast as a socket allows: what the load generator reaches on it is the limit of a run.
//!
//! It answers every request of the workloads with a fixed answer of the right size and keeps nothing. One thread, raw
//! sockets: a server that also does something cannot be lighter.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    thread::JoinHandle,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
};

/// Points in the answer to a GET of measures: a month by the minute.
pub const POINTS: usize = 43_200;

/// The same where a start is asked for: a day by the minute.
pub const DAY_POINTS: usize = 1_440;

const READ_BYTES: usize = 256 << 10;

/// A running no-op server; it ends when this is dropped.
#[derive(Debug)]
pub struct NoopServer {
    pub address: SocketAddr,
    /// The number of its thread, for its processor time.
    pub thread_id: u32,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl NoopServer {
    /// Starts a server on a free port of loopback.
    pub fn start() -> io::Result<Self> {
        Self::start_with(Answers::new())
    }

    /// The same, where every answer is a 200 with this body: as large as those of the server that it stands for.
    pub fn answering(body: &[u8]) -> io::Result<Self> {
        let fixed = Some(answer("200 OK", &String::from_utf8_lossy(body)));
        Self::start_with(Answers { fixed, ..Answers::default() })
    }

    fn start_with(answers: Answers) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("noop-server".to_owned()).spawn(move || {
            tell.send(current_thread_id()).expect("the starter waits for it");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime needs only file descriptors").block_on(async {
                let listener = TcpListener::from_std(listener).expect("it does not block");
                tokio::select! {
                    () = accept(listener, answers) => {}
                    _ = stopped => {}
                }
            });
        })?;
        let thread_id = told.recv().expect("the thread tells its number first")?;
        Ok(NoopServer { address, thread_id, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for NoopServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // An error means that the thread has ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The number of the calling thread: the last part of `PID/task/TID`.
fn current_thread_id() -> io::Result<u32> {
    let path = std::fs::read_link("/proc/thread-self")?;
    path.file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.parse().ok())
        .ok_or_else(|| io::Error::other("/proc/thread-self is not a thread"))
}

async fn accept(listener: TcpListener, answers: Answers) {
    let answers = Arc::new(answers);
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(serve(stream, Arc::clone(&answers)));
        }
    }
}

/// Serves a connection until the client closes it or sends what is not understood.
async fn serve(mut stream: TcpStream, answers: Arc<Answers>) {
    let mut buffer = vec![0; READ_BYTES];
    let mut filled = 0;
    while let Ok(count @ 1..) = stream.read(&mut buffer[filled..]).await {
        filled += count;
        let Some(end) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") else {
            if filled == buffer.len() {
                return;
            }
            continue;
        };
        let answer = answers.choose(&buffer[..end]);
        let mut body_left = content_length(&buffer[..end]).saturating_sub(filled - end - 4);
        while body_left > 0 {
            match stream.read(&mut buffer).await {
                Ok(count @ 1..) => body_left = body_left.saturating_sub(count),
                _ => return,
            }
        }
        filled = 0;
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}

fn content_length(head: &[u8]) -> usize {
    const NAME: &[u8] = b"\r\nContent-Length: ";
    let Some(at) = head.windows(NAME.len()).position(|window| window == NAME) else { return 0 };
    head[at + NAME.len()..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0, |value, digit| value * 10 + usize::from(digit - b'0'))
}

/// Whole answers, prebuilt.
#[derive(Default)]
struct Answers {
    /// To everything, where there is one.
    fixed: Option<Vec<u8>>,
    accepted: Vec<u8>,
    created: Vec<u8>,
    /// "There is one already": so that nobody looks into a policy.
    known: Vec<u8>,
    deleted: Vec<u8>,
    metric: Vec<u8>,
    measures: Vec<u8>,
    day: Vec<u8>,
    status: Vec<u8>,
}

impl Answers {
    fn new() -> Self {
        let metric = r#"{"id": "00000000-0000-4000-8000-000000000000", "creator": "admin", "name": null, "unit": null, "resource_id": null, "archive_policy_name": "low", "created_by_user_id": "admin", "created_by_project_id": ""}"#;
        let point = r#"["2015-01-01T00:00:00+00:00", 60.0, 42.17]"#;
        let status =
            r#"{"storage": {"summary": {"metrics": 0, "measures": 0}}, "metricd": {"processors": []}}"#;
        Answers {
            fixed: None,
            accepted: answer("202 Accepted", ""),
            created: answer("201 Created", metric),
            known: answer("409 Conflict", ""),
            deleted: b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
            metric: answer("200 OK", metric),
            measures: answer("200 OK", &format!("[{}]", vec![point; POINTS].join(", "))),
            day: answer("200 OK", &format!("[{}]", vec![point; DAY_POINTS].join(", "))),
            status: answer("200 OK", status),
        }
    }

    fn choose(&self, head: &[u8]) -> &[u8] {
        if let Some(fixed) = &self.fixed {
            return fixed;
        }
        let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let mut words = line.split(|&byte| byte == b' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match (method, path) {
            (b"POST", path) if path.ends_with(b"/metric") => &self.created,
            (b"POST", path) if path.ends_with(b"/archive_policy") => &self.known,
            (b"POST", _) => &self.accepted,
            (b"DELETE", _) => &self.deleted,
            (_, path) if has(path, b"/measures") && has(path, b"start=") => &self.day,
            (_, path) if has(path, b"/measures") => &self.measures,
            (_, path) if path.starts_with(b"/v1/status") => &self.status,
            _ => &self.metric,
        }
    }
}

fn has(path: &[u8], part: &[u8]) -> bool {
    path.windows(part.len()).any(|window| window == part)
}

fn answer(status: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
