//! Authentication, authorization and quotas.
//!
//! `auth` authenticates callers: by passwords, Keystone tokens, or a proxy's header. `policy` decides what a
//! caller may do and which items of a listing it sees; `quota` limits projects; `audit` logs refusals. Error
//! documents are the API's.

mod audit;
pub mod auth;
mod error;
mod file;
pub mod policy;
mod quota;

pub use audit::{Audit, RefusedRequest};
pub use auth::{
    AuthMode, KeystoneAuth, KeystoneAuthOptions, Passwords, PasswordsError, Peer, ProcessSecret, RemoteUser,
    RemoteUserError,
};
pub use error::{AccessError, Challenge};
pub use file::FileError;
pub use policy::{Caller, Policy, PolicyError, PolicyFiles, Rule, Target, created_by};
pub use quota::{MetricsAdmission, Overrides, ProjectLimits, QuotaFigures, QuotaOptions, Quotas};
