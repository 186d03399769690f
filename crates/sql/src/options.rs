//! Database options.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use gnudi_model::Secret;

/// Sets those of `$options` that `PostgreSQL` and `MySQL` have in common on sqlx's `$connect`, and returns it. A macro,
/// since sqlx has a type for each. `$root_certificates` is its method for the file of root certificates.
macro_rules! with_options {
    ($connect:expr, $options:ident, $root_certificates:ident) => {{
        let mut connect = $connect
            .username(&$options.user)
            .database(&$options.database)
            .statement_cache_capacity($crate::connection::STATEMENTS_MAX)
            .disable_statement_logging();
        if let Some(password) = &$options.password {
            connect = connect.password(password.reveal());
        }
        if let Some(file) = &$options.tls.root_certificates {
            connect = connect.$root_certificates(file);
        }
        if let Some(file) = &$options.tls.certificate {
            connect = connect.ssl_client_cert(file);
        }
        if let Some(file) = &$options.tls.key {
            connect = connect.ssl_client_key(file);
        }
        connect
    }};
}

pub(crate) use with_options;

/// Any database.
#[derive(Clone, Debug)]
pub enum DatabaseOptions {
    Sqlite(SqliteOptions),
    Server(ServerOptions),
}

impl From<&SqliteOptions> for DatabaseOptions {
    fn from(options: &SqliteOptions) -> Self {
        DatabaseOptions::Sqlite(options.clone())
    }
}

impl From<&DatabaseOptions> for DatabaseOptions {
    fn from(options: &DatabaseOptions) -> Self {
        options.clone()
    }
}

impl From<&ServerOptions> for DatabaseOptions {
    fn from(options: &ServerOptions) -> Self {
        DatabaseOptions::Server(options.clone())
    }
}

impl DatabaseOptions {
    /// See [`SqliteOptions::rows_rare_max`].
    pub fn rows_rare_max(&self) -> u32 {
        match self {
            DatabaseOptions::Sqlite(options) => options.rows_rare_max,
            DatabaseOptions::Server(options) => options.rows_rare_max,
        }
    }

    /// Its name in errors.
    pub fn place(&self) -> String {
        match self {
            DatabaseOptions::Sqlite(options) => options.path.display().to_string(),
            DatabaseOptions::Server(options) => options.place(),
        }
    }
}

/// The `SQLite` file and its limits.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// Created if missing; its folder must exist.
    pub path: PathBuf,
    /// Concurrent reads.
    pub readers_max: u32,
    /// How long a write waits for another process's, and a read for a connection.
    pub busy_timeout: Duration,
    /// Timeout of a read, including the wait for a connection, as [`ServerOptions::timeout`].
    pub timeout: Duration,
    /// Page cache per connection.
    pub page_cache_bytes: u32,
    /// Maximum file size; a write beyond it fails with [`crate::Class::NoSpace`].
    pub bytes_max: Option<u64>,
    /// Monitors the disk's free space, if set.
    pub space: Option<Arc<dyn DiskSpace>>,
    /// Up to this many rows, a filter's comparison is resolved through its index; beyond it rows are tested in the
    /// listing's order.
    pub rows_rare_max: u32,
}

/// The space on the file's disk.
pub trait DiskSpace: fmt::Debug + Send + Sync {
    /// Whether space is so short that `SQLite`'s log must be checkpointed at once and must not grow.
    fn is_short(&self) -> bool;
    /// Called before the retry of a write that found no space: frees some, if possible.
    fn make_room(&self);
}

/// The default. Fetching a single row by an index costs as much as scanning about 20.
const ROWS_RARE_MAX: u32 = 2000;

impl SqliteOptions {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        SqliteOptions {
            path: path.into(),
            readers_max: 4,
            busy_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(10),
            page_cache_bytes: 32 << 20,
            bytes_max: None,
            space: None,
            rows_rare_max: ROWS_RARE_MAX,
        }
    }
}

/// The kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// 13 or newer.
    Postgres,
    /// `MySQL` 8 or `MariaDB` 10.5, or newer.
    Mysql,
}

/// An existing database on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    pub server: Server,
    pub host: Host,
    pub user: String,
    pub password: Option<Secret>,
    pub database: String,
    pub tls: Tls,
    /// Concurrent reads, one per connection; one more connection is for writing.
    pub readers_max: u32,
    /// Timeout of connecting and of a statement, including waits for other writers.
    pub timeout: Duration,
    /// As [`SqliteOptions::rows_rare_max`].
    pub rows_rare_max: u32,
}

impl ServerOptions {
    pub fn new(server: Server, host: Host, user: impl Into<String>, database: impl Into<String>) -> Self {
        ServerOptions {
            server,
            host,
            user: user.into(),
            password: None,
            database: database.into(),
            tls: Tls::default(),
            readers_max: 8,
            timeout: Duration::from_secs(10),
            rows_rare_max: ROWS_RARE_MAX,
        }
    }

    /// The URL without the password.
    pub fn place(&self) -> String {
        let scheme = match self.server {
            Server::Postgres => "postgresql",
            Server::Mysql => "mysql",
        };
        let ServerOptions { host, user, database, .. } = self;
        match host {
            Host::Tcp(name, port) if name.contains(':') => {
                format!("{scheme}://{user}@[{name}]:{port}/{database}")
            }
            Host::Tcp(name, port) => format!("{scheme}://{user}@{name}:{port}/{database}"),
            Host::Socket(path, _) => format!("{scheme}://{user}@/{database} by {}", path.display()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A host name or address, and a port.
    Tcp(String, u16),
    /// `MySQL`: the socket; `PostgreSQL`: the folder of the socket for this port.
    Socket(PathBuf, u16),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    pub mode: TlsMode,
    /// PEM, besides the system's.
    pub root_certificates: Option<PathBuf>,
    /// PEM: client certificate and key.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    Disabled,
    /// TLS if the server supports it and both agree; nothing is verified. As with the servers' own clients.
    #[default]
    Preferred,
    /// Nothing is verified.
    Required,
    /// The certificate is from a trusted authority.
    VerifyCa,
    /// It also names the host.
    VerifyIdentity,
}
