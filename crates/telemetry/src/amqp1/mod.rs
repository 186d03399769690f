//! Receives what collectd publishes over AMQP 1.0 (plugin amqp1, format JSON), and posts it as measures.
//!
//! `address` parses the source, `collectd` parses messages (pure), `server` connects and reconnects. Each host is a
//! resource, each value of each plugin a metric of it, named as gnocchi-amqpd names them.

mod address;
mod collectd;
mod server;

pub use address::{Address, BadAddress};
pub use collectd::{CollectdValue, NotCollectd, read};
pub use server::{Amqp1Options, Amqp1Server, TlsOptions};
