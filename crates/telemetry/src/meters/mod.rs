//! Samples out of notifications, as meter definitions (`meters.yaml`) say.
//!
//! `definition` is one meter, `definitions` all of them: which files there are, and which meters an event type has;
//! `metadata` is what samples keep of a resource. What samples are good for is the pipelines' business.

mod definition;
mod definitions;
mod metadata;

pub use definitions::{MadeSamples, MeterDefinitions};
pub use metadata::{ReservedMetadata, SampleOptions};
