//! Parses publisher URLs as Python's `urlsplit` and `parse_qs` do.
//!
//! All parts stay encoded, except the query's names and values.

use std::fmt;

use gnudi_model::python::{quote_plus, unquote_plus};

use super::OpenError;

/// `scheme://netloc/path?query#fragment`, whose fragment is dropped. Displayed without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct PublisherUrl {
    /// In lower case.
    pub scheme: String,
    /// `user:password@host:port`.
    pub netloc: String,
    pub path: String,
    pub query: UrlQuery,
}

impl fmt::Debug for PublisherUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Options may hold secrets, too, and are left out.
impl fmt::Display for PublisherUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}{}", self.scheme, self.host_and_port(), self.path)
    }
}

impl PublisherUrl {
    pub fn parse(text: &str) -> Result<Self, OpenError> {
        // The text is not repeated: it may hold a password.
        let (scheme, rest) = text.split_once("://").ok_or_else(|| {
            OpenError("a publisher's URL begins with its kind and ://, such as gnocchi://".to_owned())
        })?;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        if !scheme.bytes().all(fits) {
            return Err(OpenError("what stands before :// names no kind of publisher".to_owned()));
        }
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (netloc, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Ok(PublisherUrl {
            scheme: scheme.to_ascii_lowercase(),
            netloc: netloc.to_owned(),
            path: path.to_owned(),
            query: UrlQuery::parse(query),
        })
    }

    /// The part after the login.
    pub fn host_and_port(&self) -> &str {
        self.netloc.rsplit_once('@').map_or(&*self.netloc, |(_, place)| place)
    }

    /// Encoded user and password, if there is a user.
    pub fn login(&self) -> Option<(&str, &str)> {
        let (login, _) = self.netloc.rsplit_once('@')?;
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        (!user.is_empty()).then_some((user, password))
    }

    /// Without the brackets of an IPv6 address; empty if missing.
    pub fn host(&self) -> &str {
        self.place().0
    }

    /// `None` if missing; an error if invalid.
    pub fn port(&self) -> Result<Option<u16>, OpenError> {
        match self.place().1 {
            "" => Ok(None),
            port => port.parse().map(Some).map_err(|_| OpenError(format!("{port} is no port"))),
        }
    }

    fn place(&self) -> (&str, &str) {
        let place = self.host_and_port();
        if let Some((host, behind)) = place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            return (host, behind.strip_prefix(':').unwrap_or(behind));
        }
        match place.split_once(':') {
            // Several colons without brackets: an IPv6 address without a port.
            Some((_, port)) if port.contains(':') => (place, ""),
            Some((host, port)) => (host, port),
            None => (place, ""),
        }
    }
}

/// The query's options in order; names may be repeated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UrlQuery(Vec<(String, String)>);

impl UrlQuery {
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        UrlQuery(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (unquote_plus(name), unquote_plus(value)))
                .collect(),
        )
    }

    /// Whether the name exists, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// All non-empty values of a name.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(key, value)| key == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// The effective value of most repeated names: the last.
    pub fn last(&self, name: &str) -> Option<&str> {
        self.all(name).last()
    }

    /// The effective value of the other repeated names.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Removes a name and returns its last value.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let value = self.last(name).map(str::to_owned);
        self.0.retain(|(key, _)| key != name);
        value
    }

    /// The last value as an integer; `None` if missing.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, OpenError> {
        integer(name, self.last(name))
    }

    /// The first value as an integer; `None` if missing.
    pub fn first_integer(&self, name: &str) -> Result<Option<i64>, OpenError> {
        integer(name, self.first(name))
    }

    /// As Python's `urlencode` writes it: grouped by name, empty values removed.
    pub fn encoded(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for (name, value) in &self.0 {
            if !value.is_empty() && !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let pairs: Vec<String> = names
            .into_iter()
            .flat_map(|name| {
                self.all(name).map(move |value| format!("{}={}", quote_plus(name), quote_plus(value)))
            })
            .collect();
        pairs.join("&")
    }
}

fn integer(name: &str, text: Option<&str>) -> Result<Option<i64>, OpenError> {
    let read = |text: &str| {
        text.trim().parse().map_err(|_| OpenError(format!("option {name}: {text} is no whole number")))
    };
    text.map(read).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_as_by_python() {
        let url = PublisherUrl::parse("HTTP://u:p%40@h:80/a/b?x=1&x=2&json&e=&s=a+b%26#f").unwrap();
        assert_eq!((url.scheme.as_str(), url.host(), url.port()), ("http", "h", Ok(Some(80))));
        assert_eq!((url.login(), url.path.as_str()), (Some(("u", "p%40")), "/a/b"));
        assert_eq!((url.query.last("x"), url.query.last("s")), (Some("2"), Some("a b&")));
        assert_eq!((url.query.integer("x"), url.query.first_integer("x")), (Ok(Some(2)), Ok(Some(1))));
        assert!(url.query.has("json") && url.query.last("json").is_none() && url.query.last("e").is_none());
        assert_eq!(url.query.encoded(), "x=1&x=2&s=a+b%26");
        assert_eq!(url.to_string(), "http://h:80/a/b");
        let mut query = url.query.clone();
        assert_eq!(query.take("x").as_deref(), Some("2"));
        assert_eq!(query.encoded(), "s=a+b%26");

        let url = PublisherUrl::parse("file:///var/x").unwrap();
        assert_eq!((url.netloc.as_str(), url.path.as_str()), ("", "/var/x"));
        for (netloc, host, port) in [
            ("[::1]:5", "::1", Ok(Some(5))),
            ("[::1]", "::1", Ok(None)),
            ("::1", "::1", Ok(None)),
            ("h", "h", Ok(None)),
            ("", "", Ok(None)),
            ("h:x", "h", Err(OpenError("x is no port".to_owned()))),
        ] {
            let url = PublisherUrl::parse(&format!("udp://{netloc}")).unwrap();
            assert_eq!((url.host(), url.port()), (host, port), "{netloc}");
        }
        for text in ["gnocchi", "a b://", "http//u:p@h"] {
            assert!(PublisherUrl::parse(text).is_err(), "{text}");
        }
    }
}
