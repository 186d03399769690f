//! What the databases write differently.
//!
//! On the servers texts are bytes like ids (`BYTEA`, `VARBINARY`): so they compare by their bytes whatever the server's
//! locale, and any character may be in them.

use crate::options::Server;

/// A way to write SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
    /// Also `MariaDB`'s.
    Mysql,
}

impl From<Server> for Dialect {
    fn from(server: Server) -> Self {
        match server {
            Server::Postgres => Dialect::Postgres,
            Server::Mysql => Dialect::Mysql,
        }
    }
}

impl Dialect {
    pub fn is_server(self) -> bool {
        self != Dialect::Sqlite
    }

    /// An integer that is absent; servers want to know what it is that is absent.
    pub const fn no_integer(self) -> &'static str {
        match self {
            Dialect::Sqlite => "NULL",
            Dialect::Postgres => "CAST(NULL AS BIGINT)",
            Dialect::Mysql => "CAST(NULL AS SIGNED)",
        }
    }

    /// The same of bytes.
    pub const fn no_bytes(self) -> &'static str {
        match self {
            Dialect::Postgres => "CAST(NULL AS BYTEA)",
            _ => "NULL",
        }
    }

    /// The number of what is current ([`gnudi_model::Resource::CURRENT`]).
    pub const fn current(self) -> &'static str {
        match self {
            Dialect::Postgres => "CAST(-1 AS BIGINT)",
            _ => "-1",
        }
    }

    /// A term of ORDER BY. `SQLite` and `MySQL` take NULL for the least of values, `PostgreSQL` for the greatest.
    pub fn order_term(self, key: &str, ascending: bool, is_nullable: bool, nulls_first: bool) -> String {
        let direction = if ascending { "ASC" } else { "DESC" };
        let nulls = if nulls_first { "FIRST" } else { "LAST" };
        let is_usual = ascending == nulls_first;
        match self {
            _ if !is_nullable => format!("{key} {direction}"),
            Dialect::Sqlite | Dialect::Mysql if is_usual => format!("{key} {direction}"),
            Dialect::Sqlite | Dialect::Postgres => format!("{key} {direction} NULLS {nulls}"),
            Dialect::Mysql => {
                format!("{key} IS NULL {}, {key} {direction}", if nulls_first { "DESC" } else { "ASC" })
            }
        }
    }
}
