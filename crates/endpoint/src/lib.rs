//! What commands that ask a server have in common: the server and the credentials, from the options and environment
//! variables of Gnocchi's client, and its output formats.
//!
//! Requests are sent by `gnudi_client`, logins by `gnudi_keystone`.

mod bordered;
mod csv;
pub mod output;
mod server_args;

pub use server_args::{ENDPOINT, KeystoneArgs, Server, ServerArgs};
