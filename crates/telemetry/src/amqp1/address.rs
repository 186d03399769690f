//! `[amqp1d] url`: `[amqp[s]://][user[:password]@]host[:port]/address`.

use std::str::FromStr;

use crate::messaging::url::{PORT, host_and_port};

/// The standard port of AMQP over TLS.
const TLS_PORT: u16 = 5671;

/// Where to receive from: a broker, and the address of a queue, topic or peer on it.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub host: String,
    pub port: u16,
    /// `amqps`: TLS from the first byte on.
    pub is_secure: bool,
    /// The address of the link's source.
    pub source: String,
    /// User name and password; without them the login is anonymous.
    pub login: Option<(String, String)>,
}

/// Leaves out the password.
impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.is_secure { "amqps" } else { "amqp" };
        write!(f, "{scheme}://{}:{}/{}", self.host, self.port, self.source)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not of the form [amqp[s]://][user[:password]@]host[:port]/address: {0}")]
pub struct BadAddress(&'static str);

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let (is_secure, rest) = match text.split_once("://") {
            Some(("amqp", rest)) => (false, rest),
            Some(("amqps", rest)) => (true, rest),
            Some(_) => return Err(BadAddress("the scheme must be amqp or amqps")),
            None => (false, text),
        };
        let (authority, source) = rest.split_once('/').ok_or(BadAddress("no address"))?;
        if source.is_empty() {
            return Err(BadAddress("no address"));
        }
        let (login, place) = match authority.rsplit_once('@') {
            Some((login, place)) => {
                let (user, password) = login.split_once(':').unwrap_or((login, ""));
                (Some((user.to_owned(), password.to_owned())), place)
            }
            None => (None, authority),
        };
        let (host, port) = host_and_port(place).map_err(BadAddress)?;
        let port = port.unwrap_or(if is_secure { TLS_PORT } else { PORT });
        Ok(Address { host: host.to_owned(), port, is_secure, source: source.to_owned(), login })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let address = |text: &str| text.parse::<Address>().map(|a| (a.host, a.port, a.source, a.login));
        let found = |host: &str, port, source: &str, login: Option<(&str, &str)>| {
            let login = login.map(|(user, password)| (user.to_owned(), password.to_owned()));
            Ok((host.to_owned(), port, source.to_owned(), login))
        };
        // Gnocchi's default.
        assert_eq!(
            address("localhost:5672/u/collectd/telemetry"),
            found("localhost", 5672, "u/collectd/telemetry", None)
        );
        assert_eq!(address("amqp://a:b@c:d@h/x"), found("h", 5672, "x", Some(("a", "b@c:d"))));
        assert_eq!(address("u@[::1]:7/x"), found("::1", 7, "x", Some(("u", ""))));
        assert_eq!(address("[::1]/x"), found("::1", 5672, "x", None));
        for text in [
            "",
            "localhost",
            "localhost:5672",
            "localhost/",
            "/x",
            "h:x/y",
            "h:70000/y",
            "amqps://h",
            "http://h/x",
        ] {
            assert!(address(text).is_err(), "{text}");
        }
        let shown = format!("{:?}", "u:secret@h/x".parse::<Address>().unwrap());
        assert_eq!(shown, "amqp://h:5672/x");
        let secure = "amqps://u:secret@h/x".parse::<Address>().unwrap();
        assert_eq!((secure.is_secure, format!("{secure:?}").as_str()), (true, "amqps://h:5671/x"));
    }
}
