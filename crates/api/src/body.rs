//! Reads request bodies, within the limits of size, of memory and of time.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use crate::{connection::Watch, error::ApiError};

/// How many bytes of bodies are held at the moment, by all requests together.
#[derive(Debug, Default)]
pub struct BodyBudget(AtomicUsize);

/// A part of the budget; given back when dropped.
#[derive(Debug)]
struct Reserved<'b> {
    budget: &'b BodyBudget,
    bytes: usize,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Reserved<'_> {
    fn grow(&mut self, bytes: usize, max: usize) -> Result<(), ApiError> {
        self.bytes += bytes;
        let held = self.budget.0.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if held > max { Err(ApiError::unavailable("Too many requests are being read")) } else { Ok(()) }
    }
}

/// A request's body, not read yet. Its connection watches how fast it arrives.
pub struct RequestBody<'a> {
    pub(crate) incoming: Incoming,
    pub(crate) watch: Option<Arc<Watch>>,
    pub(crate) budget: &'a BodyBudget,
    pub(crate) bytes_max: usize,
    pub(crate) bodies_bytes_max: usize,
}

impl RequestBody<'_> {
    /// The whole body.
    ///
    /// # Errors
    /// 413 where it is too large, 503 where too many bodies are being read, 400 where the client stops in the middle.
    pub async fn read(&mut self) -> Result<Bytes, ApiError> {
        self.tell(Watch::begin_body);
        let body = self.read_frames().await;
        self.tell(Watch::begin_handling);
        body
    }

    fn tell(&self, what: impl FnOnce(&Watch)) {
        if let Some(watch) = &self.watch {
            what(watch);
        }
    }

    async fn read_frames(&mut self) -> Result<Bytes, ApiError> {
        let too_large = || ApiError::too_large(format!("The body is larger than {} bytes", self.bytes_max));
        let expected = self.incoming.size_hint().lower() as usize;
        if expected > self.bytes_max {
            return Err(too_large());
        }
        let mut reserved = Reserved { budget: self.budget, bytes: 0 };
        let mut first = Bytes::new();
        let mut joined: Vec<u8> = Vec::new();
        let mut length = 0;
        while let Some(frame) = self.incoming.frame().await {
            let frame = frame.map_err(|_| ApiError::bad_request("The body ended early"))?;
            let Ok(data) = frame.into_data() else { continue };
            self.tell(|watch| watch.received(data.len()));
            length += data.len();
            if length > self.bytes_max {
                return Err(too_large());
            }
            reserved.grow(data.len(), self.bodies_bytes_max)?;
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
    pub(crate) async fn drain(&mut self) {
        self.tell(Watch::begin_body);
        let mut left = self.bytes_max;
        while let Some(Ok(frame)) = self.incoming.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            self.tell(|watch| watch.received(length));
            let Some(rest) = left.checked_sub(length) else { break };
            left = rest;
        }
        self.tell(Watch::begin_handling);
    }
}
