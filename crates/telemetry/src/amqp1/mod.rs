//! What collectd publishes over AMQP 1.0 (its plugin amqp1, format JSON), received and posted as measures.
//!
//! `address` reads where to receive, `collectd` reads messages (pure, from bytes), `server` connects, and connects again.
//! Each host is a resource, each value of each plugin a metric of it, under the names that gnocchi-amqpd gives them.

mod address;
mod collectd;
mod server;

pub use address::{Address, BadAddress};
pub use collectd::{NotCollectd, Reading, read};
pub use server::{Server, ServerOptions, TlsOptions};
