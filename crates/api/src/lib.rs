//! Gnocchi's REST API over the engine.
//!
//! [`App`] answers requests; [`serve`] puts it on a socket. `router` lists every route and who may use it, `routes` has
//! the handlers, `measures` the hot paths in and out. This crate decides nothing about storage: it calls
//! [`gnudi_engine::Engine`].

mod accept;
mod app;
mod arrow;
mod audit;
pub mod auth;
mod body;
mod buffers;
mod by_key;
mod call;
mod conditions;
mod connection;
pub mod cors;
mod document;
mod error;
mod figures;
mod file;
pub mod filter;
mod followed;
mod gunzip;
mod head;
mod http_date;
pub mod influxdb;
pub mod json;
mod last_measure;
mod limits;
mod links;
mod long_work;
pub mod measures;
mod openapi;
pub mod operations;
mod options;
mod pagination;
pub mod policy;
pub mod predicate;
mod profile;
pub mod prometheus;
mod provision;
pub mod python;
mod query;
mod quota;
mod reply;
mod request;
mod resource_id;
mod router;
mod routes;
mod schema;
mod server;
mod shortened;
mod stream;
mod tls;

pub use app::App;
pub use auth::{
    AuthMode, KeystoneAuth, KeystoneAuthOptions, Own, Passwords, PasswordsError, RemoteUser, RemoteUserError,
};
pub use connection::Watch;
pub use cors::CorsOptions;
pub use error::ApiError;
pub use file::FileError;
pub use limits::Limits;
pub use options::{ApiOptions, PromqlOptions};
pub use policy::{Policy, PolicyError, PolicyFiles};
pub use profile::{
    FREQUENCY_HZ_DEFAULT as PROFILE_FREQUENCY_HZ_DEFAULT, FREQUENCY_HZ_MAX as PROFILE_FREQUENCY_HZ_MAX,
    SECONDS_DEFAULT as PROFILE_SECONDS_DEFAULT, SECONDS_MAX as PROFILE_SECONDS_MAX,
    symbols::{SUBCOMMAND as SYMBOLS_SUBCOMMAND, look_up as look_up_symbols},
};
pub use prometheus::Labels as PrometheusLabels;
pub use quota::{Overrides, ProjectLimits, QuotaOptions};
pub use reply::{ReplyBody, Response};
pub use server::{Listener, serve};
pub use tls::{Tls, TlsError};
