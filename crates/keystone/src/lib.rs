//! `OpenStack`'s identity service (Keystone v3), as a client that stands in a cloud needs it: a token of its own that is
//! renewed in time, the addresses of services from the catalogue, and the validation of tokens that others bring.
//!
//! It deliberately does not judge what a caller may do, and it never writes to Keystone, nor secrets to logs.

mod access_rule;
mod cache;
mod error;
mod identity;
mod instant;
mod login;
mod options;
#[cfg(test)]
mod scripted;
mod session;
mod token_document;
mod validator;

pub use access_rule::AccessRule;
pub use error::KeystoneError;
pub use identity::Identity;
pub use options::{Credentials, DomainRef, Interface, KeystoneOptions, ProjectRef, Scope, UserRef};
pub use session::Session;
pub use validator::{TOKEN_BYTES_MAX, Validator, ValidatorOptions};
