//! A client of `OpenStack`'s identity service (Keystone v3): gnudi's own token, renewed in time; service endpoints from
//! the catalogue; and validation of callers' tokens.
//!
//! It deliberately does not decide what a caller may do. It never writes to Keystone, and never logs secrets.

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
pub use error::{KeystoneError, Result};
pub use identity::Identity;
pub use options::{Credentials, DomainRef, Interface, KeystoneOptions, ProjectRef, Scope, UserRef};
pub use session::Session;
pub use validator::{ExpiryRule, TOKEN_BYTES_MAX, Validator, ValidatorOptions};
