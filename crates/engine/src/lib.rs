//! Between the API and the drivers: takes measures in, folds them into aggregates, reads aggregates back, removes
//! what was deleted.
//!
//! [`Engine`] is the face; `processor`, `reader`, `cross`, `expunger` and `retention` do one thing each; `metricd` decides when.

pub mod cross;
pub mod engine;
pub mod expunger;
pub mod figures;
pub mod metricd;
pub mod processor;
pub mod reader;
pub mod retention;
pub mod sacks;
pub mod status;

pub use cross::{CrossMeasuresError, CrossMeasuresQuery, CrossReference};
pub use engine::{Engine, EngineError};
pub use figures::Figures;
pub use metricd::{Metricd, MetricdOptions};
pub use reader::{Measures, MeasuresQuery, Resample};
pub use status::ProcessingStatus;
