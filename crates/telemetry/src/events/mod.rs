//! Events out of notifications, as event definitions (`event_definitions.yaml`) say.
//!
//! `definition` is one definition, `definitions` all of them and which of them an event type has; `traits` gives traits their
//! types. Who gets events is the pipelines' business.

mod definition;
mod definitions;
mod traits;

pub use definitions::{EventDefinitions, EventOptions};
