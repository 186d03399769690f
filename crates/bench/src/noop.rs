//! A no-op server, as fast as sockets allow: the load generator's rate on it is the limit of a run.
//!
//! It answers every request of the workloads with a fixed response of the right size and stores nothing. One thread,
//! raw sockets.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, OnceLock},
    thread::JoinHandle,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, copy_buf, sink},
    net::{TcpListener, TcpStream},
    sync::oneshot,
};

use crate::{
    group_log::GroupLog,
    load::response::{decimal, header},
};

/// Points in the response to a GET of measures: a month by the minute.
pub const POINTS: usize = 43_200;

/// Points in the response if the request has a start: a day by the minute.
pub const DAY_POINTS: usize = 1_440;

/// Points in the response if the request has [`YEAR_ARGUMENT`].
pub const YEAR_POINTS: usize = 365 * 24 * 60;

/// An argument that other servers ignore.
pub const YEAR_ARGUMENT: &str = "&limit_year";

/// The size of a time and a value in Arrow.
const ARROW_POINT_BYTES: usize = 16;

const READ_BYTES: usize = 256 << 10;

/// A running no-op server; stopped when dropped.
#[derive(Debug)]
pub struct NoopServer {
    pub address: SocketAddr,
    /// The id of its thread, for its processor time.
    pub thread_id: u32,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl NoopServer {
    /// Starts a server on a free loopback port.
    pub fn start() -> io::Result<Self> {
        Self::start_with(None, None)
    }

    /// As [`NoopServer::start`], but request bodies are synced to the log before they are answered.
    pub fn logging(log: GroupLog) -> io::Result<Self> {
        Self::start_with(None, Some(log))
    }

    /// As [`NoopServer::start`], but answers all requests with 200 and this body, which should be as large as that of the
    /// server that it stands for.
    pub fn answering(body: &[u8]) -> io::Result<Self> {
        Self::start_with(Some(answer("200 OK", &String::from_utf8_lossy(body))), None)
    }

    fn start_with(same: Option<Vec<u8>>, log: Option<GroupLog>) -> io::Result<Self> {
        let service = Service { same, workloads: Workloads::new(), log };
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("noop-server".to_owned()).spawn(move || {
            let thread_id = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
            sender.send(thread_id).expect("the starter waits for it");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime needs only file descriptors").block_on(async {
                let listener = TcpListener::from_std(listener).expect("it does not block");
                tokio::select! {
                    () = accept(listener, service) => {}
                    _ = stopped => {}
                }
            });
        })?;
        let thread_id = receiver.recv().expect("the thread sends its number first");
        Ok(NoopServer { address, thread_id, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for NoopServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Service {
    /// The response to all requests, instead of those of the workloads.
    same: Option<Vec<u8>>,
    workloads: Workloads,
    log: Option<GroupLog>,
}

async fn accept(listener: TcpListener, service: Service) {
    let service = Arc::new(service);
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(serve(stream, Arc::clone(&service)));
        }
    }
}

/// Serves a connection until the client closes it or sends an endless header.
async fn serve(stream: TcpStream, service: Arc<Service>) -> io::Result<()> {
    let mut stream = BufReader::with_capacity(READ_BYTES, stream);
    let (mut head, mut body) = (Vec::new(), Vec::new());
    loop {
        head.clear();
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read_until(b'\n', &mut head).await? == 0 || head.len() > READ_BYTES {
                return Ok(());
            }
        }
        let mut rest = (&mut stream).take(content_length(&head));
        if let Some(log) = &service.log {
            body.clear();
            if rest.read_to_end(&mut body).await? > 0 {
                log.append(&body).await;
            }
        } else {
            copy_buf(&mut rest, &mut sink()).await?;
        }
        let answer = service.same.as_deref().unwrap_or_else(|| service.workloads.choose(&head));
        stream.write_all(answer).await?;
    }
}

fn content_length(head: &[u8]) -> u64 {
    let value = head.split(|&byte| byte == b'\n').find_map(|line| header(line, b"content-length"));
    value.and_then(decimal).unwrap_or(0)
}

struct Workloads {
    accepted: Vec<u8>,
    created: Vec<u8>,
    /// The response to the creation of an archive policy: the policy exists already.
    known: Vec<u8>,
    deleted: Vec<u8>,
    metric: Vec<u8>,
    month: Points,
    day: Points,
    year: Points,
    status: Vec<u8>,
}

/// Responses with `count` points, built at the first request, since a year takes 23 MB.
struct Points {
    count: usize,
    json: OnceLock<Vec<u8>>,
    /// As many bytes as the columns of a real response. The framing, about a thousandth of it, is left out.
    arrow: OnceLock<Vec<u8>>,
}

impl Points {
    fn new(count: usize) -> Self {
        Points { count, json: OnceLock::new(), arrow: OnceLock::new() }
    }

    fn answer(&self, is_arrow: bool) -> &[u8] {
        if is_arrow {
            return self.arrow.get_or_init(|| answer("200 OK", &"\0".repeat(self.count * ARROW_POINT_BYTES)));
        }
        let point = r#"["2015-01-01T00:00:00+00:00", 60.0, 42.17]"#;
        self.json.get_or_init(|| answer("200 OK", &format!("[{}]", vec![point; self.count].join(", "))))
    }
}

impl Workloads {
    fn new() -> Self {
        let metric = r#"{"id": "00000000-0000-4000-8000-000000000000", "creator": "admin", "name": null, "unit": null, "resource_id": null, "archive_policy_name": "low", "created_by_user_id": "admin", "created_by_project_id": ""}"#;
        let status =
            r#"{"storage": {"summary": {"metrics": 0, "measures": 0}}, "metricd": {"processors": []}}"#;
        Workloads {
            accepted: answer("202 Accepted", ""),
            created: answer("201 Created", metric),
            known: answer("409 Conflict", ""),
            deleted: b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
            metric: answer("200 OK", metric),
            month: Points::new(POINTS),
            day: Points::new(DAY_POINTS),
            year: Points::new(YEAR_POINTS),
            status: answer("200 OK", status),
        }
    }

    fn choose(&self, head: &[u8]) -> &[u8] {
        let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let mut words = line.split(|&byte| byte == b' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match (method, path) {
            (b"POST", path) if path.ends_with(b"/metric") => &self.created,
            (b"POST", path) if path.ends_with(b"/archive_policy") => &self.known,
            (b"POST", _) => &self.accepted,
            (b"DELETE", _) => &self.deleted,
            (_, path) if has(path, b"/measures") => {
                let points = match path {
                    path if has(path, b"start=") => &self.day,
                    path if has(path, YEAR_ARGUMENT.as_bytes()) => &self.year,
                    _ => &self.month,
                };
                points.answer(has(head, b"vnd.apache.arrow"))
            }
            (_, path) if path.starts_with(b"/v1/status") => &self.status,
            _ => &self.metric,
        }
    }
}

fn has(path: &[u8], part: &[u8]) -> bool {
    path.windows(part.len()).any(|window| window == part)
}

fn answer(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_answered_in_their_size() {
        let answers = Workloads::new();
        let length = |head: &str| {
            let answer = answers.choose(head.as_bytes());
            let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
            let length = answer.len() - end - 4;
            assert_eq!(content_length(&answer[..end]), length as u64);
            length
        };
        let arrow = "\r\nAccept: application/vnd.apache.arrow.stream";
        for (path, points) in [
            ("", POINTS),
            ("?start=1", DAY_POINTS),
            (&*format!("?aggregation=raw{YEAR_ARGUMENT}"), YEAR_POINTS),
        ] {
            assert_eq!(length(&format!("GET /v1/metric/x/measures{path} HTTP/1.1{arrow}")), points * 16);
            assert_eq!(length(&format!("GET /v1/metric/x/measures{path} HTTP/1.1")), points * 44);
        }
    }
}
