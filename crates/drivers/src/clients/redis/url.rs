//! URLs of `redis_url`: Gnocchi's forms, and those for Redis Cluster.
//!
//! Displayed without passwords, here and in all errors.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use gnudi_model::python::{bool_of_text, unquote_strict};

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
/// A longer time may be no time when it is added to one.
const TIMEOUT_MAX: Duration = Duration::from_hours(24);

/// Options of other clients that have no meaning here.
const WITHOUT_EFFECT: [&str; 7] = [
    "encoding",
    "retry_on_timeout",
    "socket_keepalive",
    "health_check_interval",
    // Read by tooz' callers.
    "timeout",
    "lock_timeout",
    "membership_timeout",
];

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    pub host: String,
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

/// Servers by kind of deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Servers {
    One(Address),
    Socket(PathBuf),
    /// The sentinels know the master.
    Sentinels {
        sentinels: Vec<Address>,
        master: String,
        tls: bool,
    },
    /// Some of the nodes; the others are discovered.
    Cluster(Vec<Address>),
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    pub username: Option<String>,
    pub password: Option<String>,
}

/// TLS settings; files that are `None`: the system's certificates, and no client certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    pub ca_file: Option<PathBuf>,
    pub certificate_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    /// Whether the server's certificate is not verified.
    pub unverified: bool,
}

#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    pub servers: Servers,
    pub credentials: Credentials,
    pub sentinel_credentials: Credentials,
    pub db: u16,
    pub tls: Option<Tls>,
    /// Timeout of a response; a day at most.
    pub socket_timeout: Option<Duration>,
    /// Given options without a meaning here.
    pub unknown: Vec<String>,
}

/// Why a URL is invalid, without its password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("redis_url: {0}")]
pub struct UrlError(String);

fn wrong<T>(reason: impl Into<String>) -> Result<T, UrlError> {
    Err(UrlError(reason.into()))
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list =
            |addresses: &[Address]| addresses.iter().map(Address::to_string).collect::<Vec<_>>().join(",");
        match &self.servers {
            Servers::One(address) => write!(formatter, "redis {address}")?,
            Servers::Socket(path) => write!(formatter, "redis {}", path.display())?,
            Servers::Sentinels { sentinels, master, .. } => {
                write!(formatter, "redis {master} of the sentinels {}", list(sentinels))?;
            }
            Servers::Cluster(nodes) => write!(formatter, "redis cluster {}", list(nodes))?,
        }
        if self.db != 0 { write!(formatter, " db {}", self.db) } else { Ok(()) }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

impl FromStr for RedisUrl {
    type Err = UrlError;

    fn from_str(url: &str) -> Result<Self, UrlError> {
        let Some((scheme, rest)) = url.trim().split_once("://") else {
            return wrong("expected redis://host:port, rediss://, unix:// or redis+cluster://");
        };
        let (scheme, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        let scheme = match (scheme, kind) {
            ("redis", "unix") => "unix",
            (_, "" | "cluster" | "sentinel") => scheme,
            _ => return wrong(format!("+{kind}:// is not known: redis+cluster:// or redis+sentinel://")),
        };
        let cluster = kind == "cluster";
        if !["redis", "rediss", "unix"].contains(&scheme) {
            return wrong(format!(
                "{scheme}:// is not known: redis://, rediss://, unix:// or redis+cluster://"
            ));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut options = QueryOptions::parse(query)?;
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let mut url = RedisUrl {
            servers: Servers::Socket(PathBuf::new()),
            credentials: credentials(user)?,
            sentinel_credentials: Credentials {
                username: options.text("sentinel_username"),
                password: options.text("sentinel_password"),
            },
            db: 0,
            tls: options.tls(scheme == "rediss")?,
            socket_timeout: options.seconds("socket_timeout")?,
            unknown: Vec::new(),
        };
        let db = options.number("db")?;
        let cluster = options.flag("cluster")?.unwrap_or(cluster);
        let master = options.text("sentinel");
        if kind == "sentinel" && master.is_none() {
            return wrong("redis+sentinel:// needs ?sentinel=<name of the master>");
        }
        if hosts.is_empty() {
            if cluster || master.is_some() {
                return wrong("a host is missing");
            }
            if path.len() < 2 {
                return wrong("a host, or the path of a socket, is missing");
            }
            url.servers = Servers::Socket(decode(path)?.into());
        } else {
            url.servers = servers(hosts, cluster, master, &mut options)?;
            url.db = path_db(path)?;
        }
        url.db = db.unwrap_or(url.db);
        if cluster && url.db != 0 {
            return wrong("a cluster has no database but 0");
        }
        for known in WITHOUT_EFFECT {
            options.text(known);
        }
        url.unknown = options.0.into_iter().map(|(name, _)| name).collect();
        Ok(url)
    }
}

fn servers(
    hosts: &str,
    cluster: bool,
    master: Option<String>,
    options: &mut QueryOptions,
) -> Result<Servers, UrlError> {
    if cluster {
        if master.is_some() {
            return wrong("a cluster has no sentinels");
        }
        let nodes = hosts.split(',').map(|host| address(host, PORT)).collect::<Result<_, _>>()?;
        return Ok(Servers::Cluster(nodes));
    }
    let tls = options.flag("sentinel_ssl")?.unwrap_or(false);
    let fallbacks = options.all("sentinel_fallback");
    let Some(master) = master else {
        if !fallbacks.is_empty() {
            return wrong("sentinel_fallback without sentinel=<name of the master>");
        }
        if hosts.contains(',') {
            return wrong(
                "several hosts are a cluster (redis+cluster://) or sentinels (?sentinel=<name of the master>)",
            );
        }
        return Ok(Servers::One(address(hosts, PORT)?));
    };
    if master.is_empty() {
        return wrong("sentinel= names no master");
    }
    let fallbacks = fallbacks.iter().map(String::as_str);
    let sentinels = hosts.split(',').chain(fallbacks);
    let sentinels = sentinels.map(|host| address(host, SENTINEL_PORT)).collect::<Result<_, _>>()?;
    Ok(Servers::Sentinels { sentinels, master, tls })
}

fn credentials(user: &str) -> Result<Credentials, UrlError> {
    if user.is_empty() {
        return Ok(Credentials::default());
    }
    let (username, password) = user.split_once(':').unwrap_or((user, ""));
    let some = |text: &str| Ok((!text.is_empty()).then_some(decode(text)?));
    Ok(Credentials { username: some(username)?, password: some(password)? })
}

fn address(text: &str, port: u16) -> Result<Address, UrlError> {
    let (host, port_text) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => return wrong(format!("{text}: the ] of the address is missing")),
        },
        None => match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return wrong("a host is missing");
    }
    let port = match port_text {
        None => port,
        Some(port) => match port.parse() {
            Ok(0) | Err(_) => return wrong(format!("the port of {host} is not a number from 1 to 65535")),
            Ok(port) => port,
        },
    };
    Ok(Address { host: host.to_owned(), port })
}

fn path_db(path: &str) -> Result<u16, UrlError> {
    match path.trim_start_matches('/') {
        "" => Ok(0),
        text => text.parse().or_else(|_| wrong(format!("/{text} is not the number of a database"))),
    }
}

/// The query's options in order; reading one removes it.
struct QueryOptions(Vec<(String, String)>);

impl QueryOptions {
    fn parse(query: &str) -> Result<Self, UrlError> {
        let options = query.split('&').filter(|option| !option.is_empty()).map(|option| {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            Ok((decode(name.trim())?, decode(value.trim())?))
        });
        options.collect::<Result<_, _>>().map(QueryOptions)
    }

    fn all(&mut self, name: &str) -> Vec<String> {
        self.0.extract_if(.., |(known, _)| known == name).map(|(_, value)| value).collect()
    }

    fn text(&mut self, name: &str) -> Option<String> {
        self.all(name).pop()
    }

    fn path(&mut self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    fn flag(&mut self, name: &str) -> Result<Option<bool>, UrlError> {
        let Some(value) = self.text(name) else { return Ok(None) };
        match bool_of_text(&value) {
            Some(flag) => Ok(Some(flag)),
            None => wrong(format!("{name} is true or false")),
        }
    }

    fn number(&mut self, name: &str) -> Result<Option<u16>, UrlError> {
        let Some(value) = self.text(name) else { return Ok(None) };
        value.parse().map(Some).or_else(|_| wrong(format!("{name} is a number")))
    }

    fn seconds(&mut self, name: &str) -> Result<Option<Duration>, UrlError> {
        let Some(value) = self.text(name) else { return Ok(None) };
        match value.parse::<f64>().ok().and_then(|value| Duration::try_from_secs_f64(value).ok()) {
            Some(Duration::ZERO) | None => wrong(format!("{name} is a number of seconds above 0")),
            Some(seconds) => Ok(Some(seconds.min(TIMEOUT_MAX))),
        }
    }

    fn tls(&mut self, scheme: bool) -> Result<Option<Tls>, UrlError> {
        let wanted = self.flag("ssl")?.unwrap_or(scheme);
        let unverified = match self.text("ssl_cert_reqs").as_deref() {
            None | Some("required") => false,
            Some("none") => true,
            Some(_) => return wrong("ssl_cert_reqs is required or none"),
        };
        let ca_certificates = self.path("ssl_ca_certs");
        let tls = Tls {
            ca_file: self.path("ssl_ca").or(ca_certificates),
            certificate_file: self.path("ssl_certfile"),
            key_file: self.path("ssl_keyfile"),
            unverified,
        };
        if tls.certificate_file.is_some() != tls.key_file.is_some() {
            return wrong("ssl_certfile and ssl_keyfile belong together");
        }
        Ok(wanted.then_some(tls))
    }
}

fn decode(text: &str) -> Result<String, UrlError> {
    let Some(bytes) = unquote_strict(text) else { return wrong("a % must be written as %25") };
    String::from_utf8(bytes).or_else(|_| wrong("what follows a % is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> RedisUrl {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn shown(text: &str) -> String {
        url(text).to_string()
    }

    #[test]
    fn servers_and_their_defaults() {
        assert_eq!(shown("redis://localhost:6379/"), "redis localhost:6379");
        assert_eq!(shown("redis://localhost"), "redis localhost:6379");
        assert_eq!(shown("redis://[::1]:7000?db=3"), "redis [::1]:7000 db 3");
        assert_eq!(shown("redis://h/2"), "redis h:6379 db 2");
        assert_eq!(shown("redis:///run/redis.sock?db=1"), "redis /run/redis.sock db 1");
        assert_eq!(shown("unix:///run/redis.sock"), "redis /run/redis.sock");
        assert_eq!(shown("redis+unix:///run/redis.sock"), "redis /run/redis.sock");
        assert_eq!(shown("redis+cluster://a:1,b:2"), "redis cluster a:1,b:2");
        assert_eq!(shown("redis+sentinel://a,b:2?sentinel=m"), "redis m of the sentinels a:26379,b:2");
        assert_eq!(shown("redis://a:1?cluster=true"), "redis cluster a:1");
        let sentinels = "redis://a:1?sentinel=m&sentinel_fallback=b:2&sentinel_fallback=c:3";
        assert_eq!(shown(sentinels), "redis m of the sentinels a:1,b:2,c:3");
    }

    #[test]
    fn options_are_taken() {
        let taken =
            url("rediss://u:p%40ss@h:1?ssl_ca_certs=/ca.pem&socket_timeout=2.5&encoding=utf-8&what=1");
        assert_eq!(taken.credentials.username.as_deref(), Some("u"));
        assert_eq!(taken.credentials.password.as_deref(), Some("p@ss"));
        assert_eq!(taken.tls, Some(Tls { ca_file: Some("/ca.pem".into()), ..Tls::default() }));
        assert_eq!(taken.socket_timeout, Some(Duration::from_millis(2500)));
        assert_eq!(url("redis://h?socket_timeout=1e19").socket_timeout, Some(TIMEOUT_MAX));
        assert_eq!(taken.unknown, ["what"]);
        assert_eq!(url("redis://:secret@h").credentials.password.as_deref(), Some("secret"));
        assert!(url("redis://h?ssl=true&ssl_cert_reqs=none").tls.unwrap().unverified);
        let sentinel = url("redis://h:1?sentinel=m&sentinel_password=s&sentinel_ssl=1");
        assert_eq!(sentinel.sentinel_credentials.password.as_deref(), Some("s"));
        assert!(matches!(sentinel.servers, Servers::Sentinels { tls: true, .. }));
    }

    #[test]
    fn what_is_no_url_is_refused_without_its_password() {
        for (text, wanted) in [
            ("localhost:6379", "expected redis://"),
            ("http://h", "is not known"),
            ("redis://", "a host"),
            ("redis://:secret@h:port", "port of h"),
            ("redis://:secret@h:0", "port of h"),
            ("redis://:secret@h/x", "database"),
            ("redis://:sec%ret@h", "%25"),
            ("redis://:secret@a,b", "several hosts"),
            ("redis+cluster://:secret@a?db=1", "no database but 0"),
            ("redis+cluster://a?sentinel=m", "no sentinels"),
            ("redis://a?sentinel_fallback=b:1", "without sentinel"),
            ("redis://a?socket_timeout=-1", "seconds"),
            ("redis+sentinel://a", "needs ?sentinel"),
            ("redis+else://a", "+else"),
            ("redis://a?ssl=perhaps", "true or false"),
            ("redis://a?ssl_certfile=x", "belong together"),
            ("redis://[::1", "]"),
        ] {
            let error = text.parse::<RedisUrl>().expect_err(text).to_string();
            assert!(error.contains(wanted), "{text}: {error}");
            assert!(!error.contains("secret") && !error.contains("ret@"), "{error} shows the password");
        }
        let shown = format!("{:?}", url("redis://user:secret@h?sentinel=m&sentinel_password=hidden"));
        assert!(!shown.contains("secret") && !shown.contains("hidden"), "{shown}");
    }
}
