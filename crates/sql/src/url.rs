//! Database URLs in Gnocchi's form, that of `SQLAlchemy`; the driver after the plus is ignored.

use std::{mem, path::PathBuf, time::Duration};

use gnudi_model::{Secret, python::unquote_strict};

use crate::options::{DatabaseOptions, Host, Server, ServerOptions, SqliteOptions, TlsMode};

/// Why a URL is invalid. Does not show the URL, which may contain a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    #[error("the database's URL has no scheme: it begins with postgresql://, mysql:// or sqlite:///")]
    NoScheme,
    #[error(
        "the database's URL has the scheme {0}, and this program knows postgresql, mysql, mariadb and sqlite"
    )]
    UnknownScheme(String),
    #[error("the database's URL names no {0}")]
    Missing(&'static str),
    #[error("the database's URL has a bad {part}: {reason}")]
    Bad { part: &'static str, reason: &'static str },
    #[error("the database's URL has an unknown option {0}")]
    UnknownOption(String),
    #[error("the database's URL has a bad value for {0}")]
    BadOption(String),
}

/// Options that concern Python clients, are always on here, or are about lost connections, for which there are deadlines.
const IGNORED: [&str; 13] = [
    "charset",
    "use_unicode",
    "client_encoding",
    "application_name",
    "local_infile",
    "autocommit",
    "binary_prefix",
    "gssencmode",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
    "tcp_user_timeout",
];

/// Where libpq looks for the socket if no host is named, on Debian and as `psycopg2-binary` has it.
const POSTGRES_SOCKETS: &str = "/var/run/postgresql";

const SEVERAL_HOSTS: InvalidUrl =
    InvalidUrl::Bad { part: "host", reason: "this program connects to one host" };

impl DatabaseOptions {
    pub fn from_url(url: &str) -> Result<Self, InvalidUrl> {
        let (scheme, rest) = url.split_once("://").ok_or(InvalidUrl::NoScheme)?;
        match scheme.split('+').next().unwrap_or_default().to_ascii_lowercase().as_str() {
            "postgresql" | "postgres" => server(Server::Postgres, rest).map(DatabaseOptions::Server),
            "mysql" | "mariadb" => server(Server::Mysql, rest).map(DatabaseOptions::Server),
            "sqlite" => sqlite(rest).map(DatabaseOptions::Sqlite),
            _ => Err(InvalidUrl::UnknownScheme(scheme.to_owned())),
        }
    }
}

/// Three slashes before a relative path, four before an absolute one.
fn sqlite(rest: &str) -> Result<SqliteOptions, InvalidUrl> {
    let (path, _) = rest.split_once('?').unwrap_or((rest, ""));
    let Some(path) = path.strip_prefix('/') else {
        return Err(InvalidUrl::Bad {
            part: "path",
            reason: "sqlite has three slashes before it, four if it is absolute",
        });
    };
    match path {
        "" | ":memory:" => Err(InvalidUrl::Missing("file")),
        path => Ok(SqliteOptions::new(decoded(path, "path")?)),
    }
}

fn server(server: Server, rest: &str) -> Result<ServerOptions, InvalidUrl> {
    let (credentials, rest) = split_credentials(rest);
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, password) = match credentials {
        Some(credentials) => match credentials.split_once(':') {
            Some((user, password)) => (user, Some(Secret::new(decoded(password, "password")?))),
            None => (credentials, None),
        },
        None => ("", None),
    };
    let user = decoded(user, "user")?;
    let port = if server == Server::Postgres { 5432 } else { 3306 };
    let host = host(server, place, port)?;
    let database = decoded(database, "database")?;
    if database.is_empty() {
        return Err(InvalidUrl::Missing("database"));
    }
    if user.is_empty() {
        return Err(InvalidUrl::Missing("user"));
    }
    let mut options = ServerOptions { password, ..ServerOptions::new(server, host, user, database) };
    set_options(&mut options, query)?;
    Ok(options)
}

/// Splits off what is before the at sign. As with `SQLAlchemy`, a password may have slashes and question marks that are not
/// escaped, up to the first at sign; without them, the last at sign before the database counts.
fn split_credentials(rest: &str) -> (Option<&str>, &str) {
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let at = match authority.rfind('@') {
        None if authority.contains(':') => rest.find('@'),
        at => at,
    };
    match at {
        Some(at) => (Some(&rest[..at]), &rest[at + 1..]),
        None => (None, rest),
    }
}

fn host(server: Server, place: &str, port: u16) -> Result<Host, InvalidUrl> {
    let bad = |reason| InvalidUrl::Bad { part: "host", reason };
    let (name, behind) = match place.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or_else(|| bad("its bracket does not close"))?,
        None => place.split_at(place.find(':').unwrap_or(place.len())),
    };
    let port = match behind.strip_prefix(':') {
        None if behind.is_empty() => port,
        None => return Err(bad("something follows its bracket")),
        Some(text) => text
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or(InvalidUrl::Bad { part: "port", reason: "it is a number from 1 to 65535" })?,
    };
    named_host(server, decoded(name, "host")?, port)
}

fn named_host(server: Server, name: String, port: u16) -> Result<Host, InvalidUrl> {
    if name.contains(',') {
        return Err(SEVERAL_HOSTS);
    }
    Ok(match server {
        Server::Postgres if name.is_empty() => Host::Socket(POSTGRES_SOCKETS.into(), port),
        Server::Postgres if name.starts_with('/') => Host::Socket(name.into(), port),
        Server::Mysql if name.is_empty() => Host::Tcp("localhost".to_owned(), port),
        Server::Postgres | Server::Mysql => Host::Tcp(name, port),
    })
}

fn set_options(options: &mut ServerOptions, query: &str) -> Result<(), InvalidUrl> {
    let mut check_host = true;
    let mut is_named = false;
    let mut mode = None;
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let (name, value) = (decoded(name, "option")?, decoded(value, "option")?);
        let bad = || InvalidUrl::BadOption(name.clone());
        match name.as_str() {
            "sslmode" | "ssl_mode" | "ssl-mode" => mode = Some(tls_mode(&value).ok_or_else(bad)?),
            "sslrootcert" | "ssl_ca" | "ssl-ca" => options.tls.root_certificates = Some(value.into()),
            "sslcert" | "ssl_cert" | "ssl-cert" => options.tls.certificate = Some(value.into()),
            "sslkey" | "ssl_key" | "ssl-key" => options.tls.key = Some(value.into()),
            "ssl_check_hostname" => check_host = truth(&value).ok_or_else(bad)?,
            "connect_timeout" | "read_timeout" | "write_timeout" => {
                let seconds: u64 = value.parse().ok().filter(|seconds| *seconds > 0).ok_or_else(bad)?;
                options.timeout = options.timeout.min(Duration::from_secs(seconds));
            }
            "host" if options.server == Server::Postgres => {
                let (Host::Tcp(_, port) | Host::Socket(_, port)) = options.host;
                if mem::replace(&mut is_named, true) {
                    return Err(SEVERAL_HOSTS);
                }
                options.host = named_host(options.server, value, port)?;
            }
            "port" => {
                let port = value.parse().ok().filter(|port| *port > 0).ok_or_else(bad)?;
                match &mut options.host {
                    Host::Tcp(_, former) | Host::Socket(_, former) => *former = port,
                }
            }
            "unix_socket" if options.server == Server::Mysql => {
                options.host = Host::Socket(PathBuf::from(value), 0);
            }
            // Writes to a standby fail, and nothing binds a login to its TLS connection.
            "target_session_attrs" if ["any", "read-write", "primary"].contains(&&*value) => {}
            "channel_binding" if ["disable", "prefer"].contains(&&*value) => {}
            "target_session_attrs" | "channel_binding" => return Err(bad()),
            name if IGNORED.contains(&name) => {}
            _ => return Err(InvalidUrl::UnknownOption(name)),
        }
    }
    // As in PyMySQL: a configured authority implies verification.
    let verified = if check_host { TlsMode::VerifyIdentity } else { TlsMode::VerifyCa };
    let is_verified = options.server == Server::Mysql && options.tls.root_certificates.is_some();
    options.tls.mode = match mode {
        Some(mode) => mode,
        None if is_verified => verified,
        None => TlsMode::default(),
    };
    Ok(())
}

/// The names of both databases.
fn tls_mode(name: &str) -> Option<TlsMode> {
    Some(match name.to_ascii_lowercase().replace('_', "-").as_str() {
        "disable" | "disabled" => TlsMode::Disabled,
        "allow" | "prefer" | "preferred" => TlsMode::Preferred,
        "require" | "required" => TlsMode::Required,
        "verify-ca" => TlsMode::VerifyCa,
        "verify-full" | "verify-identity" => TlsMode::VerifyIdentity,
        _ => return None,
    })
}

fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Some(true),
        "false" | "0" | "no" => Some(false),
        _ => None,
    }
}

fn decoded(text: &str, part: &'static str) -> Result<String, InvalidUrl> {
    let bad = |reason| InvalidUrl::Bad { part, reason };
    let bytes =
        unquote_strict(text).ok_or_else(|| bad("a percent sign is followed by two hexadecimal digits"))?;
    let text = String::from_utf8(bytes).map_err(|_| bad("it is not UTF-8"))?;
    if text.contains('\0') { Err(bad("it has a NUL character")) } else { Ok(text) }
}

#[cfg(test)]
mod tests;
