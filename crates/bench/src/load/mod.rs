//! The hot loop: keeps connections busy with prebuilt requests and counts the responses.
//!
//! Deliberately light, so that the generator is not the bottleneck: raw sockets, a single-threaded runtime per thread,
//! no allocation and one clock reading per request. No pipelining: a connection has one request in flight.

mod connection;
mod outcome;
pub mod requests;
pub mod response;

use std::{
    cell::Cell,
    net::SocketAddr,
    sync::{
        Barrier, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::context::Stop;
use connection::Connection;
pub use connection::Secured;
pub use outcome::{Call, Outcome, ThreadTimes};
pub use requests::{Headers, IdText, Requests};

#[derive(Clone, Copy, Debug)]
pub enum Until {
    Count(u64),
    /// After this time; requests in flight are completed.
    Elapsed(Duration),
}

/// Which connection sends which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The next free connection sends the next request: they start in order, but may overtake each other.
    Free,
    /// Request `i` belongs to connection `i` modulo their number: requests of the same connection stay in order.
    Lanes,
}

/// How long requests in flight may take after the load was stopped.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// A server without any response for this time is given up.
pub const SILENCE_MAX: Duration = Duration::from_mins(2);

/// A load is stopped if its first requests, this many, all fail.
const FAILURES_HOPELESS: u64 = 100;

/// What to keep of successful requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Nothing,
    /// The response body, with the index of the request.
    Bodies,
    /// The id in the response: a response without one is a failure.
    Ids,
    Indices,
    /// The start and duration.
    Calls,
}

#[derive(Clone)]
pub struct Load<'a> {
    pub address: SocketAddr,
    /// Set if the server uses TLS.
    pub secured: Option<&'a Secured>,
    pub requests: &'a Requests,
    pub connections: usize,
    pub threads: usize,
    pub until: Until,
    pub order: Order,
    pub keep: Keep,
    /// Ends the load early, once requests in flight are completed.
    pub stop: &'a Stop,
    /// Counts completed and failed requests, for progress displays.
    pub done: Option<&'a AtomicU64>,
    /// After this time without any response the load ends, and the requests in flight count as failures.
    pub silence_max: Duration,
}

impl<'a> Load<'a> {
    /// A load with one thread and one connection that keeps nothing.
    pub fn new(address: SocketAddr, requests: &'a Requests, until: Until, stop: &'a Stop) -> Self {
        Load {
            address,
            secured: None,
            requests,
            connections: 1,
            threads: 1,
            until,
            order: Order::Free,
            keep: Keep::Nothing,
            stop,
            done: None,
            silence_max: SILENCE_MAX,
        }
    }
}

/// State shared by the connections of a load: the start, the number of the next request, and the end.
struct LoadProgress<'a> {
    load: &'a Load<'a>,
    /// All threads wait here until every connection is open.
    opened: Barrier,
    start: OnceLock<Instant>,
    next: AtomicU64,
    /// Number of connections numbered so far.
    lanes: AtomicU64,
    failures_first: AtomicU64,
    any_succeeded: AtomicBool,
}

impl LoadProgress<'_> {
    /// The next request to send, unless the load has ended; `lane` is the connection's next one with [`Order::Lanes`].
    fn claim(&self, now: Instant, lane: &mut u64) -> Option<u64> {
        let index = match self.load.order {
            Order::Free => self.next.fetch_add(1, Ordering::Relaxed),
            Order::Lanes => std::mem::replace(lane, *lane + self.load.connections as u64),
        };
        let counted_out = matches!(self.load.until, Until::Count(count) if index >= count);
        (!counted_out && !self.is_over(now)).then_some(index)
    }

    /// Whether the time of the load is over, or it is hopeless.
    fn is_over(&self, now: Instant) -> bool {
        let start = *self.start.get().expect("the load has started");
        self.load.stop.is_set()
            || matches!(self.load.until, Until::Elapsed(duration) if now - start >= duration)
            || self.failures_first.load(Ordering::Relaxed) >= FAILURES_HOPELESS
    }

    fn record(&self, outcome: &mut Outcome, begin: Instant, end: Instant) {
        outcome.latency.record(end - begin);
        if self.load.keep == Keep::Calls {
            let start = *self.start.get().expect("the load has started");
            let begin_s = begin.saturating_duration_since(start).as_secs_f64();
            outcome.timeline.push(Call { begin_s, latency_s: (end - begin).as_secs_f64() });
        }
        if !self.any_succeeded.load(Ordering::Relaxed) {
            self.any_succeeded.store(true, Ordering::Relaxed);
        }
        self.count_done();
    }

    fn failed(&self, outcome: &mut Outcome, words: impl FnOnce() -> String, index: u64) {
        outcome.failures += 1;
        outcome.failure.get_or_insert_with(|| format!("{}: {}", self.load.requests.line(index), words()));
        if !self.any_succeeded.load(Ordering::Relaxed) {
            self.failures_first.fetch_add(1, Ordering::Relaxed);
        }
        self.count_done();
    }

    fn count_done(&self) {
        if let Some(done) = self.load.done {
            done.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Opens connections, waits for the other threads, and drives them until the load ends.
    async fn run_thread(&self, connections: usize) -> Outcome {
        let mut opened = Vec::new();
        for _ in 0..connections {
            let lane = self.lanes.fetch_add(1, Ordering::Relaxed);
            opened.push((lane, Connection::open(self.load.address, self.load.secured).await));
        }
        self.opened.wait();
        let start = *self.start.get_or_init(Instant::now);
        let times = ThreadTimes::now();
        let mut outcomes: Vec<Outcome> = (0..connections).map(|_| Outcome::default()).collect();
        let unanswered = self.drive_all(opened, &mut outcomes).await;
        let mut total = Outcome { elapsed: start.elapsed(), ..Outcome::default() };
        total.times = ThreadTimes::now().zip(times).map(|(after, before)| after.since(before));
        for outcome in outcomes {
            total.merge(outcome);
        }
        if unanswered > 0 {
            total.failures += unanswered;
            let words = format!("no answer within {} s", self.load.silence_max.as_secs_f64());
            total.failure.get_or_insert(words);
        }
        total
    }

    /// Runs connections to their end; returns the number of those that timed out.
    async fn drive_all(&self, opened: Vec<(u64, Connection)>, outcomes: &mut [Outcome]) -> u64 {
        const POLL_INTERVAL: Duration = Duration::from_millis(100);
        let answered = Cell::new(0);
        let mut running: FuturesUnordered<_> = opened
            .into_iter()
            .zip(outcomes)
            .map(|((lane, connection), outcome)| {
                connection::drive(connection, lane, self, &answered, outcome)
            })
            .collect();
        let (mut seen, mut last_answer, mut stopped) = (0, Instant::now(), None);
        loop {
            match tokio::time::timeout(POLL_INTERVAL, running.next()).await {
                Ok(Some(())) => continue,
                Ok(None) => return 0,
                Err(_) => {}
            }
            let now = Instant::now();
            if answered.get() != seen {
                (seen, last_answer) = (answered.get(), now);
            }
            if self.load.stop.is_set() && now - *stopped.get_or_insert(now) >= STOP_GRACE {
                return 0;
            }
            if now - last_answer >= self.load.silence_max {
                return running.len() as u64;
            }
        }
    }
}

impl Load<'_> {
    /// Runs the load; blocks. Connections are opened before the clock starts.
    pub fn run(&self) -> Outcome {
        let shared = LoadProgress {
            load: self,
            opened: Barrier::new(self.threads),
            start: OnceLock::new(),
            next: AtomicU64::new(0),
            lanes: AtomicU64::new(0),
            failures_first: AtomicU64::new(0),
            any_succeeded: AtomicBool::new(false),
        };
        let mut total = Outcome::default();
        std::thread::scope(|scope| {
            let shared = &shared;
            let threads: Vec<_> = (0..self.threads)
                .map(|thread| {
                    // The first threads get the remainder.
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
pub(crate) mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::{TcpListener, TcpStream},
        thread::JoinHandle,
    };

    use super::*;
    use crate::noop::{NoopServer, POINTS};

    /// Serves this number of connections, each on its own thread, which gets the connection's number.
    pub(crate) fn serve<T: Send + 'static>(
        connections: usize,
        serve: impl Fn(usize, TcpStream) -> T + Send + Sync + 'static,
    ) -> (SocketAddr, JoinHandle<Vec<T>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let serve = &serve;
            std::thread::scope(|scope| {
                let accept = |number| {
                    let (stream, _) = listener.accept().unwrap();
                    scope.spawn(move || serve(number, stream))
                };
                let threads: Vec<_> = (0..connections).map(accept).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            })
        });
        (address, server)
    }

    fn requests(method: &str, path: &str) -> Requests {
        let headers = Headers::new("h", "");
        Requests::listed(vec![headers.bare(method, path)])
    }

    fn load(address: SocketAddr, requests: &Requests, until: Until) -> Load<'_> {
        let stop = Box::leak(Box::default());
        Load { connections: 3, threads: 2, ..Load::new(address, requests, until, stop) }
    }

    #[test]
    fn a_count_is_met_exactly() {
        let server = NoopServer::start().unwrap();
        let requests = requests("GET", "/v1/metric/x/measures");
        let mut load = load(server.address, &requests, Until::Count(10));
        load.keep = Keep::Bodies;
        let outcome = load.run();
        assert_eq!((outcome.calls, outcome.failures), (10, 0), "{outcome:?}");
        let mut indices: Vec<u64> = outcome.bodies.iter().map(|(index, _)| *index).collect();
        indices.sort_unstable();
        assert_eq!(indices, (0..10).collect::<Vec<_>>());
        let points: Vec<serde_json::Value> = serde_json::from_slice(&outcome.bodies[0].1).unwrap();
        assert_eq!(points.len(), POINTS);
        assert!(outcome.bodies.iter().all(|(_, body)| body.len() == outcome.bodies[0].1.len()));
    }

    #[test]
    fn lanes_keep_their_order() {
        // Records the order in which requests arrive on each connection.
        let (address, recorder) = serve(3, |_, mut stream| {
            let (mut seen, mut buffer) = (Vec::new(), [0; 16]);
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                seen.extend_from_slice(&buffer[..count]);
                stream.write_all(b"HTTP/1.1 204 None\r\n\r\n").unwrap();
            }
            seen
        });
        let requests = Requests::listed((0..20).map(|index| vec![index]).collect());
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
        let run = || load(server.address, &requests, Until::Elapsed(Duration::from_millis(50))).run();
        let mut outcome = run();
        // Where the machine stood still all of the time may have been over before the first call.
        for _ in 0..20 {
            if outcome.calls == 0 {
                outcome = run();
            }
        }
        assert!(outcome.calls > 0 && outcome.failures == 0, "{outcome:?}");
        assert!(outcome.elapsed >= Duration::from_millis(50), "{outcome:?}");
        assert!(!outcome.latency.is_empty());
    }

    #[test]
    fn closed_connections_are_opened_again_and_refusals_repeated() {
        const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        const GONE: &str = "HTTP/1.1 404 Gone\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        // Answers each connection's first request, then closes.
        let (address, _) = serve(5, |number, mut stream| {
            let _ = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all([OK, OK, BUSY, GONE, OK][number].as_bytes()).unwrap();
        });
        let requests = requests("GET", "/");
        let mut load = load(address, &requests, Until::Count(4));
        (load.connections, load.threads) = (1, 1);
        let outcome = load.run();
        assert_eq!((outcome.calls, outcome.refused, outcome.failures), (3, 1, 1), "{outcome:?}");
        assert_eq!(outcome.failure.as_deref(), Some("GET /: 404"));
    }

    #[test]
    fn nobody_there_is_a_failure() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let outcome = load(address, &requests("GET", "/"), Until::Count(2)).run();
        assert_eq!((outcome.calls, outcome.failures), (0, 2), "{outcome:?}");
    }
}
