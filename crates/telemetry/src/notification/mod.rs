//! The notification agent: consumes notifications of services, makes samples and events of them, and hands them to
//! pipelines.
//!
//! A message is acknowledged only once its publishers have stored all of its contents. `read` parses a message,
//! `polled` the samples of polling agents, `handler` processes one message, `agent` is the loop, `aside` the queue of
//! failed messages, `duplicates` detects repeated messages, and `figures` counts.

mod agent;
pub mod aside;
mod duplicates;
mod figures;
mod handler;
pub mod message;
mod polled;
mod read;
mod text;

pub use agent::{NotificationAgent, NotificationAgentOptions};
pub use aside::{AsideFigures, AsideOptions};
pub use duplicates::Duplicates;
pub use figures::{Figures, NotificationFiguresCollector};
pub use handler::MessageHandler;
pub use message::Notification;
pub use polled::{BadSamples, MetadataMemory, Polled, polled};
pub use read::{MalformedNotification, read};
