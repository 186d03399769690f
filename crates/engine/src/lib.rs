//! Between the API and the drivers: takes measures in, folds them into aggregates, reads aggregates back, removes
//! what was deleted.

pub mod engine;

pub use engine::{Engine, EngineError, Measures, MeasuresQuery, ProcessingStatus};
