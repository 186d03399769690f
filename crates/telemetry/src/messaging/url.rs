//! `transport_url`: `rabbit://user:password@host:port[,user:password@host:port]/virtual_host`.

use std::{fmt, str::FromStr};

use gnudi_model::python::unquote;

/// The standard port of AMQP without TLS.
pub(crate) const PORT: u16 = 5672;

/// `RabbitMQ`'s default user.
const USER: &str = "guest";

/// One broker of a cluster, with its login.
#[derive(Clone, PartialEq, Eq)]
pub struct Host {
    pub name: String,
    pub port: u16,
    pub user: String,
    pub password: String,
}

/// Brokers that share a virtual host.
#[derive(Clone, PartialEq, Eq)]
pub struct TransportUrl {
    /// At least one.
    pub hosts: Vec<Host>,
    pub virtual_host: String,
    /// `ssl=1` in the query.
    pub is_secure: bool,
}

/// Leaves out the password.
impl fmt::Debug for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.name, self.port)
    }
}

impl fmt::Debug for TransportUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.hosts.iter().map(|host| format!("{host:?}")).collect();
        write!(formatter, "rabbit://{}/{}", hosts.join(","), self.virtual_host)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not of the form rabbit://user:password@host:port[,user:password@host:port]/virtual_host: {0}")]
pub struct BadUrl(&'static str);

impl FromStr for TransportUrl {
    type Err = BadUrl;

    fn from_str(text: &str) -> Result<Self, BadUrl> {
        let (scheme, rest) = text.split_once("://").ok_or(BadUrl("no scheme"))?;
        if !matches!(scheme, "rabbit" | "kombu") {
            return Err(BadUrl("the scheme must be rabbit"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let mut hosts = Vec::new();
        for part in authority.split(',').filter(|part| !part.is_empty()) {
            hosts.push(host(part)?);
        }
        if hosts.is_empty() {
            hosts.push(host("localhost")?);
        }
        let virtual_host = match decode(path)? {
            name if name.is_empty() => "/".to_owned(),
            name => name,
        };
        let is_secure = query.split('&').any(|pair| matches!(pair, "ssl=1" | "ssl=true" | "ssl=True"));
        Ok(TransportUrl { hosts, virtual_host, is_secure })
    }
}

fn host(text: &str) -> Result<Host, BadUrl> {
    let (login, place) = match text.rsplit_once('@') {
        Some((login, place)) => (login, place),
        None => ("", text),
    };
    let (user, password) = login.split_once(':').unwrap_or((login, if login.is_empty() { USER } else { "" }));
    let (name, port) = host_and_port(place).map_err(BadUrl)?;
    let user = if user.is_empty() { USER.to_owned() } else { decode(user)? };
    Ok(Host { name: name.to_owned(), port: port.unwrap_or(PORT), user, password: decode(password)? })
}

/// `host[:port]`, with an IPv6 address in brackets.
pub(crate) fn host_and_port(place: &str) -> Result<(&str, Option<u16>), &'static str> {
    let (host, port) = match place.rsplit_once(':') {
        // The colons of an IPv6 address are inside brackets.
        Some((host, port)) if !port.contains(']') => (host, Some(port.parse().map_err(|_| "no such port")?)),
        _ => (place, None),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() { Err("no host") } else { Ok((host, port)) }
}

/// Like Python's unquote, keeps a lone %.
fn decode(text: &str) -> Result<String, BadUrl> {
    String::from_utf8(unquote(text)).map_err(|_| BadUrl("not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> TransportUrl {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn urls_are_read_as_oslo_reads_them() {
        let url = parsed("rabbit://u:p%40%2f@a:1,v:q@[::1]:2,w@c/cloud%2fx?ssl=1");
        let hosts: Vec<_> = url
            .hosts
            .iter()
            .map(|host| (host.name.as_str(), host.port, host.user.as_str(), host.password.as_str()))
            .collect();
        assert_eq!(hosts, [("a", 1, "u", "p@/"), ("::1", 2, "v", "q"), ("c", 5672, "w", "")]);
        assert_eq!((url.virtual_host.as_str(), url.is_secure), ("cloud/x", true));
        for text in ["rabbit://", "rabbit:///", "rabbit://localhost/", "rabbit://guest:guest@localhost:5672/"]
        {
            let url = parsed(text);
            assert_eq!((url.hosts[0].user.as_str(), url.hosts[0].password.as_str()), ("guest", "guest"));
            assert_eq!((url.hosts[0].name.as_str(), url.virtual_host.as_str()), ("localhost", "/"), "{text}");
        }
        assert_eq!(parsed("kombu://u:p@h//").virtual_host, "/");
        assert_eq!(parsed("rabbit://a@b:p%zz@h/").hosts[0].password, "p%zz");
    }

    #[test]
    fn other_urls_are_refused_without_repeating_them() {
        for text in ["", "h/x", "amqp://u:hunter2@h/", "rabbit://u:hunter2@h:x/", "rabbit://u:hunter2@:5/"] {
            let error = text.parse::<TransportUrl>().unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
        let shown = format!("{:?}", parsed("rabbit://u:hunter2@h:1,v:hunter2@i/x"));
        assert_eq!(shown, "rabbit://h:1,i:5672/x");
    }
}
