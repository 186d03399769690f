//! Authentication by a proxy in front, which names the user in a header. Clients could forge the header, so
//! it is trusted only from configured proxy addresses.
//!
//! As in Gnocchi only the name is known, and `admin` is the administrator. Gnocchi reads `REMOTE_USER` of its
//! web server.

use std::net::IpAddr;

use gnudi_model::is_storable;
use hyper::{header::HeaderName, http::request::Parts};

use super::{Peer, ProcessSecret, named};
use crate::{error::AccessError, policy::Caller};

/// The error without a user. It has no challenge: clients authenticate to the proxy.
const NOBODY: &str =
    "Authentication is required: the request names no user, or does not come from the proxy in front";

/// Why the options of `remoteuser` are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteUserError {
    #[error("`{0}` cannot be the name of a header")]
    Header(String),
    #[error("`{0}` is no address and no network, such as 192.0.2.1, 192.0.2.0/24 or 2001:db8::/32")]
    Proxy(String),
    #[error("no proxy is configured: callers could claim any name")]
    NoProxies,
}

/// The trusted proxies, and the name of the header.
#[derive(Clone, Debug)]
pub struct RemoteUser {
    header: HeaderName,
    proxies: Vec<Network>,
    own: ProcessSecret,
}

impl RemoteUser {
    /// `proxies` are addresses and networks.
    pub fn new(header: &str, proxies: &[String], own: ProcessSecret) -> Result<Self, RemoteUserError> {
        let header = header.parse().map_err(|_| RemoteUserError::Header(header.to_owned()))?;
        if proxies.is_empty() {
            return Err(RemoteUserError::NoProxies);
        }
        let network =
            |text: &String| Network::parse(text).ok_or_else(|| RemoteUserError::Proxy(text.clone()));
        Ok(RemoteUser { header, proxies: proxies.iter().map(network).collect::<Result<_, _>>()?, own })
    }

    /// The user that the proxy names.
    ///
    /// # Errors
    /// 401 if the request is not from a proxy, or does not name exactly one user with a storable name.
    pub(super) fn caller(&self, parts: &Parts) -> Result<Caller, AccessError> {
        let named_by_proxy = || {
            let Peer(peer) = parts.extensions.get()?;
            if !self.proxies.iter().any(|network| network.has(*peer)) {
                return None;
            }
            let mut values = parts.headers.get_all(&self.header).iter();
            // Latin-1, as in WSGI.
            let name: String = values.next()?.as_bytes().iter().map(|byte| char::from(*byte)).collect();
            let is_name = !name.is_empty() && is_storable(&name);
            (is_name && values.next().is_none()).then(|| named(name))
        };
        let refuse = || AccessError::Unknown { detail: NOBODY, challenge: None };
        named_by_proxy().or_else(|| self.own.caller(&parts.headers)).ok_or_else(refuse)
    }
}

/// A network: addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    prefix_bits: u32,
}

impl Network {
    /// `address` or `address/bits`.
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().ok()?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match bits {
            None => bits_max,
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => bits.parse().ok()?,
            Some(_) => return None,
        };
        (prefix_bits <= bits_max).then_some(Network { address, prefix_bits })
    }

    fn has(self, address: IpAddr) -> bool {
        let equal_bits = match (self.address, address) {
            (IpAddr::V4(mine), IpAddr::V4(other)) => (mine.to_bits() ^ other.to_bits()).leading_zeros(),
            (IpAddr::V6(mine), IpAddr::V6(other)) => (mine.to_bits() ^ other.to_bits()).leading_zeros(),
            _ => return false,
        };
        equal_bits >= self.prefix_bits
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn remote_user(proxies: &[&str]) -> Result<RemoteUser, RemoteUserError> {
        let proxies: Vec<String> = proxies.iter().map(|proxy| (*proxy).to_owned()).collect();
        RemoteUser::new("X-Remote-User", &proxies, ProcessSecret::new("own".to_owned()))
    }

    fn who(peer: &str, headers: &[(&str, &[u8])]) -> Option<(String, bool)> {
        let remote_user = remote_user(&["192.0.2.0/24", "2001:db8::1"]).unwrap();
        let mut request = Request::get("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        parts.extensions.insert(Peer(peer.parse().unwrap()));
        remote_user.caller(&parts).ok().map(|caller| {
            let is_admin = caller.has_role("admin");
            (caller.user, is_admin)
        })
    }

    #[test]
    fn a_proxy_names_the_user() {
        let jd = Some(("jd".to_owned(), false));
        assert_eq!(who("192.0.2.7", &[("x-remote-user", b"jd")]), jd);
        assert_eq!(who("2001:db8::1", &[("X-REMOTE-USER", b"jd")]), jd);
        assert_eq!(who("192.0.2.7", &[("x-remote-user", b"admin")]), Some(("admin".to_owned(), true)));
        assert_eq!(who("192.0.2.7", &[("x-remote-user", b"Ren\xe9")]), Some(("René".to_owned(), false)));
    }

    #[test]
    fn nobody_else_does_and_a_proxy_names_one() {
        for peer in ["192.0.3.7", "127.0.0.1", "2001:db8::2", "::ffff:192.0.2.7"] {
            assert_eq!(
                who(peer, &[("x-remote-user", b"jd"), ("x-forwarded-for", b"192.0.2.7")]),
                None,
                "{peer}"
            );
        }
        for headers in [
            &[][..],
            &[("x-remote-user", "")],
            &[("x-remote-user", &"x".repeat(256))],
            &[("x-remote-user", "jd"), ("x-remote-user", "admin")],
            &[("remote-user", "jd")],
            &[("authorization", "basic YWRtaW46")],
        ] {
            let bytes: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
            assert_eq!(who("192.0.2.7", &bytes), None, "{headers:?}");
        }
    }

    #[test]
    fn own_collectors_need_no_proxy() {
        // statsd:own
        let own = ("authorization", &b"Basic c3RhdHNkOm93bg=="[..]);
        assert_eq!(who("127.0.0.1", &[own]), Some(("statsd".to_owned(), false)));
    }

    #[test]
    fn a_network_has_the_addresses_that_begin_as_it_does() {
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.1.2.3/8", "10.9.9.9", true),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("fe80::/10", "febf::1", true),
            ("fe80::/10", "fec0::1", false),
            ("::/0", "2001:db8::1", true),
        ] {
            let network = Network::parse(network).unwrap();
            assert_eq!(network.has(address.parse().unwrap()), expected, "{network:?} {address}");
        }
    }

    #[test]
    fn what_is_no_proxy_or_no_header_is_refused() {
        for text in
            ["", "localhost", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.1 "]
        {
            assert_eq!(
                remote_user(&["::1", text]).unwrap_err(),
                RemoteUserError::Proxy(text.to_owned()),
                "{text}"
            );
        }
        assert_eq!(remote_user(&[]).unwrap_err(), RemoteUserError::NoProxies);
        let refused = RemoteUser::new("no header", &["::1".to_owned()], ProcessSecret::new(String::new()));
        assert_eq!(refused.unwrap_err(), RemoteUserError::Header("no header".to_owned()));
    }
}
