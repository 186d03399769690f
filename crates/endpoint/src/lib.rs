//! Which server a program asks, and as whom: the options and variables of Gnocchi's client, for every command that asks one.
//!
//! Calls are `gnudi_client`'s, logins `gnudi_keystone`'s.

mod server_args;

pub use server_args::{ENDPOINT, KeystoneArgs, Server, ServerArgs};
