//! Responses, with bodies that are known or written while the client reads.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use hyper::{
    StatusCode,
    body::{Body, Frame, SizeHint},
    header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION},
};
use parking_lot::Mutex;

pub type Response = hyper::Response<ReplyBody>;

/// Pieces produced asynchronously.
type Pieces = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// A response's body: bytes, or pieces produced while the client reads.
pub enum ReplyBody {
    Whole(Option<Bytes>),
    Pieces(Box<dyn Iterator<Item = Bytes> + Send + Sync>),
    /// Pieces produced asynchronously. After an error the connection is closed without the last chunk, or reset (HTTP/1.0),
    /// so that the client detects the truncation. (The mutex only makes it `Sync`; it is never locked.)
    Computed(Mutex<Pieces>),
}

impl ReplyBody {
    pub fn empty() -> Self {
        ReplyBody::Whole(None)
    }

    pub fn stream(pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        ReplyBody::Computed(Mutex::new(Box::pin(pieces)))
    }

    /// Calls `look` with each piece that the client reads, unless the size of the whole is known.
    #[must_use]
    pub fn inspect_pieces(self, mut look: impl FnMut(&Bytes) + Send + Sync + 'static) -> Self {
        match self {
            ReplyBody::Whole(_) => self,
            ReplyBody::Pieces(pieces) => ReplyBody::Pieces(Box::new(pieces.inspect(look))),
            ReplyBody::Computed(pieces) => ReplyBody::stream(pieces.into_inner().inspect(move |piece| {
                if let Ok(piece) = piece {
                    look(piece);
                }
            })),
        }
    }
}

impl From<&'static [u8]> for ReplyBody {
    fn from(bytes: &'static [u8]) -> Self {
        ReplyBody::Whole((!bytes.is_empty()).then(|| Bytes::from_static(bytes)))
    }
}

impl From<Vec<u8>> for ReplyBody {
    fn from(bytes: Vec<u8>) -> Self {
        ReplyBody::Whole((!bytes.is_empty()).then(|| bytes.into()))
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = match &mut *self {
            ReplyBody::Whole(bytes) => bytes.take(),
            ReplyBody::Pieces(pieces) => pieces.next(),
            ReplyBody::Computed(pieces) => {
                let piece = pieces.get_mut().as_mut().poll_next(cx);
                return piece.map(|piece| piece.map(|piece| piece.map(Frame::data)));
            }
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, ReplyBody::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ReplyBody::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            ReplyBody::Pieces(_) | ReplyBody::Computed(_) => SizeHint::default(),
        }
    }
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A response without headers or body.
pub fn bare(status: StatusCode) -> Response {
    let mut response = Response::new(ReplyBody::empty());
    *response.status_mut() = status;
    response
}

/// A response with this body and content type.
pub fn with_body(status: StatusCode, content_type: HeaderValue, body: impl Into<ReplyBody>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// A response with a JSON document.
pub fn json(status: StatusCode, document: impl Into<ReplyBody>) -> Response {
    with_body(status, JSON, document)
}

/// 200, with a JSON document.
pub fn ok(document: impl Into<ReplyBody>) -> Response {
    json(StatusCode::OK, document)
}

/// 202: accepted and durable.
pub fn accepted() -> Response {
    json(StatusCode::ACCEPTED, ReplyBody::empty())
}

/// 204.
pub fn no_content() -> Response {
    bare(StatusCode::NO_CONTENT)
}

/// 201, with the created resource's URL in `Location`.
pub fn created(location: &str, document: impl Into<ReplyBody>) -> Response {
    with_header(json(StatusCode::CREATED, document), LOCATION, location)
}

/// The same response with one more header, if the text is a valid header value.
pub fn with_header(mut response: Response, name: HeaderName, text: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(text) {
        response.headers_mut().insert(name, value);
    }
    response
}
