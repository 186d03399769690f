//! Gnocchi's REST API over the engine.
//!
//! `router` lists all routes with their guards, `routes` has the handlers, `measures` the hot paths for
//! writes and reads. [`gnudi_app::App`] serves them. Storage is [`gnudi_engine::Engine`]'s.

mod arrow;
mod conditions;
pub mod filter;
pub mod influxdb;
mod json_list;
mod last_measure;
pub mod measures;
mod openapi;
pub mod operations;
mod pagination;
pub mod predicate;
mod profile;
mod pyparsing;
mod router;
mod routes;

pub use profile::{
    FREQUENCY_HZ_DEFAULT as PROFILE_FREQUENCY_HZ_DEFAULT, FREQUENCY_HZ_MAX as PROFILE_FREQUENCY_HZ_MAX,
    SECONDS_DEFAULT as PROFILE_SECONDS_DEFAULT, SECONDS_MAX as PROFILE_SECONDS_MAX,
    symbols::{SUBCOMMAND as SYMBOLS_SUBCOMMAND, look_up as look_up_symbols},
};
pub use router::routes;
