//! The HTTP server: accepts connections within limits and serves HTTP/1.1 on them, with TLS if configured.

use std::{
    collections::HashMap, convert::Infallible, future::Future, io, net::IpAddr, sync::Arc, time::Duration,
};

use hyper::{
    Method, Request, Version,
    body::{Body as _, Incoming},
    server::conn::http1,
    service::service_fn,
};
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::MissedTickBehavior,
};

use crate::{
    connection::{Stream, TICK, Ticks, Watch, Watched, WatchedBody},
    limits::HttpLimits,
    reply::Response,
    tls::Tls,
};

/// The pause after a failed accept, for lack of file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How many ticks pass between sweeps over the connections.
const SWEEP_TICKS: u32 = 4;

/// The response on a connection above the limit.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Handles the requests of all connections.
pub trait Application: Send + Sync + 'static {
    fn limits(&self) -> &HttpLimits;

    /// Answers a request; never fails and never panics. It reports the request's phases to `watch`.
    fn answer(
        &self,
        request: Request<Incoming>,
        watch: Option<Arc<Watch>>,
    ) -> impl Future<Output = Response> + Send;

    /// Reloads the application's files when they change, as long as the server runs. Returns at once if there
    /// are none.
    fn follow(&self) -> impl Future<Output = io::Result<()>> + Send;
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    pub socket: TcpListener,
    /// If set, all connections use TLS.
    pub tls: Option<Arc<Tls>>,
}

impl From<TcpListener> for Listener {
    fn from(socket: TcpListener) -> Self {
        Listener { socket, tls: None }
    }
}

/// The open connections, for the sweeper.
#[derive(Default)]
struct Connections {
    ticks: Arc<Ticks>,
    open: Mutex<HashMap<u64, (Arc<Watch>, AbortHandle)>>,
}

/// Serves the app until `shutdown` resolves. Then closes idle connections at once, and waits for requests in progress: up to
/// `drain_timeout`, and no longer than until what `shutdown` has returned resolves, too.
///
/// # Errors
/// If the listener has no address, or if a task that follows files or enforces timeouts fails. An error on a connection
/// ends that connection only.
pub async fn serve<A: Application, H: Future<Output = ()>>(
    listener: impl Into<Listener>,
    app: Arc<A>,
    shutdown: impl Future<Output = H>,
) -> io::Result<()> {
    let Listener { socket, tls } = listener.into();
    let protocol = if tls.is_some() { "HTTPS" } else { "HTTP" };
    tracing::info!(address = %socket.local_addr()?, "serving {protocol}");
    let mut services = JoinSet::new();
    if let Some(tls) = tls.clone() {
        services.spawn(async move { tls.follow().await });
    }
    services.spawn({
        let app = app.clone();
        async move { app.follow().await }
    });
    let connections = Arc::new(Connections::default());
    services.spawn(sweep(connections.clone(), app.clone()));
    let (stop, stopping) = watch::channel(false);
    let mut tasks = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    let mut next_id = 0;
    let hurry = loop {
        let accepted = tokio::select! {
            biased;
            hurry = &mut shutdown => break hurry,
            accepted = socket.accept() => accepted,
            Some(_) = tasks.join_next() => continue,
            Some(ended) = services.join_next() => {
                ended.unwrap_or_else(|error| Err(io::Error::other(format!("a task of the server ended: {error}"))))?;
                continue;
            }
        };
        let (stream, peer) = match accepted {
            Ok((stream, address)) => (stream, address.ip()),
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Connections that have ended must not count, even if new ones arrive faster than the loop reaps
        // them.
        while tasks.try_join_next().is_some() {}
        if tasks.len() >= app.limits().connections_max {
            // It fits into any socket buffer. A client that does not read it sees the connection close. With
            // TLS it would need a handshake, which costs more than the response.
            if tls.is_none() {
                let _ = stream.try_write(FULL);
            }
            continue;
        }
        next_id += 1;
        let accepted = Accepted { stream, peer, tls: tls.clone(), stopping: stopping.clone() };
        open(next_id, accepted, &app, &connections, &mut tasks);
    };
    drop(socket);
    let _ = stop.send(true);
    let drain_timeout = app.limits().drain_timeout;
    let drained = async { while tasks.join_next().await.is_some() {} };
    let is_drained = tokio::select! {
        drained = tokio::time::timeout(drain_timeout, drained) => drained.is_ok(),
        () = hurry => false,
    };
    if !is_drained {
        tracing::warn!(connections = tasks.len(), "connections aborted: they did not finish in time");
        tasks.shutdown().await;
    }
    Ok(())
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

/// A new connection, before the TLS handshake.
struct Accepted {
    stream: TcpStream,
    peer: IpAddr,
    tls: Option<Arc<Tls>>,
    stopping: watch::Receiver<bool>,
}

impl Accepted {
    /// Performs the TLS handshake, if any; the sweeper enforces the header timeout. `None` if the handshake fails or
    /// the server stops.
    async fn handshake(self) -> Option<(Stream, watch::Receiver<bool>)> {
        let Accepted { stream, tls, mut stopping, .. } = self;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let Some(tls) = tls else { return Some((Stream::Left(stream), stopping)) };
        let result = tokio::select! {
            result = tls.acceptor().accept(stream) => result,
            _ = stopping.wait_for(|stop| *stop) => return None,
        };
        match result {
            Ok(stream) => Some((Stream::Right(Box::new(stream)), stopping)),
            Err(error) => {
                tracing::debug!(%error, "a TLS handshake failed");
                None
            }
        }
    }
}

/// Starts the task of a connection, and registers it for the sweeper.
fn open<A: Application>(
    id: u64,
    accepted: Accepted,
    app: &Arc<A>,
    connections: &Arc<Connections>,
    tasks: &mut JoinSet<()>,
) {
    let watch =
        Arc::new(Watch::new(connections.ticks.clone(), accepted.peer, accepted.tls.is_some(), app.limits()));
    let task = {
        let (app, watch, connections) = (app.clone(), watch.clone(), connections.clone());
        async move {
            // Dropped however the task ends.
            let _entry = Entry { id, connections };
            if let Some((stream, stopping)) = accepted.handshake().await {
                serve_connection(stream, app, watch, stopping).await;
            }
        }
    };
    // Insert the entry under the lock, before the task can end and remove it.
    let mut open = connections.open.lock();
    let abort = tasks.spawn(task);
    open.insert(id, (watch, abort));
}

/// Removes a connection from the open ones on drop.
struct Entry {
    id: u64,
    connections: Arc<Connections>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.connections.open.lock().remove(&self.id);
    }
}

/// Serves requests until the connection ends; after a stop, only the one in progress.
async fn serve_connection<A: Application>(
    stream: Stream,
    app: Arc<A>,
    watch: Arc<Watch>,
    mut stopping: watch::Receiver<bool>,
) {
    let limits = app.limits();
    let mut builder = http1::Builder::new();
    // Not `pipeline_flush`: it delays a response while unread input is buffered; an early close loses it.
    builder
        .header_read_timeout(None)
        .max_headers(limits.headers_max)
        .max_buf_size(limits.header_bytes_max.max(8 << 10));
    let service = service_fn(|request: Request<Incoming>| {
        let (app, watch) = (&app, &watch);
        async move {
            // HTTP/1.0 has no chunks.
            let has_no_chunks = request.version() == Version::HTTP_10 && request.method() != Method::HEAD;
            let response = app.answer(request, Some(watch.clone())).await;
            watch.set_ends_by_closing(has_no_chunks && response.body().size_hint().exact().is_none());
            Ok::<_, Infallible>(response.map(|body| WatchedBody::new(body, watch.clone())))
        }
    });
    let connection = builder.serve_connection(Watched::new(stream, watch.clone()), service);
    let mut connection = std::pin::pin!(connection);
    let mut is_stopping = false;
    let result = loop {
        tokio::select! {
            biased;
            result = connection.as_mut() => break result,
            _ = stopping.wait_for(|stop| *stop), if !is_stopping => {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Aborts connections whose phase has timed out.
async fn sweep<A: Application>(connections: Arc<Connections>, app: Arc<A>) -> io::Result<()> {
    let mut interval = tokio::time::interval(TICK);
    // Time in which this process stood still counts against no client: what it has sent was not read.
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let now = connections.ticks.advance();
        if !now.is_multiple_of(SWEEP_TICKS) {
            continue;
        }
        let open = connections.open.lock();
        for (watch, abort) in open.values() {
            if watch.is_overdue(app.limits()) {
                tracing::debug!("connection aborted: the client was too slow");
                abort.abort();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Pending, pending};

    use bytes::Bytes;
    use futures_util::{StreamExt as _, stream};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::reply::{self, ReplyBody};

    const IDLE_TIMEOUT: Duration = Duration::from_millis(500);

    /// Answers in two pieces. The second one takes longer than a connection may be idle, and than a sweep.
    struct Slow(HttpLimits);

    impl Application for Slow {
        fn limits(&self) -> &HttpLimits {
            &self.0
        }

        async fn answer(&self, _: Request<Incoming>, watch: Option<Arc<Watch>>) -> Response {
            watch.expect("a connection has one").begin_handling();
            let pieces = stream::iter(["a", "b"]).then(|piece| async move {
                if piece == "b" {
                    tokio::time::sleep(TICK * SWEEP_TICKS * 2 + IDLE_TIMEOUT).await;
                }
                io::Result::Ok(Bytes::from(piece))
            });
            reply::ok(ReplyBody::stream(pieces))
        }

        async fn follow(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Answers in two pieces, the second of which may fail.
    struct InPieces {
        limits: HttpLimits,
        fails: bool,
    }

    impl Application for InPieces {
        fn limits(&self) -> &HttpLimits {
            &self.limits
        }

        async fn answer(&self, _: Request<Incoming>, _: Option<Arc<Watch>>) -> Response {
            let second = if self.fails { Err(io::Error::other("damaged")) } else { Ok(Bytes::from("b")) };
            reply::ok(ReplyBody::stream(stream::iter([Ok(Bytes::from("a")), second])))
        }

        async fn follow(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Its client takes the end of the connection for that of the response.
    #[tokio::test]
    async fn a_truncated_response_to_http_1_0_does_not_look_complete() {
        for fails in [false, true] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let app = Arc::new(InPieces { limits: HttpLimits::default(), fails });
            let server = tokio::spawn(serve(listener, app, pending::<Pending<()>>()));
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            let read = client.read_to_string(&mut answer).await;
            match read {
                Ok(_) => assert!(!fails && answer.ends_with("\r\n\r\nab"), "{answer}"),
                Err(error) => {
                    assert!(fails, "{error}");
                    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
                }
            }
            server.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_stood_still_blames_no_client() {
        let connections = Arc::new(Connections::default());
        let sweeps = tokio::spawn(sweep(connections.clone(), Arc::new(Slow(HttpLimits::default()))));
        tokio::task::yield_now().await;
        tokio::time::advance(Duration::from_mins(1)).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let ticks = connections.ticks.now();
        assert!((1..20).contains(&ticks), "{ticks}");
        sweeps.abort();
    }

    #[tokio::test]
    async fn a_piece_may_take_longer_than_a_connection_may_be_idle() {
        let limits = HttpLimits { idle_timeout: IDLE_TIMEOUT, ..HttpLimits::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, Arc::new(Slow(limits)), pending::<Pending<()>>()));
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n"), "{answer}");
        server.abort();
    }
}
