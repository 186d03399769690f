//! The message bus: `RabbitMQ` by AMQP 0.9.1, used as oslo.messaging uses it.
//!
//! `url` reads `transport_url`, `connection` connects to one of its hosts, `topology` declares exchanges and queues, `inbox`
//! is what a reader of messages sees (any source may fill it, a test too), `consumer` fills it from the broker, `ledger`
//! decides which acknowledgements to send, `outbox` publishes, `browser` looks into a queue, `compression` undoes what senders
//! have compressed, and `envelope` opens and seals oslo's envelopes. Nothing here knows what messages mean.

pub mod browser;
pub mod compression;
mod connection;
mod consumer;
pub mod envelope;
mod inbox;
mod ledger;
mod outbox;
mod topology;
pub mod unescape;
pub(crate) mod url;

pub use connection::{BrokerOptions, Login, Pauses, TlsFiles};
pub use consumer::{Consumer, ConsumerFigures, Listening, PRIORITIES};
pub use inbox::{Delivery, Inbox, Outcome, Settler, Ticket};
pub use outbox::{AmqpOutbox, Outbox, Outgoing};
pub use topology::{QueueOptions, QuorumOptions};
pub use url::{BadUrl, Host, TransportUrl};

/// Why the broker could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MessagingError(pub String);
