//! The requests of a load, built before the clock starts.
//!
//! Request `index` is a few slices, sent without copying. Requests share the memory of common parts, so that times can
//! advance from request to request without gigabytes of text.

/// Slices of one request, in order; any may be empty.
pub type Parts<'a> = [&'a [u8]; 3];

/// A request for each metric at each step, metric by metric, then step by step in time: `starts[step]`, `metrics[metric]`,
/// `ends[step]`.
#[derive(Debug)]
pub struct Requests {
    pub starts: Vec<Vec<u8>>,
    /// All of the same length, if they are parts of bodies.
    pub metrics: Vec<Vec<u8>>,
    pub ends: Vec<Vec<u8>>,
}

/// A metric's id in a response.
pub type IdText = [u8; 36];

impl Requests {
    /// Whole requests, used in turn.
    pub fn listed(requests: Vec<Vec<u8>>) -> Self {
        Requests::grid(requests, vec![Vec::new()])
    }

    /// A head for each metric, up to the header before `Content-Length`, and a body for each step, after `Content-Length`
    /// and the empty line.
    pub fn grid(heads: Vec<Vec<u8>>, bodies: Vec<Vec<u8>>) -> Self {
        Requests { starts: vec![Vec::new(); bodies.len()], metrics: heads, ends: bodies }
    }

    /// A request for each body and each name. A body is given as its parts before and after the name. All names have the same
    /// length.
    pub fn named(
        open_head: &[u8],
        names: Vec<Vec<u8>>,
        bodies: impl IntoIterator<Item = [Vec<u8>; 2]>,
    ) -> Self {
        let name_bytes = names.first().map_or(0, Vec::len);
        let parts = bodies.into_iter().map(|[before, behind]| {
            ([open_head, &with_length(&before, name_bytes + behind.len())].concat(), behind)
        });
        let (starts, ends) = parts.unzip();
        Requests { starts, metrics: names, ends }
    }

    /// Number of requests before they repeat.
    pub fn distinct(&self) -> u64 {
        (self.metrics.len() * self.ends.len()) as u64
    }

    pub fn parts(&self, index: u64) -> Parts<'_> {
        let index = (index % self.distinct()) as usize;
        let (step, metric) = (index / self.metrics.len(), index % self.metrics.len());
        [&self.starts[step], &self.metrics[metric], &self.ends[step]]
    }

    /// Method and path of a request, for messages.
    pub fn line(&self, index: u64) -> String {
        let start: Vec<u8> =
            self.parts(index).concat().into_iter().take_while(|byte| *byte != b'\r').collect();
        let line = String::from_utf8_lossy(&start);
        line.strip_suffix(" HTTP/1.1").unwrap_or(&line).to_owned()
    }
}

/// Headers of all requests to a server.
#[derive(Clone, Debug)]
pub struct Headers {
    /// `host:port`.
    pub host: String,
    /// Path before `/v1`, without a trailing slash.
    pub prefix: String,
    /// Complete header lines with the identity.
    pub identity: String,
}

impl Headers {
    /// Requests of the user `admin` without a password.
    pub fn new(host: impl Into<String>, prefix: impl Into<String>) -> Self {
        // `admin:` in base64.
        let identity = "Authorization: Basic YWRtaW46\r\n".to_owned();
        Headers { host: host.into(), prefix: prefix.into(), identity }
    }

    /// A request's header without its end: another header line or an empty line must follow.
    pub fn open_head(&self, method: &str, path: &str) -> Vec<u8> {
        let Headers { host, prefix, identity } = self;
        format!("{method} {prefix}{path} HTTP/1.1\r\nHost: {host}\r\n{identity}").into_bytes()
    }

    /// A complete request without a body.
    pub fn bare(&self, method: &str, path: &str) -> Vec<u8> {
        [self.open_head(method, path).as_slice(), b"\r\n"].concat()
    }

    pub fn post(&self, path: &str, body: &[u8]) -> Vec<u8> {
        [self.open_json_head(path), with_length(body, 0)].concat()
    }

    pub fn post_json(&self, path: &str, body: &serde_json::Value) -> Vec<u8> {
        self.post(path, body.to_string().as_bytes())
    }

    pub fn patch(&self, path: &str, body: &[u8]) -> Vec<u8> {
        [self.open_head("PATCH", path).as_slice(), JSON, &with_length(body, 0)].concat()
    }

    /// The open header of a POST of JSON.
    pub fn open_json_head(&self, path: &str) -> Vec<u8> {
        [self.open_head("POST", path).as_slice(), JSON].concat()
    }
}

const JSON: &[u8] = b"Content-Type: application/json\r\n";

/// `Content-Length`, the empty line, and the body, of which `missing_bytes` are sent separately.
pub fn with_length(body: &[u8], missing_bytes: usize) -> Vec<u8> {
    let header = format!("Content-Length: {}\r\n\r\n", body.len() + missing_bytes);
    [header.as_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(requests: &Requests, index: u64) -> String {
        String::from_utf8(requests.parts(index).concat()).unwrap()
    }

    fn bytes(texts: &[&str]) -> Vec<Vec<u8>> {
        texts.iter().map(|text| text.as_bytes().to_vec()).collect()
    }

    #[test]
    fn every_metric_gets_a_step_before_time_goes_on() {
        let grid = Requests::grid(bytes(&["a", "b"]), bytes(&["1", "2", "3"]));
        let sent: Vec<_> = (0..8).map(|index| text(&grid, index)).collect();
        assert_eq!(sent, ["a1", "b1", "a2", "b2", "a3", "b3", "a1", "b1"]);
        let (starts, ends) = (bytes(&["H1 ", "H2 "]), bytes(&["1", "2"]));
        let named = Requests { starts, metrics: bytes(&["a", "b", "c"]), ends };
        let sent: Vec<_> = (0..6).map(|index| text(&named, index)).collect();
        assert_eq!(sent, ["H1 a1", "H1 b1", "H1 c1", "H2 a2", "H2 b2", "H2 c2"]);
        assert_eq!(named.distinct(), 6);
        let listed = Requests::listed(bytes(&["x", "y"]));
        assert_eq!((text(&listed, 1), text(&listed, 2)), ("y".to_owned(), "x".to_owned()));
        let (starts, metrics) = (bytes(&["DELETE /"]), bytes(&["a", "b"]));
        let deletions = Requests { starts, metrics, ends: bytes(&[" HTTP/1.1\r\n\r\n"]) };
        assert_eq!(deletions.line(3), "DELETE /b");
    }

    #[test]
    fn heads_are_http() {
        let headers = Headers::new("h:1", "/gnocchi");
        assert_eq!(
            String::from_utf8(headers.post("/v1/metric", b"{}")).unwrap(),
            "POST /gnocchi/v1/metric HTTP/1.1\r\nHost: h:1\r\nAuthorization: Basic YWRtaW46\r\n\
             Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        );
        assert!(headers.bare("GET", "/").ends_with(b"YWRtaW46\r\n\r\n"));
        assert_eq!(with_length(b"ab", 3), b"Content-Length: 5\r\n\r\nab");
    }
}
