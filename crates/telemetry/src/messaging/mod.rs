//! The message bus: `RabbitMQ` over AMQP 0.9.1, used as oslo.messaging uses it.
//!
//! `url` parses `transport_url`, `connection` connects to one of its hosts, `topology` declares exchanges and queues,
//! `inbox` is the reader's interface (a test may fill it, too), `consumer` fills it from the broker, `ledger` decides
//! which acknowledgements to send, `outbox` publishes, `browser` inspects a queue, `compression` decompresses bodies,
//! `envelope` reads and writes oslo's envelopes, and `nonfinite` and `surrogates` make JSON of Python's. The meaning of
//! messages is not known here.

pub mod browser;
pub mod compression;
mod connection;
mod consumer;
pub mod envelope;
mod inbox;
mod ledger;
mod nonfinite;
mod outbox;
pub mod surrogates;
mod topology;
pub mod unescape;
pub(crate) mod url;

pub use connection::{BrokerOptions, ReconnectDelays, STACK_BYTES, SaslMechanism, TlsFiles};
pub use consumer::{Consumer, ConsumerFigures, ConsumerOptions, PRIORITIES};
pub use inbox::{Delivery, Inbox, Outcome, Settler, Ticket};
pub use nonfinite::INTEGER_DIGITS_MAX;
pub use outbox::{AmqpOutbox, Outbox, Outgoing};
pub use topology::{QueueOptions, QuorumOptions};
pub use url::{BadUrl, Host, TransportUrl};

use std::borrow::Cow;

use nonfinite::nonfinite_as_texts;
use surrogates::halves_replaced;

pub type Result<T, E = MessagingError> = std::result::Result<T, E>;

/// A failure of the broker or the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MessagingError(pub String);

impl MessagingError {
    /// Whether the broker refuses a body of this size, in the words of `RabbitMQ` (`max_message_size`). It closes the channel
    /// with this error, so that other messages fail with it, too.
    pub fn refuses_size(&self, bytes: usize) -> bool {
        self.0.contains(&format!("message size {bytes} is larger than"))
    }
}

/// Converts a document that Python's `json` wrote to JSON: replaces what is valid for Python only.
pub fn json_of_python(document: &str) -> Cow<'_, str> {
    match halves_replaced(document) {
        Cow::Borrowed(document) => nonfinite_as_texts(document),
        Cow::Owned(document) => Cow::Owned(nonfinite_as_texts(&document).into_owned()),
    }
}
