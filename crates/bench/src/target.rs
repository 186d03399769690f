//! The server under load: any server with Gnocchi's API over HTTP, given by its URL, or the built-in no-op server.
//!
//! It makes the few calls that are not measured, and reports clear errors for missing or refusing servers.

use std::{
    net::{SocketAddr, TcpStream, ToSocketAddrs as _},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use gnudi_client::ClientOptions;
use gnudi_endpoint::{ENDPOINT, Server, ServerArgs};

use crate::{
    context::Stop,
    load::{Headers, Keep, Load, Requests, Secured, Until},
    noop::NoopServer,
};

/// The endpoint name of the no-op server.
const LIMIT: &str = "limit";

const CONNECT_DELAY_MAX: Duration = Duration::from_secs(10);

pub struct Target {
    pub address: SocketAddr,
    secured: Option<Secured>,
    pub headers: Headers,
    pub silence_max: Duration,
    /// Kept alive, if it is the target.
    noop: Option<NoopServer>,
}

/// Header lines with the identity, and `Accept` for JSON errors.
fn lines(options: &ClientOptions) -> Result<String> {
    let mut lines = "Accept: application/json\r\n".to_owned();
    for (name, value) in options.identity()? {
        let value = value.to_str().context("what says who asks is not ASCII")?;
        lines.extend([name.as_str(), ": ", value, "\r\n"]);
    }
    Ok(lines)
}

#[derive(Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// With its port.
    pub host: String,
    /// The path before `/v1`.
    pub prefix: String,
    pub is_secure: bool,
}

impl Endpoint {
    pub fn parse(url: &str) -> Result<Self> {
        let plain = url.strip_prefix("http://");
        let rest = plain
            .or_else(|| url.strip_prefix("https://"))
            .with_context(|| format!("{url}: not a URL such as {ENDPOINT}"))?;
        let is_secure = plain.is_none();
        ensure!(
            !rest.contains(['?', '#', '@']) && rest.bytes().all(|byte| byte.is_ascii_graphic()),
            "{url}: neither a user nor a query can be part of an endpoint"
        );
        let (host, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        ensure!(!host.is_empty(), "{url}: no host");
        // An IPv6 address has its colons in brackets.
        let port_follows = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let port = if is_secure { 443 } else { 80 };
        let host = if port_follows { host.to_owned() } else { format!("{host}:{port}") };
        let prefix = prefix.trim_end_matches('/');
        let prefix = prefix.strip_suffix("/v1").unwrap_or(prefix).to_owned();
        Ok(Endpoint { host, prefix, is_secure })
    }

    pub fn address(&self) -> Result<SocketAddr> {
        let mut addresses = self.host.to_socket_addrs().with_context(|| self.host.clone())?;
        addresses.next().with_context(|| format!("{} has no address", self.host))
    }
}

impl Target {
    /// Resolves the server and sends it a request: errors say which request failed.
    pub fn open(server: &ServerArgs) -> Result<Self> {
        let silence_max = server.timeout();
        let Server { endpoint, options } = server.resolve_blocking()?;
        let identity = lines(&options)?;
        let noop = (endpoint == LIMIT).then(NoopServer::start).transpose().context("the no-op server")?;
        let endpoint = noop.as_ref().map_or(endpoint, |noop| format!("http://{}", noop.address));
        let parsed = Endpoint::parse(&endpoint)?;
        let address = parsed.address().with_context(|| endpoint.clone())?;
        let Endpoint { host, prefix, is_secure } = parsed;
        let secured = is_secure.then(|| Secured::new(&host, &options.trust)).transpose()?;
        let headers = Headers { identity, ..Headers::new(host, prefix) };
        TcpStream::connect_timeout(&address, CONNECT_DELAY_MAX)
            .with_context(|| format!("{endpoint}: no connection to {address}"))?;
        let target = Target { address, secured, headers, silence_max, noop };
        target.call("GET", "/v1/capabilities").with_context(|| endpoint.clone())?;
        Ok(target)
    }

    pub fn is_noop(&self) -> bool {
        self.noop.is_some()
    }

    /// A load with one connection on this server.
    pub fn load<'a>(&'a self, requests: &'a Requests, until: Until, stop: &'a Stop) -> Load<'a> {
        Load {
            secured: self.secured.as_ref(),
            silence_max: self.silence_max,
            ..Load::new(self.address, requests, until, stop)
        }
    }

    pub fn call(&self, method: &str, path: &str) -> Result<Vec<u8>> {
        self.send(self.headers.bare(method, path))
    }

    pub fn post(&self, path: &str, body: &[u8]) -> Result<Vec<u8>> {
        self.send(self.headers.post(path, body))
    }

    fn send(&self, request: Vec<u8>) -> Result<Vec<u8>> {
        // These calls are not interrupted: ctrl-C ends the load that they belong to.
        let stop = Stop::default();
        let requests = Requests::listed(vec![request]);
        let load = Load { keep: Keep::Bodies, ..self.load(&requests, Until::Count(1), &stop) };
        let mut outcome = load.run();
        match outcome.bodies.pop() {
            Some((_, body)) => Ok(body),
            None => bail!("{}", outcome.failure.unwrap_or_else(|| "no answer".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, host, prefix, is_secure) in [
            ("http://127.0.0.1:8041/gnocchi/", "127.0.0.1:8041", "/gnocchi", false),
            ("http://h", "h:80", "", false),
            ("https://h", "h:443", "", true),
            ("https://h:1/metric/v1/", "h:1", "/metric", true),
            ("http://[::1]/", "[::1]:80", "", false),
            ("https://[::1]/", "[::1]:443", "", true),
            ("http://[::1]:8041", "[::1]:8041", "", false),
        ] {
            let expected = Endpoint { host: host.to_owned(), prefix: prefix.to_owned(), is_secure };
            assert_eq!(Endpoint::parse(url).unwrap(), expected, "{url}");
        }
        for url in ["", "h:80", "http://", "http:///x", "http://a@h", "http://h/?a", "ftp://h", "http://h h"]
        {
            assert!(Endpoint::parse(url).is_err(), "{url}");
        }
    }
}
