//! Gnocchi's REST API over the engine.
//!
//! [`App`] answers requests; `gnudi_server` puts it on sockets. `router` lists every route and who may use it, `routes` has
//! the handlers, `measures` the hot paths in and out. This crate decides nothing about storage: it calls
//! [`gnudi_engine::Engine`].

mod app;
mod arrow;
mod buffers;
mod by_key;
mod call;
mod conditions;
mod document;
mod error;
mod figures;
pub mod filter;
mod http_date;
pub mod influxdb;
pub mod json;
mod last_measure;
mod limits;
mod links;
pub mod measures;
mod openapi;
pub mod operations;
mod options;
mod pagination;
pub mod predicate;
mod profile;
pub mod prometheus;
mod provision;
pub mod python;
mod query;
mod request;
mod resource_id;
mod router;
mod routes;
mod schema;
mod shortened;

pub use app::App;
pub use error::ApiError;
pub use limits::Limits;
pub use options::{ApiOptions, PromqlOptions};
pub use profile::{
    FREQUENCY_HZ_DEFAULT as PROFILE_FREQUENCY_HZ_DEFAULT, FREQUENCY_HZ_MAX as PROFILE_FREQUENCY_HZ_MAX,
    SECONDS_DEFAULT as PROFILE_SECONDS_DEFAULT, SECONDS_MAX as PROFILE_SECONDS_MAX,
    symbols::{SUBCOMMAND as SYMBOLS_SUBCOMMAND, look_up as look_up_symbols},
};
pub use prometheus::Labels as PrometheusLabels;
