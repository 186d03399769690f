//! SQL that differs between the databases.
//!
//! On servers texts are stored as bytes, like ids (`BYTEA`, `VARBINARY`): so they compare by their bytes whatever the
//! server's locale, and may contain any character.

use crate::options::Server;

/// A SQL dialect.
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

    /// Maximum values of a statement.
    pub const fn values_max(self) -> usize {
        match self {
            Dialect::Sqlite => 32_766,
            Dialect::Postgres | Dialect::Mysql => 65_535,
        }
    }

    /// A NULL integer; servers need its type.
    pub const fn no_integer(self) -> &'static str {
        match self {
            Dialect::Sqlite => "NULL",
            Dialect::Postgres => "CAST(NULL AS BIGINT)",
            Dialect::Mysql => "CAST(NULL AS SIGNED)",
        }
    }

    /// A NULL of bytes.
    pub const fn no_bytes(self) -> &'static str {
        match self {
            Dialect::Postgres => "CAST(NULL AS BYTEA)",
            _ => "NULL",
        }
    }

    /// The revision number of current rows ([`gnudi_model::Resource::CURRENT`]).
    pub const fn current(self) -> &'static str {
        match self {
            Dialect::Postgres => "CAST(-1 AS BIGINT)",
            _ => "-1",
        }
    }

    /// A term of ORDER BY. NULL sorts first in `SQLite` and `MySQL`, last in `PostgreSQL`.
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
