//! Makes events of notifications by event definitions (`event_definitions.yaml`).
//!
//! `definition` is one definition, `definitions` the set of them with the lookup by event type, `traits` converts
//! values to trait types. The pipelines route events.

mod definition;
mod definitions;
mod traits;

pub use definitions::{EventDefinitions, EventOptions};
