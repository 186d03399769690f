//! The notification agent: takes what services put on the bus, makes samples and events of it, and hands them to pipelines.
//!
//! A message is acknowledged when all that it held is where its publishers put it, never before. `read` takes a message out
//! of its envelope, `polled` the samples that polling agents send, `handler` decides what becomes of a message, `agent` is
//! the loop around it, `aside` knows what was set aside, `duplicates` the last messages, and `figures` counts.

mod agent;
pub mod aside;
mod duplicates;
mod figures;
mod handler;
pub mod message;
mod polled;
mod read;
mod text;

pub use agent::{Agent, AgentOptions};
pub use aside::{AsideFigures, AsideOptions};
pub use duplicates::Duplicates;
pub use figures::{Figures, FiguresCollector};
pub use handler::Handler;
pub use message::Notification;
pub use polled::{BadSamples, MetadataMemory, Polled, polled};
pub use read::{Malformed, read};
