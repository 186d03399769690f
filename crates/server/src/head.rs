//! Validates the head of every request, before routing.

use hyper::{
    Method, StatusCode, Version,
    header::HOST,
    http::{request::Parts, uri::Authority},
};

use crate::{limits::HttpLimits, refusal::HttpRefusal};

/// Bytes of a request line besides method and target: two spaces, the version and the line's end.
const LINE_BYTES: usize = " ".len() * 2 + "HTTP/1.1\r\n".len();
/// Bytes of a header besides name and value.
const HEADER_BYTES: usize = ": \r\n".len();

/// Refuses a head that is too long (431), whose target is no path, or that does not have exactly one valid
/// Host header (400: RFC 9112, 3.2).
pub fn check(parts: &Parts, limits: &HttpLimits) -> Result<(), HttpRefusal> {
    if bytes(parts) > limits.header_bytes_max {
        let text = format!("The request's line and headers have more than {} bytes", limits.header_bytes_max);
        return Err(HttpRefusal::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, text));
    }
    // `GET host` is a form for CONNECT only (RFC 9112, 3.2.3); hyper would treat it as `GET /`.
    if parts.uri.scheme().is_none() && parts.uri.authority().is_some() && parts.method != Method::CONNECT {
        return Err(HttpRefusal::bad_request("The address does not begin with a slash"));
    }
    let mut hosts = parts.headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if parts.version == Version::HTTP_10 => Ok(()),
        (None, _) => Err(HttpRefusal::bad_request("The header Host is missing")),
        (Some(_), Some(_)) => Err(HttpRefusal::bad_request("The header Host occurs more than once")),
        (Some(host), None) if is_host(host.as_bytes()) => Ok(()),
        (Some(_), None) => Err(HttpRefusal::bad_request("The header Host names no host")),
    }
}

/// A lower bound of the bytes that the client sent: it may have sent more whitespace.
fn bytes(parts: &Parts) -> usize {
    let address = parts.uri.path_and_query().map_or(0, |path| path.as_str().len());
    let headers = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_BYTES);
    parts.method.as_str().len() + address + LINE_BYTES + headers.sum::<usize>()
}

/// A host with an optional port. Empty is valid: the target URI may have no authority.
fn is_host(text: &[u8]) -> bool {
    let Ok(authority) = Authority::try_from(text) else { return text.is_empty() };
    let port = authority.as_str().strip_prefix(authority.host());
    port.is_some_and(|port| port.is_empty() || is_port(port))
}

/// Empty, or a colon and digits.
fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn status(hosts: &[&str], version: Version, more_bytes: usize) -> Option<u16> {
        let mut request = Request::builder().uri("/v1/metric").version(version);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let request = request.header("x", "x".repeat(more_bytes));
        let (parts, ()) = request.body(()).unwrap().into_parts();
        check(&parts, &HttpLimits::default()).err().map(|error| error.status.as_u16())
    }

    #[test]
    fn a_host_is_named_once() {
        for host in ["h", "h:8041", "[::1]:80", "127.0.0.1", "a_b.example", ""] {
            assert_eq!(status(&[host], Version::HTTP_11, 1), None, "{host}");
        }
        for host in ["a\"><script>", "a b", "user@h", "h:x", "a/b", "h, h"] {
            assert_eq!(status(&[host], Version::HTTP_11, 1), Some(400), "{host}");
        }
        assert_eq!(status(&[], Version::HTTP_11, 1), Some(400));
        assert_eq!(status(&["a", "a"], Version::HTTP_11, 1), Some(400));
        assert_eq!(status(&[], Version::HTTP_10, 1), None);
    }

    #[test]
    fn an_address_is_a_path() {
        let status = |uri: &str| {
            let request = Request::builder().uri(uri).header(HOST, "h").body(()).unwrap();
            check(&request.into_parts().0, &HttpLimits::default()).err().map(|error| error.status.as_u16())
        };
        for uri in ["/", "/v1", "//v1", "http://h/v1", "*"] {
            assert_eq!(status(uri), None, "{uri}");
        }
        for uri in ["v1", "h:8041"] {
            assert_eq!(status(uri), Some(400), "{uri}");
        }
    }

    #[test]
    fn the_limit_on_headers_is_the_limit() {
        let max = HttpLimits::default().header_bytes_max;
        assert_eq!(status(&["h"], Version::HTTP_11, max - 100), None);
        assert_eq!(status(&["h"], Version::HTTP_11, max), Some(431));
    }
}
