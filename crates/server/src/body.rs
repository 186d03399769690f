//! Reads request bodies, within the limits of size, of memory and of time.

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

/// Bytes of a body that needs no list: settings, and queries in forms.
pub const SMALL_BYTES_MAX: usize = 1 << 20;

/// Bodies of more bytes count for their peer.
const COUNTED_BYTES_MIN: usize = 64 << 10;

/// One peer, which may be a proxy for many clients, holds at most half of what may be held, so that others have the rest.
const PEER_PART: usize = 2;

/// How many bytes of bodies are held at the moment, read or being read, by all requests together and by those of each peer.
#[derive(Debug, Default)]
pub struct BodyBudget {
    held: AtomicUsize,
    of_peers: Mutex<HashMap<IpAddr, usize>>,
}

/// A part of the budget; given back when dropped.
#[derive(Debug)]
struct Reserved<'b> {
    budget: &'b BodyBudget,
    peer: Option<IpAddr>,
    bytes: usize,
    /// Those of them that count for the peer.
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

    /// Takes more of the budget of `max` bytes.
    ///
    /// # Errors
    /// 503 where there is no more, or no more for the peer.
    fn grow(&mut self, bytes: usize, max: usize) -> Result<(), HttpRefusal> {
        self.bytes += bytes;
        let held = self.budget.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let held_by_peer = self.count();
        if held > max || held_by_peer > max / PEER_PART {
            return Err(HttpRefusal::unavailable("Too many requests are being read"));
        }
        Ok(())
    }

    /// Counts what is reserved for the peer; bytes of all its bodies.
    fn count(&mut self) -> usize {
        let Some(peer) = self.peer.filter(|_| self.bytes >= COUNTED_BYTES_MIN) else { return 0 };
        let mut of_peers = self.budget.of_peers.lock();
        let held = of_peers.entry(peer).or_default();
        *held += self.bytes - self.counted;
        self.counted = self.bytes;
        *held
    }
}

/// A request's body, not read yet. Its connection watches how fast it arrives.
pub struct RequestBody<'a> {
    incoming: Incoming,
    watch: Option<Arc<Watch>>,
    budget: &'a BodyBudget,
    limits: &'a HttpLimits,
    /// Where a large body is worked on, once it is there.
    pub long_work: &'a LongWork,
    /// What it has of the budget: until the request is answered, since it waits to be worked on as a whole.
    reserved: Option<Reserved<'a>>,
}

impl<'a> RequestBody<'a> {
    /// `watch` is told how the body comes in.
    pub fn new(
        incoming: Incoming,
        watch: Option<Arc<Watch>>,
        budget: &'a BodyBudget,
        limits: &'a HttpLimits,
        long_work: &'a LongWork,
    ) -> Self {
        RequestBody { incoming, watch, budget, limits, long_work, reserved: None }
    }

    /// Whether nothing of it is left to be read.
    pub fn is_read(&self) -> bool {
        self.incoming.is_end_stream()
    }

    /// How many bytes are left, where the client has said so.
    pub fn bytes_left(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }
}

impl RequestBody<'_> {
    /// The whole body.
    ///
    /// # Errors
    /// 413 where it is too large, 503 where too many bodies are being read, 400 where the client stops in the middle.
    pub async fn read(&mut self) -> Result<Bytes, HttpRefusal> {
        self.read_at_most(self.limits.body_bytes_max).await
    }

    /// The whole body, where it holds no list: [`RequestBody::read`] with [`SMALL_BYTES_MAX`].
    pub async fn read_small(&mut self) -> Result<Bytes, HttpRefusal> {
        self.read_at_most(self.limits.body_bytes_max.min(SMALL_BYTES_MAX)).await
    }

    async fn read_at_most(&mut self, bytes_max: usize) -> Result<Bytes, HttpRefusal> {
        self.tell(Watch::begin_body);
        let body = self.read_frames(bytes_max).await;
        self.tell(Watch::begin_handling);
        body
    }

    fn tell(&self, what: impl FnOnce(&Watch)) {
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
        let mut first = Bytes::new();
        let mut joined: Vec<u8> = Vec::new();
        let mut length = 0;
        while let Some(frame) = self.incoming.frame().await {
            let frame = frame.map_err(|_| HttpRefusal::bad_request("The body ended early"))?;
            let Ok(data) = frame.into_data() else { continue };
            self.tell(|watch| watch.received(data.len()));
            length += data.len();
            if length > bytes_max {
                return Err(too_large());
            }
            if let Some(reserved) = &mut self.reserved {
                reserved.grow(data.len(), limits.bodies_bytes_max)?;
            }
            // Most bodies come in one piece, which is used where it lies.
            if length == data.len() {
                first = data;
            } else {
                if joined.is_empty() {
                    joined.reserve(expected.max(length));
                    joined.extend_from_slice(&first);
                }
                joined.extend_from_slice(&data);
            }
        }
        Ok(if joined.is_empty() { first } else { joined.into() })
    }

    /// Reads the rest and forgets it, so that the client gets to read the answer.
    pub async fn drain(&mut self) {
        self.tell(Watch::begin_body);
        let mut left = self.limits.body_bytes_max;
        while let Some(Ok(frame)) = self.incoming.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            self.tell(|watch| watch.received(length));
            let Some(rest) = left.checked_sub(length) else { break };
            left = rest;
        }
        self.tell(Watch::begin_handling);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
