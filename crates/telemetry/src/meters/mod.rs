//! Makes samples of notifications by meter definitions (`meters.yaml`).
//!
//! `definition` is one meter, `definitions` the set of them with the lookup by event type, `metadata` selects the
//! sample metadata, `built_in` makes those of notifications without a definition. The pipelines route samples.

mod built_in;
mod definition;
mod definitions;
mod metadata;

pub use definitions::{MadeSamples, MeterDefinitions};
pub use metadata::{ReservedMetadata, SampleOptions};
