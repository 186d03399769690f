//! Resolves the server and the credentials of commands, from the options and environment variables of Gnocchi's client.
//!
//! Requests are sent by `gnudi_client`, logins by `gnudi_keystone`.

mod server_args;

pub use server_args::{ENDPOINT, KeystoneArgs, Server, ServerArgs};
