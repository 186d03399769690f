//! The engine between the API and the drivers: accepts measures, folds them into aggregates, reads
//! aggregates, removes deleted data.
//!
//! [`Engine`] is the facade; `processor` (with `deferral`, `folding`, `conversion`, `late` and `removal`), `reader`,
//! `last_measure`, `cross`, `sampled`, `expunger` and `retention` have one task each; `metricd`
//! decides when and in which process they run.

pub mod cluster;
mod conversion;
pub mod cross;
mod damage;
mod deferral;
mod deferred;
pub mod engine;
pub mod expunger;
pub mod figures;
mod folding;
mod last_measure;
mod late;
pub mod metricd;
mod outage;
pub mod policy_conversion;
pub mod presence;
pub mod process_status;
pub mod processor;
pub mod reader;
mod refresh;
mod removal;
pub mod retention;
pub mod sampled;
pub mod status;
mod tasks;
mod turns;
pub mod units;
pub mod verify;

pub use cluster::ClusterStatus;
pub use conversion::granularities_of;
pub use cross::{CrossMeasuresError, CrossMeasuresQuery, CrossReference};
pub use damage::OnDamage;
pub use engine::{Engine, EngineError, Result};
pub use figures::Figures;
pub use last_measure::{LastMeasure, Measured};
pub use metricd::{Metricd, MetricdOptions};
pub use presence::Presence;
pub use process_status::ProcessStatus;
pub use reader::{Measures, MeasuresQuery, ReadRange, Resample};
pub use status::ProcessingStatus;
pub use turns::{Project, TIMES_FREE_MAX, Turns};
