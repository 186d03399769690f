//! Authentication: who calls. What the caller may do is `policy`'s question.

pub mod basic;
pub mod passwords;

use std::sync::Arc;

use gnudi_model::Timestamp;
use hyper::http::request::Parts;

use crate::{error::ApiError, policy::Caller};
pub use passwords::{Passwords, PasswordsError};

/// How callers make themselves known (`[api] auth_mode`).
#[derive(Clone, Debug)]
pub enum AuthMode {
    /// HTTP's basic scheme. Without passwords any is right, as in Gnocchi, so that only a loopback address may be served.
    Basic { passwords: Option<Arc<Passwords>> },
}

impl Default for AuthMode {
    fn default() -> Self {
        AuthMode::Basic { passwords: None }
    }
}

impl AuthMode {
    /// Whether whoever reaches the port can be anybody: such a mode must not listen on other addresses than loopback,
    /// unless the operator says so.
    pub fn trusts_everybody(&self) -> bool {
        match self {
            AuthMode::Basic { passwords } => passwords.is_none(),
        }
    }

    /// The caller of a request that came at `now`.
    ///
    /// # Errors
    /// 401 where the headers name none, or with a wrong password.
    pub async fn caller(&self, parts: &Parts, _now: Timestamp) -> Result<Caller, ApiError> {
        match self {
            AuthMode::Basic { passwords } => basic::caller(&parts.headers, passwords.as_deref()).await,
        }
    }
}
