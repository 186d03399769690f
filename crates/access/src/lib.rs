//! Who calls, and what they may.
//!
//! `auth` finds out who calls: by passwords, by tokens of Keystone's, by the name that a proxy tells. `policy` says who may do what,
//! and what of a list somebody sees, `quota` how much of it; `audit` logs who was refused. What a refusal looks like is the API's.

mod audit;
pub mod auth;
mod error;
mod file;
pub mod policy;
mod quota;

pub use audit::{Audit, RefusedRequest};
pub use auth::{
    AuthMode, KeystoneAuth, KeystoneAuthOptions, Own, Passwords, PasswordsError, Peer, RemoteUser,
    RemoteUserError,
};
pub use error::{AccessError, Challenge};
pub use file::FileError;
pub use policy::{Caller, Policy, PolicyError, PolicyFiles, Rule, Target};
pub use quota::{Overrides, ProjectLimits, QuotaFigures, QuotaOptions, Quotas};
