//! The hot loop: keeps a number of connections busy with prebuilt requests and counts the answers.
//!
//! Light on purpose, so that the generator is not what is measured: raw sockets on one single-threaded runtime a thread, no
//! allocation and one clock reading a request. No pipelining: a connection has one request under way.

mod connection;
pub mod requests;
pub mod response;

use std::{
    net::SocketAddr,
    sync::{
        Barrier, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::{context::Stop, histogram::Histogram};
use connection::Connection;
pub use requests::{Headers, Requests};

/// When a load ends.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After so many requests.
    Count(u64),
    /// After so long; requests under way are finished.
    Elapsed(Duration),
}

/// Which connection sends which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The next request goes to whoever is free: requests start in order, but may overtake each other.
    Free,
    /// Request `i` belongs to connection `i` modulo their number: requests that are a multiple of it apart keep their order.
    Lanes,
}

/// A load to put on a server.
#[derive(Clone, Debug)]
pub struct Load<'a> {
    pub address: SocketAddr,
    pub requests: &'a Requests,
    pub connections: usize,
    pub threads: usize,
    pub until: Until,
    pub order: Order,
    /// Keep the bodies of the answers, with the index of their requests.
    pub keep_bodies: bool,
    /// Ends the load early, once requests under way are answered.
    pub stop: &'a Stop,
}

/// What came of a load.
#[derive(Debug, Default)]
pub struct Outcome {
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Requests answered with 2xx.
    pub calls: u64,
    /// 429 and 503: refused for now and sent again after a pause.
    pub refused: u64,
    /// Other answers, and requests without one.
    pub failures: u64,
    /// The first of them, in words.
    pub failure: Option<String>,
    /// Connections opened again because the peer closes them.
    pub reconnects: u64,
    /// Of requests answered with 2xx.
    pub latency: Histogram,
    pub body_bytes: u64,
    /// Where they were asked for: (index of the request, body of its answer).
    pub bodies: Vec<(u64, Vec<u8>)>,
}

impl Outcome {
    fn merge(&mut self, other: Outcome) {
        self.calls += other.calls;
        self.refused += other.refused;
        self.failures += other.failures;
        self.failure = self.failure.take().or(other.failure);
        self.reconnects += other.reconnects;
        self.latency.merge(&other.latency);
        self.body_bytes += other.body_bytes;
        self.bodies.extend(other.bodies);
    }
}

/// What the connections of a load share: the start, the number of the next request, and the end.
struct Shared<'a> {
    load: &'a Load<'a>,
    /// All threads wait here until every connection is open.
    opened: Barrier,
    start: OnceLock<Instant>,
    next: AtomicU64,
    /// How many connections have been numbered.
    lanes: AtomicU64,
}

impl Shared<'_> {
    /// The next request to send, unless the load has ended; `lane` is the connection's next one where it has its own.
    fn claim(&self, now: Instant, lane: &mut u64) -> Option<u64> {
        let index = match self.load.order {
            Order::Free => self.next.fetch_add(1, Ordering::Relaxed),
            Order::Lanes => std::mem::replace(lane, *lane + self.load.connections as u64),
        };
        let counted_out = matches!(self.load.until, Until::Count(count) if index >= count);
        (!counted_out && !self.is_over(now)).then_some(index)
    }

    /// Whether the time of the load is up.
    fn is_over(&self, now: Instant) -> bool {
        let start = *self.start.get().expect("the load has started");
        self.load.stop.is_set()
            || matches!(self.load.until, Until::Elapsed(duration) if now - start >= duration)
    }

    /// Opens connections, waits for the other threads, and drives them to the end of the load.
    async fn run_thread(&self, connections: usize) -> Outcome {
        let mut opened = Vec::new();
        for _ in 0..connections {
            let lane = self.lanes.fetch_add(1, Ordering::Relaxed);
            opened.push((lane, Connection::open(self.load.address).await));
        }
        self.opened.wait();
        let start = *self.start.get_or_init(Instant::now);
        let mut running: FuturesUnordered<_> =
            opened.into_iter().map(|(lane, connection)| connection::drive(connection, lane, self)).collect();
        let mut total = Outcome::default();
        while let Some(outcome) = running.next().await {
            total.merge(outcome);
        }
        total.elapsed = start.elapsed();
        total
    }
}

impl Load<'_> {
    /// Runs the load to its end; blocks. Connections are opened before the clock starts.
    pub fn run(&self) -> Outcome {
        let shared = Shared {
            load: self,
            opened: Barrier::new(self.threads),
            start: OnceLock::new(),
            next: AtomicU64::new(0),
            lanes: AtomicU64::new(0),
        };
        let mut total = Outcome::default();
        std::thread::scope(|scope| {
            let shared = &shared;
            let threads: Vec<_> = (0..self.threads)
                .map(|thread| {
                    // The remainder goes to the first threads.
                    let connections = (self.connections + self.threads - 1 - thread) / self.threads;
                    scope.spawn(move || {
                        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                        runtime
                            .expect("a runtime needs only file descriptors")
                            .block_on(shared.run_thread(connections))
                    })
                })
                .collect();
            for thread in threads {
                let outcome = thread.join().expect("a load thread does not panic");
                total.elapsed = total.elapsed.max(outcome.elapsed);
                total.merge(outcome);
            }
        });
        total
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
    };

    use super::*;
    use crate::noop::{NoopServer, POINTS};

    fn requests(method: &str, path: &str) -> Requests {
        let headers = Headers { host: "h".to_owned(), prefix: String::new() };
        Requests::Listed(vec![headers.bare(method, path)])
    }

    fn load(address: SocketAddr, requests: &Requests, until: Until) -> Load<'_> {
        let stop = Box::leak(Box::default());
        Load {
            address,
            requests,
            connections: 3,
            threads: 2,
            until,
            order: Order::Free,
            keep_bodies: false,
            stop,
        }
    }

    #[test]
    fn a_count_is_met_exactly() {
        let server = NoopServer::start().unwrap();
        let requests = requests("GET", "/v1/metric/x/measures");
        let mut load = load(server.address, &requests, Until::Count(10));
        load.keep_bodies = true;
        let outcome = load.run();
        assert_eq!((outcome.calls, outcome.failures, outcome.reconnects), (10, 0, 0), "{outcome:?}");
        let mut indices: Vec<u64> = outcome.bodies.iter().map(|(index, _)| *index).collect();
        indices.sort_unstable();
        assert_eq!(indices, (0..10).collect::<Vec<_>>());
        let points: Vec<serde_json::Value> = serde_json::from_slice(&outcome.bodies[0].1).unwrap();
        assert_eq!(points.len(), POINTS);
        assert_eq!(outcome.body_bytes, 10 * outcome.bodies[0].1.len() as u64);
    }

    /// Keeps the order in which requests come on each connection.
    fn recording_server(connections: usize) -> (SocketAddr, std::thread::JoinHandle<Vec<Vec<u8>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serve = |mut stream: std::net::TcpStream| {
            let (mut seen, mut buffer) = (Vec::new(), [0; 16]);
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                seen.extend_from_slice(&buffer[..count]);
                stream.write_all(b"HTTP/1.1 204 None\r\n\r\n").unwrap();
            }
            seen
        };
        let recorder = std::thread::spawn(move || {
            let threads: Vec<_> = (0..connections)
                .map(|_| listener.accept().unwrap().0)
                .map(|stream| std::thread::spawn(move || serve(stream)))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        (address, recorder)
    }

    #[test]
    fn lanes_keep_their_order() {
        let (address, recorder) = recording_server(3);
        let requests = Requests::Listed((0..20).map(|index| vec![index]).collect());
        let mut load = load(address, &requests, Until::Count(20));
        load.order = Order::Lanes;
        assert_eq!(load.run().calls, 20);
        let mut seen = recorder.join().unwrap();
        seen.sort();
        let expected: Vec<Vec<u8>> = (0..3).map(|lane| (lane..20).step_by(3).collect()).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_time_ends_the_load() {
        let server = NoopServer::start().unwrap();
        let requests = requests("POST", "/v1/metric/x/measures");
        let outcome = load(server.address, &requests, Until::Elapsed(Duration::from_millis(50))).run();
        assert!(outcome.calls > 0 && outcome.failures == 0, "{outcome:?}");
        assert!(outcome.elapsed >= Duration::from_millis(50), "{outcome:?}");
        assert!(!outcome.latency.is_empty());
    }

    /// Answers each connection's first request with the next of these, then closes.
    fn closing_server(answers: Vec<&'static str>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 1024]).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        address
    }

    #[test]
    fn closed_connections_are_opened_again_and_refusals_repeated() {
        const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        const GONE: &str = "HTTP/1.1 404 Gone\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let address = closing_server(vec![OK, OK, BUSY, GONE, OK]);
        let requests = requests("GET", "/");
        let mut load = load(address, &requests, Until::Count(4));
        (load.connections, load.threads) = (1, 1);
        let outcome = load.run();
        assert_eq!((outcome.calls, outcome.refused, outcome.failures), (3, 1, 1), "{outcome:?}");
        assert_eq!(outcome.failure.as_deref(), Some("status 404"));
        assert_eq!(outcome.reconnects, 4, "{outcome:?}");
    }

    #[test]
    fn nobody_there_is_a_failure() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let outcome = load(address, &requests("GET", "/"), Until::Count(2)).run();
        assert_eq!((outcome.calls, outcome.failures), (0, 2), "{outcome:?}");
    }
}
