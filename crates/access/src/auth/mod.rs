//! Authentication: who calls. What the caller may do is `policy`'s question.

pub mod basic;
pub mod keystone;
pub mod own;
pub mod passwords;
pub mod remoteuser;

use std::{io, net::IpAddr, sync::Arc};

use gnudi_model::Timestamp;
use hyper::http::request::Parts;

use crate::{error::AccessError, policy::Caller};
pub use keystone::{KeystoneAuth, KeystoneAuthOptions};
pub use own::Own;
pub use passwords::{Passwords, PasswordsError};
pub use remoteuser::{RemoteUser, RemoteUserError};

/// The name of the administrator where callers are known by their names alone.
const ADMIN: &str = "admin";

/// How callers make themselves known (`[api] auth_mode`).
#[derive(Clone, Debug)]
pub enum AuthMode {
    /// HTTP's basic scheme. Without passwords any is right, as in Gnocchi, so that only a loopback address may be served.
    Basic { passwords: Option<Arc<Passwords>> },
    /// A header that a proxy writes.
    RemoteUser(Arc<RemoteUser>),
    /// A token of Keystone's.
    Keystone(Arc<KeystoneAuth>),
}

/// The address at the other end of a request's connection: an extension of the request, where the mode asks for it.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

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
            AuthMode::RemoteUser(_) | AuthMode::Keystone(_) => false,
        }
    }

    /// Whether callers must make themselves known before anything else is said of a path, be it that there is no such thing:
    /// in Gnocchi keystonemiddleware stands before all of version 1, and knows nothing of what lies behind.
    pub fn guards_version_1(&self) -> bool {
        matches!(self, AuthMode::Keystone(_))
    }

    /// Whether it matters from where a request comes.
    pub fn asks_for_peers(&self) -> bool {
        matches!(self, AuthMode::RemoteUser(_) | AuthMode::Basic { passwords: Some(_) })
    }

    /// The caller of a request that came at `now`.
    ///
    /// # Errors
    /// 401 where the headers name none, or with a wrong password; 503 where too many passwords wait to be checked, or
    /// Keystone does not answer.
    pub async fn caller(&self, parts: &Parts, now: Timestamp) -> Result<Caller, AccessError> {
        match self {
            AuthMode::Basic { passwords } => {
                let peer = parts.extensions.get().map(|Peer(peer)| *peer);
                basic::caller(&parts.headers, passwords.as_deref(), peer).await
            }
            AuthMode::RemoteUser(remote_user) => remote_user.caller(parts),
            AuthMode::Keystone(keystone) => keystone.caller(parts, now).await,
        }
    }

    /// Reads again what is in files when they change, and on SIGHUP. Returns at once where there is nothing to read again.
    pub async fn follow(&self) -> io::Result<()> {
        match self {
            AuthMode::Basic { passwords: Some(passwords) } => passwords.follow().await,
            AuthMode::Basic { passwords: None } | AuthMode::RemoteUser(_) | AuthMode::Keystone(_) => Ok(()),
        }
    }
}

/// The caller of whom nothing is known but a name.
fn named(user: String) -> Caller {
    let roles = if user == ADMIN { [ADMIN.to_owned()].into() } else { Caller::default().roles };
    Caller { user, roles, ..Caller::default() }
}
