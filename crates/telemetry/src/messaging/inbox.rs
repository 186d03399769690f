//! Messages as their reader sees them, and how it says what became of each.
//!
//! The two ends are channels, so that a reader can be tested without a broker. They have no bound of their own: whoever fills
//! an inbox has one (of messages and of bytes that are not settled).

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// What to do with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is dealt with: acknowledge it.
    Done,
    /// Let it be delivered again.
    Returned,
}

/// Which delivery is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Deliveries of an earlier connection are void: they come again on the next.
    pub session: u64,
    pub tag: u64,
}

/// One message.
#[derive(Debug)]
pub struct Delivery {
    pub body: Bytes,
    /// The queue that it came from.
    pub queue: Arc<str>,
    pub is_redelivered: bool,
    pub ticket: Ticket,
}

/// Takes outcomes. Clones are of the same inbox.
#[derive(Clone, Debug)]
pub struct Settler(UnboundedSender<(Ticket, Outcome)>);

impl Settler {
    /// Says what became of a delivery; once for each. Without effect where its connection is gone.
    pub fn settle(&self, ticket: Ticket, outcome: Outcome) {
        let _ = self.0.send((ticket, outcome));
    }
}

/// The reader's end.
#[derive(Debug)]
pub struct Inbox {
    pub deliveries: UnboundedReceiver<Delivery>,
    pub settler: Settler,
}

impl Inbox {
    /// An inbox, where to put messages into it, and where their outcomes come out.
    pub fn new() -> (Self, UnboundedSender<Delivery>, UnboundedReceiver<(Ticket, Outcome)>) {
        let (sender, deliveries) = mpsc::unbounded_channel();
        let (settler, settled) = mpsc::unbounded_channel();
        (Inbox { deliveries, settler: Settler(settler) }, sender, settled)
    }
}
