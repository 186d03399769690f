//! Limits of the HTTP server. Limits on the content of requests are the application's.

use std::time::Duration;

/// Limits on clients. Each default is far above what Gnocchi's clients need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Open connections; further ones are closed. Without TLS they are answered 503 first.
    pub connections_max: usize,
    /// Bytes of a request's line and headers (431).
    pub header_bytes_max: usize,
    /// Headers of a request.
    pub headers_max: usize,
    /// From the first byte of a request, or the opening of the connection, to the end of its headers.
    pub header_timeout: Duration,
    /// How long a connection may stay idle between requests.
    pub idle_timeout: Duration,
    /// Bytes of a request's body (413).
    pub body_bytes_max: usize,
    /// Bytes of all bodies in memory: being read, or of requests not answered yet (503).
    pub bodies_bytes_max: usize,
    /// How long a body may stall. A client below `body_bytes_per_second_min` uses this time up.
    pub body_grace: Duration,
    /// The minimum transfer rate of a client, for bodies and for responses.
    pub body_bytes_per_second_min: u64,
    /// How long a response may stall. A client below `body_bytes_per_second_min` uses this time up.
    pub write_timeout: Duration,
    /// How long input is discarded after a body has been refused.
    pub linger_timeout: Duration,
    /// How long requests in progress may take to finish when the server stops.
    pub drain_timeout: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        HttpLimits {
            connections_max: 10_000,
            header_bytes_max: 64 << 10,
            headers_max: 100,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            body_bytes_max: 32 << 20,
            bodies_bytes_max: 512 << 20,
            body_grace: Duration::from_secs(10),
            body_bytes_per_second_min: 8 << 10,
            write_timeout: Duration::from_secs(30),
            linger_timeout: Duration::from_secs(2),
            drain_timeout: Duration::from_secs(30),
        }
    }
}
