//! Cross-origin requests, as oslo.middleware's CORS filter answers them (`[cors]`).

use hyper::{
    HeaderMap, Method, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
        ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
        ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HeaderName, HeaderValue, ORIGIN, VARY,
    },
};

use crate::reply::{self, Response};

/// `[cors]`. Without an allowed origin no CORS headers are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsOptions {
    /// `*` allows every origin.
    pub allowed_origin: Vec<String>,
    pub allow_credentials: bool,
    pub expose_headers: Vec<String>,
    /// Seconds; 0 omits the header.
    pub max_age: u64,
    pub allow_methods: Vec<String>,
    pub allow_headers: Vec<String>,
}

impl Default for CorsOptions {
    fn default() -> Self {
        CorsOptions {
            allowed_origin: Vec::new(),
            allow_credentials: true,
            expose_headers: Vec::new(),
            max_age: 3600,
            allow_methods: ["OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "PATCH"]
                .map(str::to_owned)
                .to_vec(),
            allow_headers: Vec::new(),
        }
    }
}

/// Where a browser's request comes from, as seen from this server (Fetch Metadata): `same-origin`, `same-site`, `cross-site`,
/// or `none` for the user. Browsers send it to servers with TLS and to loopback, and no page can set it.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Headers that are always allowed.
const SIMPLE_HEADERS: [&str; 8] = [
    "Accept",
    "Accept-Language",
    "Content-Type",
    "Cache-Control",
    "Content-Language",
    "Expires",
    "Last-Modified",
    "Pragma",
];

impl CorsOptions {
    /// Adds the CORS headers to a response. Answers `OPTIONS` requests that no route served.
    pub fn apply(&self, method: &Method, headers: &HeaderMap, response: Response) -> Response {
        if method == Method::OPTIONS {
            return self.preflight(headers, response);
        }
        let mut response = response;
        if let Some(origin) = self.origin(headers) {
            let expose = self.expose_headers.join(",");
            let out = response.headers_mut();
            out.append(VARY, HeaderValue::from_static("Origin"));
            self.grant(origin, out);
            if !expose.is_empty() {
                put(out, ACCESS_CONTROL_EXPOSE_HEADERS, &expose);
            }
        }
        response
    }

    /// Whether a browser sends a request that may change something for a page of another origin, which is not allowed. A form
    /// needs no preflight, and the browser sends the log-in that it knows with it.
    pub fn forbids(&self, method: &Method, headers: &HeaderMap) -> bool {
        let is_foreign = matches!(text(headers, &SEC_FETCH_SITE), Some("cross-site" | "same-site"));
        is_foreign
            && !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
            && self.origin(headers).is_none()
    }

    fn preflight(&self, headers: &HeaderMap, response: Response) -> Response {
        let mut response =
            if response.status().is_success() { response } else { reply::bare(StatusCode::OK) };
        let Some(origin) = self.origin(headers) else { return response };
        let Some(method) = text(headers, &ACCESS_CONTROL_REQUEST_METHOD) else { return response };
        if !self.allow_methods.iter().any(|allowed| allowed == method) {
            return response;
        }
        let wanted: Vec<&str> = text(headers, &ACCESS_CONTROL_REQUEST_HEADERS)
            .unwrap_or("")
            .split(',')
            .map(str::trim)
            .filter(|header| !header.is_empty())
            .collect();
        let may_send = |wanted: &str| {
            let allowed = self.allow_headers.iter().map(String::as_str).chain(SIMPLE_HEADERS);
            allowed.into_iter().any(|allowed| allowed.eq_ignore_ascii_case(wanted))
        };
        if !wanted.iter().all(|header| may_send(header)) {
            return response;
        }
        let out = response.headers_mut();
        out.insert(VARY, HeaderValue::from_static("Origin"));
        self.grant(origin, out);
        if self.max_age > 0 {
            out.insert(ACCESS_CONTROL_MAX_AGE, self.max_age.into());
        }
        put(out, ACCESS_CONTROL_ALLOW_METHODS, method);
        if !wanted.is_empty() {
            put(out, ACCESS_CONTROL_ALLOW_HEADERS, &wanted.join(","));
        }
        response
    }

    /// The request's origin, if it is allowed.
    fn origin<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let origin = text(headers, &ORIGIN)?;
        let allowed = |origin: &str| self.allowed_origin.iter().any(|allowed| allowed == origin);
        if allowed(origin) { Some(origin) } else { allowed("*").then_some("*") }
    }

    fn grant(&self, origin: &str, out: &mut HeaderMap) {
        put(out, ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        if self.allow_credentials {
            out.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn put(out: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        out.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(method: &Method, headers: &[(&'static str, &'static str)]) -> Vec<String> {
        let options = CorsOptions {
            allowed_origin: vec!["http://foobar.com".to_owned()],
            allow_headers: vec!["X-Auth-Token".to_owned()],
            ..CorsOptions::default()
        };
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let response = options.apply(method, &headers, reply::bare(StatusCode::METHOD_NOT_ALLOWED));
        let mut lines: Vec<String> = response
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        lines.sort();
        lines.insert(0, response.status().as_u16().to_string());
        lines
    }

    #[test]
    fn a_preflight_is_granted_to_an_allowed_origin() {
        let origin = ("origin", "http://foobar.com");
        let method = ("access-control-request-method", "GET");
        assert_eq!(
            answer(
                &Method::OPTIONS,
                &[origin, method, ("access-control-request-headers", "x-auth-token, Content-Type")]
            ),
            [
                "200",
                "access-control-allow-credentials: true",
                "access-control-allow-headers: x-auth-token,Content-Type",
                "access-control-allow-methods: GET",
                "access-control-allow-origin: http://foobar.com",
                "access-control-max-age: 3600",
                "vary: Origin",
            ]
        );
        for headers in [
            &[][..],
            &[origin],
            &[("origin", "http://notallowed.com"), method],
            &[origin, ("access-control-request-method", "BREW")],
            &[origin, method, ("access-control-request-headers", "x-other")],
        ] {
            assert_eq!(answer(&Method::OPTIONS, headers), ["200"], "{headers:?}");
        }
    }

    #[test]
    fn a_page_of_another_origin_changes_nothing_unless_it_is_allowed() {
        let options =
            CorsOptions { allowed_origin: vec!["http://foobar.com".to_owned()], ..CorsOptions::default() };
        let forbids = |method: &Method, origin: &'static str, site: &'static str| {
            let headers = [(ORIGIN, origin), (SEC_FETCH_SITE, site)];
            let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
            options.forbids(method, &HeaderMap::from_iter(headers))
        };
        for (method, origin, site, expected) in [
            (Method::POST, "http://other.com", "cross-site", true),
            (Method::POST, "null", "cross-site", true),
            (Method::DELETE, "http://other.com", "same-site", true),
            (Method::GET, "http://other.com", "cross-site", false),
            (Method::POST, "http://foobar.com", "cross-site", false),
            (Method::POST, "http://proxy.com", "same-origin", false),
            (Method::POST, "null", "none", false),
        ] {
            assert_eq!(forbids(&method, origin, site), expected, "{method} {origin} {site}");
        }
        assert!(!options.forbids(&Method::POST, &HeaderMap::new()), "no browser");
    }

    #[test]
    fn an_answer_to_an_allowed_origin_says_so() {
        assert_eq!(
            answer(&Method::GET, &[("origin", "http://foobar.com")]),
            [
                "405",
                "access-control-allow-credentials: true",
                "access-control-allow-origin: http://foobar.com",
                "vary: Origin",
            ]
        );
        assert_eq!(answer(&Method::GET, &[("origin", "http://notallowed.com")]), ["405"]);
        assert_eq!(answer(&Method::GET, &[]), ["405"]);
    }
}
