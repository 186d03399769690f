//! Received messages, and how their reader reports the outcome of each.
//!
//! Both ends are channels, so a reader can be tested without a broker. The channels are unbounded: the producer limits
//! unsettled messages and bytes.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// The outcome of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Processed: acknowledge it.
    Done,
    /// Not processed: requeue it.
    Returned,
}

/// Identifies a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Tickets of an earlier connection are void: its messages are redelivered.
    pub session: u64,
    pub tag: u64,
}

/// One message.
#[derive(Debug)]
pub struct Delivery {
    pub body: Bytes,
    /// The queue it was consumed from.
    pub queue: Arc<str>,
    pub is_redelivered: bool,
    pub ticket: Ticket,
}

/// Reports outcomes. Clones belong to the same inbox.
#[derive(Clone, Debug)]
pub struct Settler(UnboundedSender<(Ticket, Outcome)>);

impl Settler {
    /// Reports the outcome of a delivery, once. No effect if its connection is gone.
    pub fn settle(&self, ticket: Ticket, outcome: Outcome) {
        let _ = self.0.send((ticket, outcome));
    }
}

/// The reader's ends of both channels.
#[derive(Debug)]
pub struct Inbox {
    pub deliveries: UnboundedReceiver<Delivery>,
    pub settler: Settler,
}

impl Inbox {
    /// Creates an inbox, its sender of deliveries, and its receiver of outcomes.
    pub fn new() -> (Self, UnboundedSender<Delivery>, UnboundedReceiver<(Ticket, Outcome)>) {
        let (sender, deliveries) = mpsc::unbounded_channel();
        let (settler, settled) = mpsc::unbounded_channel();
        (Inbox { deliveries, settler: Settler(settler) }, sender, settled)
    }
}
