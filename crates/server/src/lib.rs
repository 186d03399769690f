//! HTTP server: connections within limits, TLS, bodies, compression, CORS. An [`Application`] handles the
//! requests; this crate knows nothing of it.

mod accept;
mod body;
mod connection;
mod cors;
mod followed;
mod gunzip;
pub mod head;
mod limits;
mod long_work;
mod refusal;
pub mod reply;
mod server;
mod tls;

pub use accept::{acceptable, join_accept};
pub use body::{BodyBudget, RequestBody};
pub use connection::Watch;
pub use cors::CorsOptions;
pub use followed::Followed;
pub use gunzip::gunzip;
pub use limits::HttpLimits;
pub use long_work::{LongWork, SHORT_BYTES_MAX, without_blocking_tasks};
pub use refusal::HttpRefusal;
pub use reply::{ReplyBody, Response};
pub use server::{Application, Listener, serve};
pub use tls::{Tls, TlsError};
