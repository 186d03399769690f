//! Where a database lies, and what may be used there.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use gnudi_model::Secret;

/// Sets what the options of both servers have alike but for the types, and the name of the root certificates.
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
    pub fn rows_rare_max(&self) -> u32 {
        match self {
            DatabaseOptions::Sqlite(options) => options.rows_rare_max,
            DatabaseOptions::Server(options) => options.rows_rare_max,
        }
    }

    /// What errors call it.
    pub fn place(&self) -> String {
        match self {
            DatabaseOptions::Sqlite(options) => options.path.display().to_string(),
            DatabaseOptions::Server(options) => options.place(),
        }
    }
}

/// Where the `SQLite` file lies and what it may use.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// Created where absent; its folder must exist.
    pub path: PathBuf,
    /// How many reads run at once.
    pub readers_max: u32,
    /// How long a write waits for another process's, and a read for a connection.
    pub busy_timeout: Duration,
    /// Memory for pages, per connection.
    pub page_cache_bytes: u32,
    /// How large the file may grow; a write beyond it fails for want of space ([`crate::Class::NoSpace`]).
    pub bytes_max: Option<u64>,
    /// Where somebody looks after the disk's space.
    pub space: Option<Arc<dyn DiskSpace>>,
    /// How many resources a filter's comparison may find to be looked up one by one; others are met in the listing's order.
    pub rows_rare_max: u32,
}

/// The space of the disk on which the file lies.
pub trait DiskSpace: fmt::Debug + Send + Sync {
    /// Whether it is so short that the file's log is folded at once, and does not grow.
    fn is_short(&self) -> bool;
    /// Called when a write finds no space, before it is tried once more: gives some, if it can.
    fn make_room(&self);
}

/// Finding a row by itself costs as much as passing over some 20 others.
const ROWS_RARE_MAX: u32 = 2000;

impl SqliteOptions {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        SqliteOptions {
            path: path.into(),
            readers_max: 4,
            busy_timeout: Duration::from_secs(10),
            page_cache_bytes: 32 << 20,
            bytes_max: None,
            space: None,
            rows_rare_max: ROWS_RARE_MAX,
        }
    }
}

/// What listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// 13 or newer.
    Postgres,
    /// `MySQL` 8 or `MariaDB` 10.5, or newer.
    Mysql,
}

/// A database on a server, which exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    pub server: Server,
    pub host: Host,
    pub user: String,
    pub password: Option<Secret>,
    pub database: String,
    pub tls: Tls,
    /// How many reads run at once, each on a connection of its own. There is one more for writing.
    pub readers_max: u32,
    /// How long a connection or a statement may take, with the wait for other writers.
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

    /// Without the password.
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
    /// A name or an address, and a port.
    Tcp(String, u16),
    /// `MySQL`: the socket; `PostgreSQL`: the folder with the socket of the port.
    Socket(PathBuf, u16),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    pub mode: TlsMode,
    /// PEM, in place of those that the system trusts.
    pub root_certificates: Option<PathBuf>,
    /// PEM: what this side shows, and its key.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    Disabled,
    /// Where the server can; nothing is verified.
    #[default]
    Preferred,
    /// Nothing is verified.
    Required,
    /// The certificate comes from a trusted authority.
    VerifyCa,
    /// It also names the host.
    VerifyIdentity,
}
