//! A no-op server, as fast as sockets allow: the load generator's rate on it is the limit of a run.
//!
//! It answers every request of the workloads with a fixed response of the right size and stores nothing. One thread,
//! raw sockets.

use std::{
    fs::{File, OpenOptions},
    io,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::FileExt as _,
    path::Path,
    sync::{Arc, OnceLock},
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, copy_buf, sink},
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
};

use crate::load::response::{decimal, header};

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

/// The size of a log. Its file is filled once at the start and then overwritten, so that neither its size nor its extents change.
const LOG_BYTES: u64 = 64 << 20;

/// Maximum appends that share a sync.
const GROUP_MAX: usize = 100_000;

/// A running no-op server; stopped when dropped.
#[derive(Debug)]
pub struct NoopServer {
    pub address: SocketAddr,
    /// The id of its thread, for its processor time.
    pub thread_id: u32,
    /// Ends its thread when dropped.
    _stop: oneshot::Sender<()>,
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
        std::thread::Builder::new().name("noop-server".to_owned()).spawn(move || {
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
        Ok(NoopServer { address, thread_id, _stop: stop })
    }
}

/// The bytes, and the sender of the number of the group with which they are synced.
type Append = (Vec<u8>, oneshot::Sender<u64>);

/// A log that only syncs and is never read: shows the limit of a server that answers once its data are on disk. Concurrent
/// appends share a sync. It has its own thread, which ends when it is dropped.
#[derive(Debug)]
pub struct GroupLog {
    appends: mpsc::UnboundedSender<Append>,
}

impl GroupLog {
    /// A log in a new file of the directory.
    pub fn create(directory: &Path) -> io::Result<Self> {
        let path = directory.join("group-log");
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all_at(&vec![0; LOG_BYTES as usize], 0)?;
        file.sync_all()?;
        let (appends, waiting) = mpsc::unbounded_channel();
        std::thread::Builder::new().name("group-log".to_owned()).spawn(move || {
            if let Err(error) = write_groups(&file, waiting) {
                eprintln!("the group log failed: {error}");
            }
        })?;
        Ok(GroupLog { appends })
    }

    /// Returns the number of the bytes' group once the group is on disk. Never returns if the disk fails.
    pub async fn append(&self, bytes: &[u8]) -> u64 {
        let (written, group) = oneshot::channel();
        let _ = self.appends.send((bytes.to_vec(), written));
        match group.await {
            Ok(group) => group,
            Err(_) => std::future::pending().await,
        }
    }
}

/// Writes and syncs group after group until the log is dropped or the disk fails.
fn write_groups(file: &File, mut waiting: mpsc::UnboundedReceiver<Append>) -> io::Result<()> {
    let (mut at, mut groups) = (0, 0);
    let (mut group, mut bytes): (Vec<Append>, Vec<u8>) = (Vec::new(), Vec::new());
    while waiting.blocking_recv_many(&mut group, GROUP_MAX) > 0 {
        groups += 1;
        bytes.clear();
        for (append, _) in &group {
            bytes.extend_from_slice(append);
        }
        if at + bytes.len() as u64 > LOG_BYTES {
            at = 0;
        }
        file.write_all_at(&bytes, at)?;
        file.sync_data()?;
        at += bytes.len() as u64;
        for (_, written) in group.drain(..) {
            let _ = written.send(groups);
        }
    }
    Ok(())
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

    #[tokio::test]
    async fn appends_share_groups() {
        let directory = tempfile::tempdir().unwrap();
        let log = GroupLog::create(directory.path()).unwrap();
        let appends = (0..64u8).map(|number| {
            let log = &log;
            async move { log.append(&[number; 100]).await }
        });
        let groups = futures_util::future::join_all(appends).await.into_iter().max().unwrap();
        assert!((1..64).contains(&groups), "{groups}");
        let written = std::fs::read(directory.path().join("group-log")).unwrap();
        assert_eq!(written.len() as u64, LOG_BYTES);
        for number in 0..64 {
            assert_eq!(written[100 * number..100 * (number + 1)], [number as u8; 100]);
        }
    }
}
