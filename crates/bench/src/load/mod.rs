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

use crate::histogram::Histogram;
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

/// A load to put on a server.
#[derive(Clone, Debug)]
pub struct Load<'a> {
    pub address: SocketAddr,
    pub requests: &'a Requests,
    pub connections: usize,
    pub threads: usize,
    pub until: Until,
    /// Keep the bodies of the answers, with the index of their requests.
    pub keep_bodies: bool,
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
}

impl Shared<'_> {
    /// The next request to send, unless the load has ended.
    fn claim(&self, now: Instant) -> Option<u64> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let counted_out = matches!(self.load.until, Until::Count(count) if index >= count);
        (!counted_out && !self.is_over(now)).then_some(index)
    }

    /// Whether the time of the load is up.
    fn is_over(&self, now: Instant) -> bool {
        let start = *self.start.get().expect("the load has started");
        matches!(self.load.until, Until::Elapsed(duration) if now - start >= duration)
    }

    /// Opens connections, waits for the other threads, and drives them to the end of the load.
    async fn run_thread(&self, connections: usize) -> Outcome {
        let mut opened = Vec::new();
        for _ in 0..connections {
            opened.push(Connection::open(self.load.address).await);
        }
        self.opened.wait();
        let start = *self.start.get_or_init(Instant::now);
        let mut running: FuturesUnordered<_> =
            opened.into_iter().map(|connection| connection::drive(connection, self)).collect();
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
