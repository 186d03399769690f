//! The API's URLs as the client sees them: from its `Host`, the path prefix, and proxy headers.

use gnudi_model::python::quote;
use hyper::{HeaderMap, header::HOST, http::request::Parts};

/// Request extension: the connection uses TLS.
#[derive(Clone, Copy, Debug)]
pub struct Secure;

/// The API's base URL as the client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links {
    scheme: String,
    host: String,
    /// The path in front of `/v1`, without a trailing slash.
    prefix: String,
}

impl Links {
    /// `proxied`: trust proxy headers (`[api] enable_proxy_headers_parsing`).
    pub fn of(parts: &Parts, prefix: &str, proxied: bool) -> Self {
        let headers = &parts.headers;
        let host = parts.uri.authority().map(|authority| authority.as_str().to_owned());
        let host = host.or_else(|| text(headers, HOST.as_str()).map(str::to_owned));
        let mut links = Links {
            scheme: if parts.extensions.get::<Secure>().is_some() { "https" } else { "http" }.to_owned(),
            host: host.unwrap_or_else(|| "localhost".to_owned()),
            prefix: prefix.to_owned(),
        };
        if proxied {
            links.apply_proxy_headers(headers);
        }
        links
    }

    fn apply_proxy_headers(&mut self, headers: &HeaderMap) {
        let (mut scheme, mut host) = (None, None);
        if let Some(forwarded) = text(headers, "forwarded") {
            // RFC 7239: the first element is from the proxy that the client connected to.
            for pair in first(forwarded).split(';') {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                match name.trim().to_ascii_lowercase().as_str() {
                    "proto" => scheme = Some(unquoted(value)),
                    "host" => host = Some(unquoted(value)),
                    _ => {}
                }
            }
        } else {
            scheme = text(headers, "x-forwarded-proto").map(first);
            host = text(headers, "x-forwarded-host").map(first);
        }
        if let Some(scheme) = scheme.filter(|scheme| !scheme.is_empty()) {
            scheme.clone_into(&mut self.scheme);
        }
        if let Some(host) = host.filter(|host| !host.is_empty()) {
            host.clone_into(&mut self.host);
        }
        if let Some(prefix) = text(headers, "x-forwarded-prefix") {
            self.prefix.insert_str(0, prefix);
        }
    }

    /// The URL of a path below the prefix.
    pub fn to(&self, path: &str) -> String {
        let default_port = match self.scheme.as_str() {
            "http" => ":80",
            "https" => ":443",
            _ => "",
        };
        let host = match default_port {
            "" => &self.host,
            port => self.host.strip_suffix(port).unwrap_or(&self.host),
        };
        let path = format!("{}{path}", self.prefix);
        format!("{}://{host}{}", self.scheme, quote(&path, "/"))
    }
}

/// The first value of a list, to whose end each proxy appends its own.
fn first(list: &str) -> &str {
    list.split(',').next().unwrap_or_default().trim()
}

/// A token or a quoted string; RFC 7239 demands quotes around a host with a port.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    value.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')).unwrap_or(value)
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn link(headers: &[(&str, &str)], proxied: bool) -> String {
        let mut request = Request::builder().uri("/gnocchi/v1/metric");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        Links::of(&parts, "/gnocchi", proxied).to("/v1/a b")
    }

    #[test]
    fn links_start_with_the_requested_host() {
        assert_eq!(link(&[("host", "example.com:8041")], false), "http://example.com:8041/gnocchi/v1/a%20b");
        assert_eq!(link(&[("host", "example.com:80")], false), "http://example.com/gnocchi/v1/a%20b");
        assert_eq!(link(&[], false), "http://localhost/gnocchi/v1/a%20b");
    }

    #[test]
    fn links_have_the_scheme_of_the_connection() {
        let request = Request::builder().uri("/").header("host", "example.com:443").extension(Secure);
        let (parts, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(Links::of(&parts, "", false).to("/v1"), "https://example.com/v1");
    }

    #[test]
    fn proxies_are_trusted_only_if_configured() {
        let forwarded =
            [("host", "inner"), ("forwarded", "for=192.0.2.60;Proto=https; host=foobar:443, host=other")];
        assert_eq!(link(&forwarded, true), "https://foobar/gnocchi/v1/a%20b");
        assert_eq!(link(&forwarded, false), "http://inner/gnocchi/v1/a%20b");
        let quoted = [("forwarded", r#"for="[2001:db8::1]:4711";proto="https";host="foobar:8443""#)];
        assert_eq!(link(&quoted, true), "https://foobar:8443/gnocchi/v1/a%20b");
        let older = [
            ("host", "inner"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "foobar"),
            ("x-forwarded-prefix", "/metrics"),
        ];
        assert_eq!(link(&older, true), "https://foobar/metrics/gnocchi/v1/a%20b");
        assert_eq!(link(&older, false), "http://inner/gnocchi/v1/a%20b");
        let chained = [
            ("host", "inner"),
            ("x-forwarded-proto", "https, http"),
            ("x-forwarded-host", "foobar:8443,inner"),
        ];
        assert_eq!(link(&chained, true), "https://foobar:8443/gnocchi/v1/a%20b");
    }
}
