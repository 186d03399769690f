//! Reads request bodies within limits on size, memory and time.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use parking_lot::Mutex;

use crate::{connection::Watch, limits::HttpLimits, long_work::LongWork, refusal::HttpRefusal};

/// Size limit, in bytes, of bodies that hold no list: settings and form-encoded queries.
pub const SMALL_BYTES_MAX: usize = 1 << 20;

/// Bodies of at least this many bytes count against their peer's share of the budget.
const COUNTED_BYTES_MIN: usize = 64 << 10;

/// A peer may hold at most `1 / PEER_PART` of the budget. It may be a proxy for many clients.
const PEER_PART: usize = 2;

/// Bytes of request bodies in memory: in total, and per peer.
#[derive(Debug, Default)]
pub struct BodyBudget {
    held: AtomicUsize,
    of_peers: Mutex<HashMap<IpAddr, usize>>,
}

/// A reservation in the budget; released on drop.
#[derive(Debug)]
struct Reserved<'b> {
    budget: &'b BodyBudget,
    peer: Option<IpAddr>,
    bytes: usize,
    /// The part of `bytes` that is counted against the peer.
    counted: usize,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
        let (Some(peer), 1..) = (self.peer, self.counted) else { return };
        let mut of_peers = self.budget.of_peers.lock();
        let held = of_peers.get_mut(&peer).expect("this is counted");
        *held -= self.counted;
        if *held == 0 {
            of_peers.remove(&peer);
        }
    }
}

impl<'b> Reserved<'b> {
    fn nothing(budget: &'b BodyBudget, peer: Option<IpAddr>) -> Self {
        Reserved { budget, peer, bytes: 0, counted: 0 }
    }

    /// Reserves more bytes, within a budget of `max` bytes.
    ///
    /// # Errors
    /// 503 if the budget, or the peer's share of it, is exhausted.
    fn grow(&mut self, bytes: usize, max: usize) -> Result<(), HttpRefusal> {
        self.bytes += bytes;
        let held = self.budget.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let held_by_peer = self.count();
        if held > max || held_by_peer > max / PEER_PART {
            return Err(HttpRefusal::unavailable("Too many requests are being read"));
        }
        Ok(())
    }

    /// Counts this reservation against the peer; returns the bytes of all the peer's bodies.
    fn count(&mut self) -> usize {
        let Some(peer) = self.peer.filter(|_| self.bytes >= COUNTED_BYTES_MIN) else { return 0 };
        let mut of_peers = self.budget.of_peers.lock();
        let held = of_peers.entry(peer).or_default();
        *held += self.bytes - self.counted;
        self.counted = self.bytes;
        *held
    }
}

/// The capacity of a buffer that must grow, as a multiple of what has arrived.
const CAPACITY_FACTOR: usize = 2;

/// Up to this many announced bytes are reserved at once: copying each body of some thousand measures while its buffer grows
/// takes 4 % of the processor time of its request.
const RESERVED_BYTES_MAX: usize = 512 << 10;

/// The pieces of a body.
#[derive(Debug, Default)]
struct Pieces {
    /// Most bodies arrive in one piece, which is returned without a copy.
    first: Bytes,
    /// All pieces, if there are several.
    joined: Vec<u8>,
    length: usize,
}

impl Pieces {
    /// Adds a piece of a body for which the client has announced `expected` bytes, 0 if it has not. The budget counts only
    /// what has arrived, so the capacity is not much larger: many clients may announce long bodies and send nothing.
    fn push(&mut self, data: Bytes, expected: usize) {
        let is_first = self.length == 0;
        self.length += data.len();
        if is_first {
            self.first = data;
            return;
        }
        if self.joined.capacity() < self.length {
            let mut capacity = self.length.saturating_mul(CAPACITY_FACTOR);
            if expected >= self.length {
                capacity = capacity.max(RESERVED_BYTES_MAX).min(expected);
            }
            self.joined.reserve_exact(capacity - self.joined.len());
        }
        if self.joined.is_empty() {
            self.joined.extend_from_slice(&self.first);
        }
        self.joined.extend_from_slice(&data);
    }

    fn joined(self) -> Bytes {
        if self.joined.is_empty() { self.first } else { self.joined.into() }
    }
}

/// A request's body, not read yet. The connection's [`Watch`] enforces a minimum transfer rate.
pub struct RequestBody<'a> {
    incoming: Incoming,
    watch: Option<Arc<Watch>>,
    budget: &'a BodyBudget,
    limits: &'a HttpLimits,
    /// Limits concurrent processing of large bodies.
    pub long_work: &'a LongWork,
    /// Held until the request is answered, unless the body is refused: it stays in memory while it is processed.
    reserved: Option<Reserved<'a>>,
    /// The end has been seen. Only of a body with a Content-Length `incoming` knows it.
    has_ended: bool,
}

impl<'a> RequestBody<'a> {
    /// `watch` is notified of each received piece.
    pub fn new(
        incoming: Incoming,
        watch: Option<Arc<Watch>>,
        budget: &'a BodyBudget,
        limits: &'a HttpLimits,
        long_work: &'a LongWork,
    ) -> Self {
        RequestBody { incoming, watch, budget, limits, long_work, reserved: None, has_ended: false }
    }

    /// Whether the body has been read to its end.
    pub fn is_read(&self) -> bool {
        self.has_ended || self.incoming.is_end_stream()
    }

    /// The remaining bytes, if the client sent a Content-Length.
    pub fn bytes_left(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }
}

impl RequestBody<'_> {
    /// The whole body.
    ///
    /// # Errors
    /// 413 if it is too large, 503 if the budget is exhausted, 400 if it ends early.
    pub async fn read(&mut self) -> Result<Bytes, HttpRefusal> {
        self.read_at_most(self.limits.body_bytes_max).await
    }

    /// [`RequestBody::read`] with a limit of [`SMALL_BYTES_MAX`], for bodies that hold no list.
    pub async fn read_small(&mut self) -> Result<Bytes, HttpRefusal> {
        self.read_at_most(self.limits.body_bytes_max.min(SMALL_BYTES_MAX)).await
    }

    async fn read_at_most(&mut self, bytes_max: usize) -> Result<Bytes, HttpRefusal> {
        self.notify(Watch::begin_body);
        let body = self.read_frames(bytes_max).await;
        if body.is_err() {
            // What had arrived is dropped. Its room is for other bodies while the rest is discarded, which may take long.
            self.reserved = None;
        }
        self.notify(Watch::begin_handling);
        body
    }

    fn notify(&self, what: impl FnOnce(&Watch)) {
        if let Some(watch) = &self.watch {
            what(watch);
        }
    }

    async fn read_frames(&mut self, bytes_max: usize) -> Result<Bytes, HttpRefusal> {
        let too_large = || HttpRefusal::too_large(format!("The body is larger than {bytes_max} bytes"));
        let limits = self.limits;
        let expected = self.incoming.size_hint().lower() as usize;
        if expected > bytes_max {
            return Err(too_large());
        }
        let peer = self.watch.as_ref().map(|watch| watch.peer());
        self.reserved = Some(Reserved::nothing(self.budget, peer));
        let mut pieces = Pieces::default();
        while let Some(frame) = self.incoming.frame().await {
            let frame = frame.map_err(|_| HttpRefusal::bad_request("The body ended early"))?;
            let Ok(data) = frame.into_data() else { continue };
            self.notify(|watch| watch.received(data.len()));
            if pieces.length + data.len() > bytes_max {
                return Err(too_large());
            }
            if let Some(reserved) = &mut self.reserved {
                reserved.grow(data.len(), limits.bodies_bytes_max)?;
            }
            pieces.push(data, expected);
        }
        self.has_ended = true;
        Ok(pieces.joined())
    }

    /// Reads and discards the rest, so that the client receives the response. False if the body does not end within its
    /// limit.
    pub async fn drain(&mut self) -> bool {
        self.notify(Watch::begin_body);
        let mut left = self.limits.body_bytes_max;
        let has_ended = loop {
            let Some(frame) = self.incoming.frame().await else { break true };
            let Ok(frame) = frame else { break false };
            let length = frame.data_ref().map_or(0, Bytes::len);
            self.notify(|watch| watch.received(length));
            let Some(rest) = left.checked_sub(length) else { break false };
            left = rest;
        };
        self.notify(Watch::begin_handling);
        has_ended
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, io};

    use hyper::{Request, server::conn::http1, service::service_fn};
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;
    use crate::reply;

    /// Otherwise one refused body would have others refused until its rest is discarded, and those the next ones.
    #[tokio::test]
    async fn a_refused_body_leaves_its_room_to_others() {
        let limits = HttpLimits { bodies_bytes_max: 1000, ..HttpLimits::default() };
        let (budget, long_work) = (BodyBudget::default(), LongWork::default());
        let service = service_fn(|request: Request<Incoming>| {
            let (budget, limits, long_work) = (&budget, &limits, &long_work);
            async move {
                let mut body = RequestBody::new(request.into_body(), None, budget, limits, long_work);
                let refusal = body.read().await.expect_err("it is too long");
                assert_eq!(budget.held.load(Ordering::Relaxed), 0);
                Ok::<_, Infallible>(reply::bare(refusal.status))
            }
        });
        let (mut client, connection) = duplex(64 << 10);
        let serves = http1::Builder::new().serve_connection(TokioIo::new(connection), service);
        let asks = async {
            let piece = format!("258\r\n{}\r\n", "x".repeat(600));
            let head =
                "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
            client.write_all(format!("{head}{piece}{piece}0\r\n\r\n").as_bytes()).await?;
            let mut answer = String::new();
            client.read_to_string(&mut answer).await?;
            io::Result::Ok(answer)
        };
        let (_, answer) = tokio::join!(serves, asks);
        assert!(answer.unwrap().starts_with("HTTP/1.1 503 "));
    }

    #[test]
    fn a_body_has_little_more_room_than_has_arrived() {
        let body: Vec<u8> = (0..1_500_000_u32).map(|number| number as u8).collect();
        for expected in [0, body.len(), 32 << 20] {
            for piece_bytes in [7, 1000, 64 << 10, body.len()] {
                let mut pieces = Pieces::default();
                for piece in body.chunks(piece_bytes) {
                    pieces.push(Bytes::new(), expected);
                    pieces.push(Bytes::copy_from_slice(piece), expected);
                    let few = if expected > 0 { RESERVED_BYTES_MAX } else { 0 };
                    assert!(pieces.joined.capacity() <= few.max(pieces.length * CAPACITY_FACTOR));
                }
                assert_eq!(pieces.joined(), body, "{expected} {piece_bytes}");
            }
        }
        assert_eq!(Pieces::default().joined(), Bytes::new());
    }

    #[test]
    fn a_peer_leaves_a_part_to_the_others() {
        let budget = BodyBudget::default();
        let (greedy, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let max = 16 << 20;
        let mut held: Vec<Reserved<'_>> = Vec::new();
        let mut take = |peer, bytes| {
            let mut reserved = Reserved::nothing(&budget, Some(peer));
            let is_taken = reserved.grow(1000, max).is_ok() && reserved.grow(bytes, max).is_ok();
            if is_taken {
                held.push(reserved);
            }
            is_taken
        };
        assert_eq!((0..20).filter(|_| take(greedy, 1 << 20)).count(), 7);
        assert!(take(other, 7 << 20) && take(greedy, 1000));
        assert!(!take(other, 2 << 20));
        held.clear();
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
        assert!(budget.of_peers.lock().is_empty());
    }
}
