//! OpenStack's identity service (Keystone v3), as a client that stands in a cloud needs it: a token of its own that is
//! renewed in time, the addresses of services from the catalogue, and the validation of tokens that others bring.
//!
//! It deliberately does not judge what a caller may do, and it never writes to Keystone, nor secrets to logs.

mod error;
mod identity;
mod options;
mod session;
mod validator;

pub use error::KeystoneError;
pub use identity::{AccessRule, Identity};
pub use options::{Credentials, DomainRef, Interface, KeystoneOptions, ProjectRef, UserRef};
pub use session::Session;
pub use validator::{Validator, ValidatorOptions};
