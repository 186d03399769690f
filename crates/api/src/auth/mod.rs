//! Authentication: who calls. What the caller may do is `policy`'s question.

pub mod basic;

use hyper::HeaderMap;

use crate::{error::ApiError, policy::Caller};

/// How callers make themselves known (`[api] auth_mode`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AuthMode {
    /// HTTP's basic scheme; the password is not looked at, as in Gnocchi, so that only a loopback address may be served.
    #[default]
    Basic,
}

impl AuthMode {
    /// Whether whoever reaches the port can be anybody: such a mode must not listen on other addresses than loopback,
    /// unless the operator says so.
    pub fn trusts_everybody(&self) -> bool {
        match self {
            AuthMode::Basic => true,
        }
    }

    /// The caller of a request.
    ///
    /// # Errors
    /// 401 where the headers name none.
    pub fn caller(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        match self {
            AuthMode::Basic => basic::caller(headers),
        }
    }
}
