//! Authentication. Authorization is in `policy`.

pub mod basic;
pub mod keystone;
pub mod passwords;
pub mod process_secret;
pub mod remoteuser;

use std::{io, net::IpAddr, sync::Arc};

use gnudi_model::Timestamp;
use hyper::http::request::Parts;

use crate::{error::AccessError, policy::Caller};
pub use keystone::{KeystoneAuth, KeystoneAuthOptions};
pub use passwords::{Passwords, PasswordsError};
pub use process_secret::ProcessSecret;
pub use remoteuser::{RemoteUser, RemoteUserError};

/// The administrator's name, in modes where the name is all that is known of a caller.
const ADMIN: &str = "admin";

/// The authentication method (`[api] auth_mode`).
#[derive(Clone, Debug)]
pub enum AuthMode {
    /// HTTP basic authentication. Without a password file every password is accepted, as in Gnocchi; then
    /// only a loopback address may be served.
    Basic { passwords: Option<Arc<Passwords>> },
    /// A header set by a trusted proxy.
    RemoteUser(Arc<RemoteUser>),
    /// A Keystone token.
    Keystone(Arc<KeystoneAuth>),
}

/// Request extension: the client's address, set if the mode needs it.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

impl Default for AuthMode {
    fn default() -> Self {
        AuthMode::Basic { passwords: None }
    }
}

impl AuthMode {
    /// Whether callers can claim any identity. Such a mode may listen on loopback addresses only, unless the
    /// operator overrides that.
    pub fn trusts_everybody(&self) -> bool {
        match self {
            AuthMode::Basic { passwords } => passwords.is_none(),
            AuthMode::RemoteUser(_) | AuthMode::Keystone(_) => false,
        }
    }

    /// Whether unauthenticated callers get 401 for every path of version 1, even for one that does not exist.
    /// In Gnocchi keystonemiddleware stands in front of all of version 1.
    pub fn guards_version_1(&self) -> bool {
        matches!(self, AuthMode::Keystone(_))
    }

    /// Whether authentication depends on the client's address.
    pub fn needs_peer(&self) -> bool {
        !matches!(self, AuthMode::Basic { passwords: None })
    }

    /// Authenticates the caller of a request received at `now`.
    ///
    /// # Errors
    /// 401 if there are no credentials or they are wrong; 503 if the queue of password checks is full or
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

    /// Reloads files on SIGHUP and when they change. Returns at once if there are none.
    pub async fn follow(&self) -> io::Result<()> {
        match self {
            AuthMode::Basic { passwords: Some(passwords) } => passwords.follow().await,
            AuthMode::Basic { passwords: None } | AuthMode::RemoteUser(_) | AuthMode::Keystone(_) => Ok(()),
        }
    }
}

/// A caller of whom only the name is known.
fn named(user: String) -> Caller {
    let roles = if user == ADMIN { [ADMIN.to_owned()].into() } else { Caller::default().roles };
    Caller { user, roles, ..Caller::default() }
}

/// The smallest IPv6 network that one customer has.
const IPV6_PREFIX_BITS: u32 = 64;

/// The network of an address that counts as one client.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let mask = u128::MAX << (u128::BITS - IPV6_PREFIX_BITS);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_in_a_network_of_ipv6_are_one() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
