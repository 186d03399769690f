//! `SQLite`, `PostgreSQL` and `MySQL` or `MariaDB` behind one interface: URLs and options, connections, pools of
//! readers, statements, rows, and classified errors.
//!
//! One file per database connects and binds values; `dialect.rs` has the differences in SQL. Nothing here knows the
//! schema.

mod buffer;
mod checkpoint;
mod connection;
mod dialect;
mod error;
mod idle;
mod mysql;
mod options;
mod permits;
mod pool;
mod postgres;
mod readers;
mod row;
pub mod sqlite;
mod statement;
mod url;

pub use checkpoint::{CheckpointFailure, Checkpoints};
pub use connection::{Connection, Connector, Purpose};
pub use dialect::Dialect;
pub use error::{
    Class, class, is_foreign_key_violation, is_lasting, is_lost, is_missing_table, is_unique_violation,
    reason,
};
pub use idle::{IdleConnections, OpenConnection};
pub use options::{DatabaseOptions, DiskSpace, Host, Server, ServerOptions, SqliteOptions, Tls, TlsMode};
pub use pool::Pool;
pub use row::{Column, Row};
pub use sqlx::Error;
pub use statement::{Statement, Value};
pub use url::InvalidUrl;
